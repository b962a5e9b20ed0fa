"""`dlfh evaluate`: measure the retrieval quality of a collection, a model, or codes in files."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer

from dlfh.cli.encode import place_of
from dlfh.cli.options import AsJson, ItemOptions, Quiet, argument, check_unset, load_encoder, open_collection, option
from dlfh.cli.output import print_calibration, print_json, print_problems, print_quality
from dlfh.errors import InputError

_codes = functools.partial(option, panel="Codes in files")


@dataclass(frozen=True)
class QueryItems(ItemOptions):
    """Options that select the queries."""

    source: Path | None = argument(
        "Queries: a folder of images, a table or an array file, as for `dlfh build`; or codes in a file.",
        "QUERIES",
        None,
    )


@dataclass(frozen=True)
class CodeOptions:
    """Options for codes in files."""

    query_labels: str | None = _codes("Labels of the queries: FILE or FILE:NAME.")
    database_labels: str | None = _codes("Labels of the database, in its order.")
    measure: list[str] | None = _codes("Such as AP@50 or nDCG@10; repeatable.", show_default="AP", metavar="MEASURE")
    ties: str = _codes(
        "Ranking of ties: order (as in the database) or expected (mean over all orders).", default="order"
    )
    cluster: str | None = _codes(
        "Rank on a Dask cluster: its scheduler's address, or local for processes on this machine."
    )


def evaluate(
    *,
    database: Path = argument("Folder of a collection or a model; or codes in a file: FILE or FILE:NAME.", "DATABASE"),
    items: QueryItems,
    codes: CodeOptions,
    queries: int | None = option("For a model: number of items to use as queries; the others are the database."),
    seed: int = option("Random seed for choosing the queries.", default=0),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure retrieval quality: items that share a label with a query are relevant to it.

    With a collection, the given items are used as queries. With a model, --queries is the number of items to use as
    queries; the others are the database, and the hash functions encode all of them. The report has mean average
    precision (MAP) by Hamming and asymmetric ranking and, for the latter, nDCG@10 and "exact": the share of the first
    five results that have exactly the query's labels.

    For codes in files, DATABASE and QUERIES are files, and --query-labels and --database-labels are required. Files are
    .npy, .npz, .mat, .h5, .safetensors, .zarr or .parquet, or folders of Parquet files as written by `dlfh encode`;
    FILE:NAME selects a variable or column. Codes are packed bits (uint8), 0 and 1, -1 and +1, or booleans; queries may
    also be real values, for asymmetric ranking. Packed codes in .npy, .h5, .mat (MATLAB 7.3), .zarr or .parquet need
    not fit in memory. Labels are rows of 0 and 1, or class ids. Measures are AP (its mean is MAP), P, R, nDCG, PR and
    PRH, with a cut-off as in AP@50 and options as in 'P(match="all")@5'. A query without relevant items counts as 0.

    [b]Examples[/b]
    $ dlfh evaluate shop/ test.csv --image file --text caption --labels tags
    $ dlfh evaluate model/ data.mat --vectors image=I_te --vectors text=T_te --labels L_te --queries 200
    $ dlfh evaluate codes.parquet:image queries.parquet:text --query-labels q.npy --database-labels l.npy
    $ dlfh evaluate codes.npy queries.npy --query-labels q.npy --database-labels l.npy --measure nDCG@10 --cluster local
    """
    if codes.query_labels is not None and codes.database_labels is not None:
        if items.source is None or items.names_columns():
            raise InputError("to evaluate codes in files, pass DATABASE and QUERIES, and no options of input data")
        _evaluate_codes(str(database), str(items.source), codes, as_json)
        return
    check_unset(codes, (), "applies only to codes in files, which need --query-labels and --database-labels")
    _evaluate_items(database, items, queries, seed, as_json=as_json, verbose=not quiet and not as_json)


def _evaluate_items(
    path: Path, items: ItemOptions, n_queries: int | None, seed: int, *, as_json: bool, verbose: bool
) -> None:
    from dlfh.collection.evaluation import fit_and_evaluate
    from dlfh.collection.folder import is_collection

    if is_collection(path):
        if n_queries is not None:
            kind = "is a collection, and all given items are queries"
            raise InputError(f"--queries applies only to models: {path} {kind}")
        with open_collection(path, verbose=verbose) as collection:
            report = collection.evaluate(items.read(collection.encoder.modalities_, part="queries"))
    else:
        encoder = load_encoder(path, verbose)
        if n_queries is None or n_queries < 1:
            remedy = "set --queries to the number of items to use as queries"
            raise InputError(f"{path} is a model, which contains no items: {remedy}")
        read = items.read(encoder.modalities_, part="queries")
        parts = fit_and_evaluate(encoder, read, n_queries, fit=False, random_state=seed)
        problems = [*read.problems, *parts.query_vectors.problems, *parts.database_vectors.problems]
        report = replace(parts.report, problems=problems)
    if as_json:
        print_json(asdict(report))
    else:
        print_problems(report.problems)
        print_quality(report.quality, "MAP over the whole ranking; ties in database order")
        print_calibration(report.calibration)


def _evaluate_codes(database: str, queries: str, options: CodeOptions, as_json: bool) -> None:
    """Evaluate codes in files by Hamming distance; the database is read block by block."""
    import numpy as np

    from dlfh.blocks.base import Blocks
    from dlfh.blocks.dask import connect
    from dlfh.datasets.arrays import open_matrix
    from dlfh.datasets.code_files import pack_codes
    from dlfh.metrics import evaluate as evaluate_codes
    from dlfh.metrics.measures import parse_measure

    def whole(matrix: Any) -> Any:
        return matrix.take(np.arange(len(matrix))) if isinstance(matrix, Blocks) else matrix

    def open_labels(value: Any) -> Any:
        labels = open_matrix(*place_of(value))
        is_column = not isinstance(labels, Blocks) and labels.shape[1:] == (1,)  # MATLAB stores class ids as a column
        return np.ravel(labels) if is_column else labels

    def to_plain(value: Any) -> Any:  # a curve becomes lists
        is_number = isinstance(value, float)
        return value if is_number else {name: part.tolist() for name, part in value._asdict().items()}

    measures = [parse_measure(name) for name in options.measure or ["AP"]]
    asked, items = whole(open_matrix(*place_of(queries))), open_matrix(*place_of(database))
    query_labels, labels = whole(open_labels(options.query_labels)), open_labels(options.database_labels)
    if asked.dtype.kind == "f" and not np.isin(asked, (-1, 0, 1)).all():  # real values, for asymmetric ranking
        items = pack_codes({database: whole(items)})[0][database]
    elif not isinstance(items, Blocks) or {items.dtype, asked.dtype} != {np.dtype("u1")} or asked.max(initial=0) < 2:
        asked, items = pack_codes({queries: asked, database: whole(items)})[0].values()
    ties: Any = options.ties
    with connect(options.cluster):
        result = evaluate_codes(asked, items, query_labels, labels, measures=measures, ties=ties)
    if not as_json:
        typer.echo(repr(result))
        return
    values = {name: to_plain(value) for name, value in result.to_dict().items()}
    print_json({"queries": result.n_queries, "items": result.n_items, "ties": ties, "measures": values})
