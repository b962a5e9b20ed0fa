"""`dlfh serve`: serve a collection over HTTP."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlfh.cli.options import argument, option


def serve(
    collection: list[Path] = argument("Folder of a collection, or several folders.", "COLLECTION..."),
    host: str = option("Address to listen on; 0.0.0.0 accepts connections from other machines.", default="127.0.0.1"),
    port: int = option("Port to listen on; 0 picks a free one.", default=8000, min=0, max=65535),
    allow_host: list[str] | None = option("Host name that clients may use; repeatable.", metavar="NAME"),
    pictures: list[Path] | None = option("Folder of pictures to show; repeatable.", file_okay=False, metavar="FOLDER"),
    originals: bool = option("Let clients download original pictures, with their metadata.", default=False),
    title: str | None = option(
        "Column with the titles of items. Default: as chosen by `dlfh build`.", metavar="COLUMN"
    ),
    keys: Path | None = option("File of keys, see `dlfh key`. $DLFH_TOKEN is a further key, with the role admin."),
    public: bool = option("Let clients without a key read.", default=False),
    writable: bool = option("Allow changes by clients whose key has the role write or admin.", default=False),
    allow_origin: list[str] | None = option("Origin of web pages that may use the service; repeatable.", metavar="URL"),
    queries: Path | None = option("Folder that keeps uploaded query images, for links to searches.", file_okay=False),
    workers: int | None = option("Number of search threads.", min=1, max=64),
) -> None:
    """Serve collections over HTTP: a search page for browsers and a JSON API for programs.

    By default, only this machine can connect; see --host. The service picks up changes that other processes make to
    the collection.

    [b]Examples[/b]
    $ dlfh serve shop/ --pictures PHOTOS/

    $ dlfh serve shops/*     [dim](each at /c/NAME/; / lists them)[/dim]

    $ dlfh serve shop/ --host 0.0.0.0 --allow-host search.example.org

    $ dlfh serve shop/ --keys keys.txt --public --writable     [dim](everybody reads, `dlfh key` says who writes)[/dim]
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # parallelism comes from the search threads
    from dlfh._imports import require

    for module in ("fastapi", "fastapi_swagger", "uvicorn", "python_multipart", "prometheus_client"):
        require(module, "serving", "serve")
    from dlfh.service import Settings
    from dlfh.service import serve as serve_collection
    from dlfh.service.answering import THREAD_NAME
    from dlfh.service.settings import LOOPBACK

    hosts = (*(allow_host or ()), *([] if host in ("0.0.0.0", "::") else [host]))
    shown: dict[str, Any] = {"pictures": tuple(pictures or ()), "originals": originals, "title": title}
    shown |= {"queries": queries, "keys": keys, "public": public, "origins": tuple(allow_origin or ())}
    settings = Settings(token=os.environ.get("DLFH_TOKEN") or None, writable=writable, hosts=hosts, **shown)
    if workers is not None:
        settings = replace(settings, workers=workers)

    def announce(address: str) -> None:
        access = "this machine only" if host in LOOPBACK else "any machine that can reach it"
        needed = ", key required" if (settings.token or keys) and not public else ""
        named = str(collection[0]) if len(collection) == 1 else f"{len(collection)} collections"
        print(f"serving {named} at {address} ({access}{needed}); press Ctrl-C to stop", flush=True)

    serve_collection(
        collection[0] if len(collection) == 1 else collection, settings, host=host, port=port, on_ready=announce
    )
    if any(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate()):
        # Python would wait for slow searches. No change is lost: acknowledged changes are on disk.
        sys.stdout.flush()
        os._exit(0)


def key(
    file: Path = argument("File of keys, created if necessary.", "FILE"),
    name: str = argument("Name of the key: whose it is, or what it is for.", "NAME"),
    role: str = option("What the key permits: read, write or admin.", default="read"),
    revoke: bool = option("Remove the key instead; services notice at once.", default=False),
) -> None:
    """Create or revoke a key of a service.

    The key is printed once; the file has only its hash. The role admin may also let the collection learn again.

    [b]Examples[/b]
    $ dlfh key keys.txt alice --role write

    $ dlfh key keys.txt alice --revoke
    """
    from dlfh._validation import check_choice
    from dlfh.service.keys import ROLES, create_key, revoke_key

    if revoke:
        revoke_key(file, name)
        print(f"{name} is revoked")
    else:
        check_choice(role, "role", ROLES)
        print(create_key(file, name, role))  # type: ignore[arg-type]
