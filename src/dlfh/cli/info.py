"""`dlfh info`: describe a collection, an index, a model, a table or an array file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh.cli.options import AsJson
from dlfh.cli.output import print_json, print_table
from dlfh.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.index import Index


def info(
    path: Annotated[
        Path,
        typer.Argument(help="Folder of a collection, an index or a model; or a table or array file.", metavar="PATH"),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every file of a collection or an index against its checksum.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="Text encoding of a table.")] = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Describe a collection, an index, a model, a table or an array file.

    [b]Examples[/b]

    $ dlfh info shop/ --verify

    $ dlfh info data.mat
    """
    from dlfh.cli.models import open_collection
    from dlfh.collection.folder import is_collection
    from dlfh.datasets.tables import TABLE_SUFFIXES
    from dlfh.index import Index
    from dlfh.index.manifest import MANIFEST

    if not path.exists():
        raise InputError(f"{path} does not exist")
    if is_collection(path):
        with open_collection(path) as collection:
            if verify:
                collection.verify()
            features = {name: repr(featurizer) for name, featurizer in collection.encoder.featurizers_.items()}
            about = {"method": type(collection.encoder.model_).__name__, "features": features}
            _show_index("collection", path, collection.index, collection.encoder.modalities_, about, verify, as_json)
    elif (path / MANIFEST).exists():
        with Index.open(path) as index:
            if verify:
                index.verify()
            _show_index("index", path, index, index.modalities, {}, verify, as_json)
    elif verify:
        raise InputError(f"--verify applies only to collections and indexes, but {path} is neither")
    elif path.is_dir():
        _show_model(path, as_json)
    elif path.suffix.lower() in TABLE_SUFFIXES:
        _show_table(path, encoding, as_json)
    else:
        _show_arrays(path, as_json)


def _show_index(
    kind: str, path: Path, index: Index, modalities: Sequence[str], about: dict[str, Any], verified: bool, as_json: bool
) -> None:
    counts = {name: {state: index.count(name, state) for state in ("learned", "hashed")} for name in modalities}
    if as_json:
        print_json({kind: str(path), "items": len(index), "bits": index.n_bits, **about, "codes": counts})
        return
    features = about.get("features", {})
    facts = [f"{len(index):,} items", f"{index.n_bits} bits", *([about["method"]] if about else [])]
    print_table(
        f"{path}: {', '.join(facts)}" + (", all checksums match" if verified else ""),
        ("modality", "learned codes", "hashed codes", *(["features"] if features else [])),
        [
            (name, f"{count['learned']:,}", f"{count['hashed']:,}", *([features[name]] if features else []))
            for name, count in counts.items()
        ],
    )


def _show_model(path: Path, as_json: bool) -> None:
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
        f"{path}: {summary['method']}, {summary['bits']} bits, trained on {summary['trained']:,} items",
        ("modality", "features", "dimensions", "hash function"),
        [(name, *values.values()) for name, values in summary["modalities"].items()],
    )


def _show_table(path: Path, encoding: str, as_json: bool) -> None:
    from dlfh.datasets.tables import read_table

    table = read_table(path, encoding=encoding)
    filled = {name: sum(row[place] not in (None, "") for row in table.rows) for place, name in enumerate(table.columns)}
    first = dict(zip(table.columns, table.rows[0], strict=True)) if table.rows else {}
    if as_json:
        print_json({"table": str(path), "rows": len(table.rows), "filled": filled})
        return
    print_table(
        f"{path}: {len(table.rows):,} rows" + (f", and {len(table.problems)} unreadable" if table.problems else ""),
        ("column", "non-empty cells", "first value"),
        [(name, f"{filled[name]:,}", str(first.get(name, ""))[:60]) for name in table.columns],
    )


def _show_arrays(path: Path, as_json: bool) -> None:
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
            (
                name,
                " × ".join(f"{n:,}" for n in array["shape"]),
                array["type"] + (", sparse" if array["sparse"] else ""),
            )
            for name, array in arrays.items()
        ],
    )
