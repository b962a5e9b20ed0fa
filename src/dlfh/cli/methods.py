"""`dlfh methods`: list the hashing methods."""

from __future__ import annotations

from dlfh.cli.options import AsJson
from dlfh.cli.output import print_json, print_table


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
