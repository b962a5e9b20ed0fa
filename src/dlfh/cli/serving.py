"""`dlfh serve`: a collection for browsers and programs, over HTTP."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for one that is free.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which the service is called, besides localhost; repeated.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File of a token that requests must carry. Default: DLFH_TOKEN, or none.", show_default=False
        ),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let items be added and removed; needs a token.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Threads that find answers.", show_default=False)
    ] = None,
) -> None:
    """Serve a collection: a page to search it in a browser, and JSON for programs.

    Only this machine can ask, unless --host says otherwise. A collection that another process changes is picked up
    while it is served.

    [b]Examples[/b]

    $ dlfh serve shop/

    $ DLFH_TOKEN=... dlfh serve shop/ --host 0.0.0.0 --allow-host search.example.org --writable
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers are the threads
    from dlfh._optional import require

    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(module, "serving", "serve")
    from dlfh.service import Settings
    from dlfh.service import serve as serve_collection
    from dlfh.service.settings import LOOPBACK, read_token

    hosts = [*(allow_host or ()), *([] if host in ("0.0.0.0", "::") else [host])]
    settings = Settings(token=read_token(token_file), writable=writable, hosts=tuple(hosts))
    if workers is not None:
        settings = replace(settings, workers=workers)

    def say(address: str) -> None:
        who = "this machine alone can ask" if host in LOOPBACK else "every machine that reaches it can ask"
        token = ", with the token" if settings.token else ""
        print(f"{collection} is served at {address} ({who}{token}); Ctrl-C ends it", flush=True)

    serve_collection(collection, settings, host=host, port=port, on_ready=say)
