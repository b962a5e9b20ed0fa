"""`dlfh measure`: how well codes in files find each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dlfh.cli.options import AsJson, place_of
from dlfh.cli.printing import print_json

__all__ = ["measure"]


def measure(
    queries: Annotated[str, typer.Argument(help="Codes that ask: FILE, or FILE:NAME.", show_default=False)],
    database: Annotated[str, typer.Argument(help="Codes that are ranked, by blocks.", show_default=False)],
    query_labels: Annotated[str, typer.Option(help="Labels of the queries: FILE, or FILE:NAME.", show_default=False)],
    database_labels: Annotated[str, typer.Option(help="Labels of the database, in its order.", show_default=False)],
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", help="Such as AP@50 or nDCG@10; repeated.", show_default="AP"),
    ] = None,
    ties: Annotated[str, typer.Option(help="Tied items in database order, or in expectation: expected.")] = "order",
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Rank blocks on a Dask cluster, by its scheduler's address, or on one of processes here: local.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure codes in files: items that share a label with a query are right answers, as Hamming distance ranks them.

    Files are .npy, .h5, .mat (MATLAB 7.3), .zarr and .parquet, or folders of Parquet files, as dlfh encode writes them;
    NAME is a variable or a column. The database need not fit in memory. Labels are rows of 0 and 1, or a vector
    of class ids.

    Measures are AP (its mean is MAP), P, R, nDCG, PR and PRH, with a cut as in AP@50 and options as in
    'P(match="all")@5'. A query without a right answer counts as 0.

    [b]Examples[/b]

    $ dlfh measure asking.parquet:text codes.parquet:image --query-labels asking.npy --database-labels labels.npy

    $ dlfh measure asking.npy codes.npy --query-labels a.npy --database-labels b.npy --measure nDCG@10 --cluster local
    """
    import numpy as np

    from dlfh.blocks import Blocks, open_blocks
    from dlfh.blocks.clusters import held_on
    from dlfh.metrics import evaluate
    from dlfh.metrics.measures import parse_measure

    chosen = [parse_measure(name) for name in measures or ["AP"]]

    def opened(value: str) -> Blocks:
        return open_blocks(*place_of(value))

    def whole(value: str) -> Any:
        blocks = opened(value)
        return blocks.take(np.arange(len(blocks)))

    asking, labels = whole(queries), whole(query_labels)
    items: Any = opened(database)
    beside = opened(database_labels)
    with held_on(cluster):
        result = evaluate(asking, items, labels, beside, measures=chosen, ties=ties)  # type: ignore[arg-type]
    if not as_json:
        typer.echo(repr(result))
        return
    print_json(
        {
            "queries": result.n_queries,
            "items": result.n_items,
            "ties": ties,
            "measures": {name: _plain(value) for name, value in result.to_dict().items()},
        }
    )


def _plain(value: Any) -> Any:
    """Return a number, or a curve as lists."""
    if isinstance(value, float):
        return value
    return {name: part.tolist() for name, part in value._asdict().items()}
