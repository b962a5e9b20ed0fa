"""`dlfh evaluate`: measure retrieval quality of a collection, a model, or codes in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dlfh.cli.options import AsJson, ItemOptions, Quiet, place_of, with_options
from dlfh.cli.output import print_calibration, print_json, print_problems, print_quality

_CODES = "Codes in files"


@dataclass(frozen=True)
class QueryItems(ItemOptions):
    """Options that select the queries."""

    source: Annotated[
        Path | None,
        typer.Argument(
            help="Queries: a folder of images, a table or an array file, as for `dlfh build`; or codes in a file.",
            metavar="QUERIES",
            show_default=False,
        ),
    ] = None


@with_options(items=QueryItems)
def evaluate(
    database: Annotated[
        Path,
        typer.Argument(
            help="Folder of a collection or a model; or codes in a file: FILE or FILE:NAME.",
            metavar="DATABASE",
            show_default=False,
        ),
    ],
    items: QueryItems,
    queries: Annotated[
        int | None,
        typer.Option(
            help="For a model: number of items to use as queries; the others are the database.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for choosing the queries.")] = 0,
    query_labels: Annotated[
        str | None,
        typer.Option(help="Labels of the queries: FILE or FILE:NAME.", show_default=False, rich_help_panel=_CODES),
    ] = None,
    database_labels: Annotated[
        str | None,
        typer.Option(help="Labels of the database, in its order.", show_default=False, rich_help_panel=_CODES),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            help="Measure, such as AP@50 or nDCG@10; repeatable.",
            show_default="AP",
            rich_help_panel=_CODES,
        ),
    ] = None,
    ties: Annotated[
        str,
        typer.Option(
            help="How to rank ties: order (database order) or expected (mean over all orders).", rich_help_panel=_CODES
        ),
    ] = "order",
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Rank blocks on a Dask cluster: the scheduler's address, or local for processes on this machine.",
            show_default=False,
            rich_help_panel=_CODES,
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure retrieval quality: items that share a label with a query are relevant to it.

    With a collection, the given items are queries for the collection. With a model, --queries of the items are queries
    for the others, all of them encoded by the hash functions. The report has mean average precision (MAP) by Hamming
    and asymmetric ranking and, for the latter, nDCG@10 and "exact": the share of the first five results that have
    exactly the query's labels.

    For codes in files, DATABASE and QUERIES are files, and --query-labels and --database-labels are required. Files are
    .npy, .h5, .mat (MATLAB 7.3), .zarr or .parquet, or folders of Parquet files as written by `dlfh encode`; NAME is a
    variable or column. The database need not fit in memory. Labels are rows of 0 and 1, or a vector of class ids.
    Measures are AP (its mean is MAP), P, R, nDCG, PR and PRH, with a cut-off as in AP@50 and options as in
    'P(match="all")@5'. A query without relevant items counts as 0.

    [b]Examples[/b]

    $ dlfh evaluate shop/ test.csv --image file --text caption --labels tags

    $ dlfh evaluate model/ data.mat --vectors image=I_te --vectors text=T_te --labels L_te --queries 200

    $ dlfh evaluate codes.parquet:image queries.parquet:text --query-labels q.npy --database-labels l.npy

    $ dlfh evaluate codes.npy queries.npy --query-labels q.npy --database-labels l.npy --measure nDCG@10 --cluster local
    """
    from dlfh.errors import InputError

    labels = {"--query-labels": query_labels, "--database-labels": database_labels}
    if query_labels is not None and database_labels is not None:
        if items.source is None or items.names_columns():
            raise InputError("codes in files take two arguments, DATABASE and QUERIES, and no input data options")
        _evaluate_codes(
            str(items.source), str(database), query_labels, database_labels, measures or ["AP"], ties, cluster, as_json
        )
        return
    for option, value in {**labels, "--measure": measures, "--cluster": cluster}.items():
        if value is not None:
            raise InputError(f"{option} is for codes in files, which need both --query-labels and --database-labels")
    _evaluate_items(database, items, queries, seed, as_json=as_json, verbose=not quiet and not as_json)


def _evaluate_items(
    path: Path, items: ItemOptions, n_queries: int | None, seed: int, *, as_json: bool, verbose: bool
) -> None:
    """Evaluate a collection or a model on items."""
    from dlfh.cli.models import load_encoder, open_collection
    from dlfh.collection.evaluation import fit_and_evaluate
    from dlfh.collection.folder import is_collection
    from dlfh.errors import InputError

    if is_collection(path):
        if n_queries is not None:
            raise InputError(f"--queries is for models, but {path} is a collection: all items are queries for it")
        with open_collection(path, verbose=verbose) as collection:
            report = collection.evaluate(items.read(collection.encoder.modalities_))
    else:
        encoder = load_encoder(path, verbose)
        if n_queries is None or n_queries < 1:
            raise InputError(f"{path} is a model without items: set --queries to the number of items to use as queries")
        read = items.read(encoder.modalities_)
        parts = fit_and_evaluate(encoder, read, n_queries, fit=False, random_state=seed)
        problems = [*read.problems, *parts.query_vectors.problems, *parts.database_vectors.problems]
        report = replace(parts.report, problems=problems)
    if as_json:
        print_json(asdict(report))
    else:
        print_problems(report.problems)
        print_quality(report.quality, "MAP over the whole ranking; ties in database order")
        print_calibration(report.calibration)


def _evaluate_codes(
    queries: str,
    database: str,
    query_labels: str,
    database_labels: str,
    measures: list[str],
    ties: str,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Evaluate codes in files by Hamming distance; the database is read block by block."""
    import numpy as np

    from dlfh.blocks import open_blocks
    from dlfh.blocks.clusters import connect
    from dlfh.metrics import evaluate as evaluate_codes
    from dlfh.metrics.measures import parse_measure

    parsed = [parse_measure(name) for name in measures]

    def read_all(value: str) -> Any:
        blocks = open_blocks(*place_of(value))
        return blocks.take(np.arange(len(blocks)))

    codes, labels = read_all(queries), read_all(query_labels)
    items: Any = open_blocks(*place_of(database))
    item_labels = open_blocks(*place_of(database_labels))
    with connect(cluster):
        result = evaluate_codes(codes, items, labels, item_labels, measures=parsed, ties=ties)  # type: ignore[arg-type]
    if not as_json:
        typer.echo(repr(result))
        return
    print_json(
        {
            "queries": result.n_queries,
            "items": result.n_items,
            "ties": ties,
            "measures": {name: _to_plain(value) for name, value in result.to_dict().items()},
        }
    )


def _to_plain(value: Any) -> Any:
    """Return a number as it is, and a curve as lists."""
    if isinstance(value, float):
        return value
    return {name: part.tolist() for name, part in value._asdict().items()}
