"""`dlfh methods` and `dlfh cite`: list the hashing methods, and print references for them."""

from __future__ import annotations

import typer

from dlfh.cli.options import AsJson, argument, option
from dlfh.cli.output import print_json, print_table
from dlfh.errors import InputError


def methods(as_json: AsJson = False) -> None:
    """List the hashing methods.

    [b]Example[/b]
    $ dlfh methods
    """
    from dlfh.methods import available

    listed = available()
    if as_json:
        keys = ("title", "paper", "supervised", "complexity")
        print_json({name: {key: getattr(info, key) for key in keys} for name, info in listed.items()})
        return
    print_table(
        "",
        ("method", "title", "learns from", "database codes", "paper"),
        [
            (name, info.title, "labels" if info.supervised else "pairs", ", ".join(info.protocols), info.paper)
            for name, info in listed.items()
        ],
    )


def cite(
    methods: list[str] | None = argument("Method names, as listed by `dlfh methods`.", "METHOD", None),
    cite_all: bool = option("Cite every method.", "--all", default=False),
) -> None:
    """Print BibTeX entries for the papers that introduced the methods.

    Bibliographic details that could not be verified are omitted.

    [b]Examples[/b]
    $ dlfh cite DLFH SePH
    $ dlfh cite --all
    """
    from dlfh.methods.catalogue import citations

    if not methods and not cite_all:
        raise InputError("name at least one method, or use --all; `dlfh methods` lists them")
    typer.echo(citations(None if cite_all else methods))
