"""Agreement with the published reference codes, on the Wiki data: make test-data DLFH_DATA=/path/to/folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from dlfh.datasets import Paired
from dlfh.methods import CrossModalHasher
from dlfh.metrics import mean_average_precision
from wiki_reference import ROWS, Row

pytestmark = pytest.mark.data


@cache
def wiki(folder: Path) -> tuple[Paired, Paired]:
    file = scipy.io.loadmat(folder / "wiki.mat")
    train, test = (
        Paired({"image": file[f"I_{part}"], "text": file[f"T_{part}"]}, file[f"L_{part}"].ravel())
        for part in ("tr", "te")
    )
    return train, test


def database(model: CrossModalHasher, protocol: str, modality: str, train: Paired) -> np.ndarray:
    if protocol == "unified":
        return model.encode_unified(train.modalities)
    return model.codes_[modality] if protocol == "learned" else model.encode(modality, train.modalities[modality])


@cache
def measure(row: Row, n_bits: int, folder: Path) -> dict[str, np.ndarray]:
    """Return, by protocol, the mean MAP over seeds of I->T and T->I."""
    train, test = wiki(folder)
    values: dict[str, list[list[float]]] = {protocol: [] for protocol in row.values}
    for seed in range(row.seeds):
        model = row.make(n_bits, seed).fit(train.modalities, train.labels)
        for protocol, rows in values.items():
            rows.append(
                [
                    mean_average_precision(
                        model.encode(asked, test.modalities[asked]),
                        database(model, protocol, answered, train),
                        test.labels,
                        train.labels,
                    )
                    for asked, answered in (("image", "text"), ("text", "image"))
                ]
            )
    return {protocol: np.mean(rows, axis=0) for protocol, rows in values.items()}


CELLS = [
    pytest.param(row, protocol, n_bits, direction, id=f"{row.name}-{protocol}-{n_bits}-{['IT', 'TI'][direction]}")
    for row in ROWS
    for protocol, cells in row.values.items()
    for n_bits in cells
    for direction in (0, 1)
]


@pytest.mark.parametrize(("row", "protocol", "n_bits", "direction"), CELLS)
def test_the_reference_code_is_reproduced(
    row: Row, protocol: str, n_bits: int, direction: int, data_folder: Path
) -> None:
    expected, spread = row.values[protocol][n_bits][direction]
    assert abs(measure(row, n_bits, data_folder)[protocol][direction] - expected) <= row.tolerance(protocol, spread)
