"""`dlfh cite`: print references for methods."""

from __future__ import annotations

from typing import Annotated

import typer

from dlfh.errors import InputError


def cite(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Method names, as listed by `dlfh methods`.", metavar="METHOD")
    ] = None,
    cite_all: Annotated[bool, typer.Option("--all", help="Cite every method.")] = False,
) -> None:
    """Print BibTeX entries for the papers that introduced the methods.

    Bibliographic details that could not be verified are omitted.

    [b]Examples[/b]

    $ dlfh cite DLFH SePH

    $ dlfh cite --all
    """
    from dlfh.methods.citations import citations

    if not methods and not cite_all:
        raise InputError("name at least one method, or use --all; `dlfh methods` lists them")
    typer.echo(citations(None if cite_all else methods))
