"""`dlfh cite`: whom to cite for a method."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["cite"]


def cite(
    methods: Annotated[list[str] | None, typer.Argument(help="Methods, as dlfh methods lists them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="The papers of all methods.")] = False,
) -> None:
    """Print BibTeX of the papers of methods. Details that could not be made sure of are left out.

    [b]Examples[/b]

    $ dlfh cite DLFH SePH

    $ dlfh cite --all
    """
    from dlfh.errors import InputError
    from dlfh.methods.citations import citations

    if not methods and not every:
        raise InputError("name a method, or all of them with --all: dlfh methods lists what there is")
    typer.echo(citations(None if every else methods))
