"""Agreement with published reference results on Wiki: make test-data DLFH_DATA=/path/to/folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.defaults_study import load_wiki
from benchmarks.methods_study import evaluate
from benchmarks.wiki_reference import ROWS, Row

pytestmark = pytest.mark.data


@cache
def measure(row: Row, n_bits: int, folder: Path) -> dict[str, np.ndarray]:
    """Return the mean MAP over seeds of I->T and T->I, by protocol."""
    train, test = load_wiki(folder)
    models = [row.make(n_bits, seed).fit(train.modalities, train.labels) for seed in range(row.seeds)]
    values = [evaluate(model, (train, test), tuple(row.values)) for model in models]
    return {protocol: np.mean([each[protocol] for each in values], axis=0) for protocol in row.values}


CELLS = [
    pytest.param(row, protocol, n_bits, direction, id=f"{row.name}-{protocol}-{n_bits}-{['IT', 'TI'][direction]}")
    for row in ROWS
    for protocol, cells in row.values.items()
    for n_bits in cells
    for direction in (0, 1)
]


@pytest.mark.parametrize(("row", "protocol", "n_bits", "direction"), CELLS)
def test_reference_results_are_reproduced(
    row: Row, protocol: str, n_bits: int, direction: int, data_folder: Path
) -> None:
    expected, spread = row.values[protocol][n_bits][direction]
    assert abs(measure(row, n_bits, data_folder)[protocol][direction] - expected) <= row.tolerance(protocol, spread)
