"""`dlfh serve`: serve a collection over HTTP."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlfh.cli.options import CollectionFolder, option


def serve(
    collection: CollectionFolder,
    host: str = option("Address to listen on; 0.0.0.0 accepts connections from other machines.", default="127.0.0.1"),
    port: int = option("Port to listen on; 0 picks a free one.", default=8000, min=0, max=65535),
    allow_host: list[str] | None = option("Host name that clients may use; repeatable.", metavar="NAME"),
    pictures: list[Path] | None = option("Folder of pictures to show; repeatable.", file_okay=False, metavar="FOLDER"),
    originals: bool = option("Let clients download original pictures, with their metadata.", default=False),
    title: str | None = option(
        "Column with the titles of items. Default: as chosen by `dlfh build`.", metavar="COLUMN"
    ),
    token_file: Path | None = option(
        "File with the token that requests must carry. Default: $DLFH_TOKEN, or no token."
    ),
    writable: bool = option("Allow clients to add and remove items; requires a token.", default=False),
    workers: int | None = option("Number of search threads.", min=1, max=64),
) -> None:
    """Serve a collection over HTTP: a search page for browsers and a JSON API for programs.

    By default, only this machine can connect; see --host. The service picks up changes that other processes make to
    the collection.

    [b]Examples[/b]
    $ dlfh serve shop/ --pictures PHOTOS/

    $ DLFH_TOKEN=... dlfh serve shop/ --host 0.0.0.0 --allow-host search.example.org --writable
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # parallelism comes from the search threads
    from dlfh._imports import require

    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(module, "serving", "serve")
    from dlfh.service import Settings
    from dlfh.service import serve as serve_collection
    from dlfh.service.answering import THREAD_NAME
    from dlfh.service.settings import LOOPBACK, read_token

    hosts = (*(allow_host or ()), *([] if host in ("0.0.0.0", "::") else [host]))
    shown: dict[str, Any] = {"pictures": tuple(pictures or ()), "originals": originals, "title": title}
    settings = Settings(token=read_token(token_file), writable=writable, hosts=hosts, **shown)
    if workers is not None:
        settings = replace(settings, workers=workers)

    def announce(address: str) -> None:
        access = "this machine only" if host in LOOPBACK else "any machine that can reach it"
        token = ", token required" if settings.token else ""
        print(f"serving {collection} at {address} ({access}{token}); press Ctrl-C to stop", flush=True)

    serve_collection(collection, settings, host=host, port=port, on_ready=announce)
    if any(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate()):
        # Python would wait for slow searches. No change is lost: acknowledged changes are on disk.
        sys.stdout.flush()
        os._exit(0)
