"""`dlfh info`, `dlfh methods` and `dlfh cite`: describe data, models and collections, and hashing methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlfh.cli.options import AsJson, argument, load_encoder, open_collection, option
from dlfh.cli.output import print_json, print_table
from dlfh.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.index import Index

    #: A summary for JSON; the title, columns and rows of a table for people.
    _Description = tuple[dict[str, Any], str, Sequence[str], list[tuple[Any, ...]]]


def info(
    path: Path = argument("Folder of a collection, an index or a model; or a table or array file.", "PATH"),
    verify: bool = option("Check every file of a collection or an index against its checksum.", default=False),
    encoding: str = option("Text encoding of a table.", default="utf-8"),
    as_json: AsJson = False,
) -> None:
    """Describe a collection, an index, a model, a table or an array file.

    [b]Examples[/b]
    $ dlfh info shop/ --verify
    $ dlfh info data.mat
    """
    from dlfh.collection.folder import is_collection
    from dlfh.datasets.tables import TABLE_SUFFIXES
    from dlfh.index import Index
    from dlfh.index.files import MANIFEST

    if not path.exists():
        raise InputError(f"{path} does not exist")
    if is_collection(path):
        with open_collection(path) as collection:
            if verify:
                collection.verify()
            features = {name: repr(featurizer) for name, featurizer in collection.encoder.featurizers_.items()}
            about = {"method": type(collection.encoder.model_).__name__, "features": features}
            described = _describe_index("collection", path, collection.index, [*features], about, verify)
    elif (path / MANIFEST).exists():
        with Index.open(path) as index:
            if verify:
                index.verify()
            described = _describe_index("index", path, index, index.modalities, {}, verify)
    elif verify:
        raise InputError(f"--verify applies only to collections and indexes, but {path} is neither")
    elif path.is_dir():
        described = _describe_model(path)
    elif path.suffix.lower() in TABLE_SUFFIXES:
        described = _describe_table(path, encoding)
    else:
        described = _describe_arrays(path)
    summary, title, columns, rows = described
    if as_json:
        print_json(summary)
    else:
        print_table(title, columns, rows)


def _describe_index(
    kind: str, path: Path, index: Index, modalities: Sequence[str], about: dict[str, Any], verified: bool
) -> _Description:
    counts = {name: {state: index.count(name, state) for state in ("learned", "hashed")} for name in modalities}
    features = about.get("features", {})
    facts = [f"{len(index):,} items", f"{index.n_bits} bits", *([about["method"]] if about else [])]
    return (
        {kind: str(path), "items": len(index), "bits": index.n_bits, **about, "codes": counts},
        f"{path}: {', '.join(facts)}" + (", all checksums match" if verified else ""),
        ("modality", "learned codes", "hashed codes", *(["features"] if features else [])),
        [
            (name, f"{count['learned']:,}", f"{count['hashed']:,}", *([features[name]] if features else []))
            for name, count in counts.items()
        ],
    )


def _describe_model(path: Path) -> _Description:
    encoder = load_encoder(path)
    model = encoder.model_
    modalities = {name: encoder.describe(name) for name in model.modalities_}
    method, n_trained = type(model).__name__, len(next(iter(model.codes_.values())))
    about = {"method": method, "bits": model.n_bits, "trained": n_trained}
    return (
        {"model": str(path), **about, "modalities": modalities},
        f"{path}: {method}, {model.n_bits} bits, trained on {n_trained:,} items",
        ("modality", "features", "dimensions", "hash function"),
        [(name, *values.values()) for name, values in modalities.items()],
    )


def _describe_table(path: Path, encoding: str) -> _Description:
    from dlfh.datasets.tables import read_table

    table = read_table(path, encoding=encoding)
    filled = {name: sum(row[place] not in (None, "") for row in table.rows) for place, name in enumerate(table.columns)}
    first = dict(zip(table.columns, table.rows[0], strict=True)) if table.rows else {}
    return (
        {"table": str(path), "rows": len(table.rows), "filled": filled},
        f"{path}: {len(table.rows):,} rows" + (f", and {len(table.problems)} unreadable" if table.problems else ""),
        ("column", "non-empty cells", "first value"),
        [(name, f"{filled[name]:,}", str(first.get(name, ""))[:60]) for name in table.columns],
    )


def _describe_arrays(path: Path) -> _Description:
    import scipy.sparse as sp

    from dlfh.datasets import read_arrays

    facts, rows = {}, []
    for name, array in read_arrays(path).items():
        shape, kind, is_sparse = list(array.shape), str(array.dtype), bool(sp.issparse(array))
        facts[name] = {"shape": shape, "type": kind, "sparse": is_sparse}
        rows.append((name, " × ".join(f"{n:,}" for n in shape), kind + (", sparse" if is_sparse else "")))
    return {"file": str(path), "arrays": facts}, str(path), ("array", "shape", "type"), rows


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
    rows = [
        (name, info.title, "labels" if info.supervised else "pairs", ", ".join(info.protocols), info.paper)
        for name, info in listed.items()
    ]
    print_table("", ("method", "title", "learns from", "database codes", "paper"), rows)


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
