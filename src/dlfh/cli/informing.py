"""`dlfh info` and `dlfh methods`: what a folder or file holds, and what there is to learn with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlfh.cli.options import AsJson
from dlfh.cli.printing import print_json, print_table

__all__ = ["info", "methods"]


def info(
    path: Annotated[
        Path, typer.Argument(help="A model, a collection, a table or a file of arrays.", show_default=False)
    ],
    encoding: Annotated[str, typer.Option(help="How a table is encoded.")] = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Say what a model, a collection, a table or a file of arrays holds.

    [b]Examples[/b]

    $ dlfh info shop/

    $ dlfh info data.mat
    """
    from dlfh.cli import indexing
    from dlfh.collection.folder import is_collection
    from dlfh.datasets.tables import TABLE_SUFFIXES
    from dlfh.errors import InputError

    if not path.exists():
        raise InputError(f"there is nothing at {path}")
    if is_collection(path):
        indexing.info(path, as_json=as_json)
    elif path.is_dir():
        _model_info(path, as_json)
    elif path.suffix.lower() in TABLE_SUFFIXES:
        _table_info(path, encoding, as_json)
    else:
        _array_info(path, as_json)


def methods(as_json: AsJson = False) -> None:
    """List the methods that can be learned with.

    [b]Example[/b]

    $ dlfh methods
    """
    from dlfh.methods import available

    listed = available()
    if as_json:
        print_json(
            {
                name: {
                    "title": info.title,
                    "paper": info.paper,
                    "supervised": info.supervised,
                    "complexity": info.complexity,
                }
                for name, info in listed.items()
            }
        )
        return
    print_table(
        "",
        ("method", "title", "learns from", "codes of a database", "paper"),
        [
            (name, info.title, "labels" if info.supervised else "pairs", ", ".join(info.protocols), info.paper)
            for name, info in listed.items()
        ],
    )


def _model_info(path: Path, as_json: bool) -> None:
    from dlfh.cli.models import load_encoder

    encoder = load_encoder(path)
    model = encoder.model_
    chosen: dict[str, Any] = getattr(model, "chosen_", {})
    summary: dict[str, Any] = {
        "model": str(path),
        "method": type(model).__name__,
        "bits": model.n_bits,
        "trained": len(next(iter(model.codes_.values()))),
        "modalities": {
            name: {
                "features": repr(encoder.featurizers_[name]),
                "n_features": model.n_features_[name],
                "hash_function": repr(chosen[name]) if name in chosen else model.hash_functions_[name].kind,
            }
            for name in model.modalities_
        },
    }
    if as_json:
        print_json(summary)
        return
    print_table(
        f"{path}: {summary['method']}, {summary['bits']} bits, learned from {summary['trained']:,} items",
        ("modality", "features", "numbers", "hash function"),
        [(name, *own.values()) for name, own in summary["modalities"].items()],
    )


def _table_info(path: Path, encoding: str, as_json: bool) -> None:
    from dlfh.datasets.tables import read_table

    table = read_table(path, encoding=encoding)
    filled = {name: sum(row[place] not in (None, "") for row in table.rows) for place, name in enumerate(table.columns)}
    first = dict(zip(table.columns, table.rows[0], strict=True)) if table.rows else {}
    if as_json:
        print_json({"table": str(path), "rows": len(table.rows), "filled": filled})
        return
    print_table(
        f"{path}: {len(table.rows):,} rows" + (f", {len(table.problems)} more are broken" if table.problems else ""),
        ("column", "cells filled", "for example"),
        [(name, f"{filled[name]:,}", str(first.get(name, ""))[:60]) for name in table.columns],
    )


def _array_info(path: Path, as_json: bool) -> None:
    import scipy.sparse as sp

    from dlfh.datasets import read_arrays

    arrays: dict[str, dict[str, Any]] = {
        name: {"shape": list(array.shape), "type": str(array.dtype), "sparse": bool(sp.issparse(array))}
        for name, array in read_arrays(path).items()
    }
    if as_json:
        print_json({"file": str(path), "arrays": arrays})
        return
    print_table(
        str(path),
        ("array", "shape", "type"),
        [
            (name, " × ".join(f"{n:,}" for n in own["shape"]), own["type"] + (", sparse" if own["sparse"] else ""))
            for name, own in arrays.items()
        ],
    )
