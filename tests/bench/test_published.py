"""The published values are complete, and agree with statements in the paper."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from dlfh.bench.measure import retrieval
from dlfh.bench.plan import Plan
from dlfh.bench.published import published, published_map
from dlfh.bench.settings import Settings
from dlfh.bench.sources import load_source
from dlfh.datasets.descriptions import DATA_SETS
from dlfh.methods.catalogue import METHODS

METHODS_OF_THE_PAPER = ["DLFH", "SMFH", "SCM", "CMFH", "CCA-ITQ", "MLBE", "KDLFH", "SePH"]


def test_every_published_cell_occurs_once() -> None:
    tables = published()
    assert len(tables.map) == len({cell[:4] for cell in tables.map}) == 8 * 2 * 2 * 3
    assert len(tables.time) == len({cell[:3] for cell in tables.time}) == 8 * 6
    for cells in (tables.map, tables.time):
        assert list(dict.fromkeys(cell.method for cell in cells)) == METHODS_OF_THE_PAPER
        assert {cell.data_set for cell in cells} <= DATA_SETS.keys()


def test_published_methods_are_registered() -> None:
    known = {name.replace("-", "").lower() for name in METHODS}
    assert {name.replace("-", "").lower() for name in METHODS_OF_THE_PAPER} <= known


# Sums over the printed tables: means, standard deviations and seconds of each method.
SUMS = {
    "DLFH": (8.896, 0.041, 228.72),
    "SMFH": (6.159, 0.082, 315.72),
    "SCM": (6.992, 0.035, 69.80),
    "CMFH": (6.136, 0.049, 591.91),
    "CCA-ITQ": (5.709, 0.006, 10.12),
    "MLBE": (5.414, 0.121, 998.98),
    "KDLFH": (9.388, 0.051, 14279.47),
    "SePH": (7.638, 0.066, 686.72),
}


@pytest.mark.parametrize("method", METHODS_OF_THE_PAPER)
def test_published_rows_have_the_right_sums(method: str) -> None:
    cells = [cell for cell in published().map if cell.method == method]
    assert sum(cell.mean for cell in cells) == pytest.approx(SUMS[method][0])
    assert sum(cell.std for cell in cells) == pytest.approx(SUMS[method][1])
    times = [cell.seconds or 0 for cell in published().time if cell.method == method]
    assert sum(times) == pytest.approx(SUMS[method][2])


def test_dlfh_leads_its_baselines_and_the_kernel_adds_to_it_in_every_cell() -> None:
    columns: dict[tuple[object, ...], dict[str, float]] = {}
    for cell in published().map:
        columns.setdefault(cell[1:4], {})[cell.method] = cell.mean
    for means in columns.values():
        first, second, *_ = sorted(means, key=lambda method: -means[method])
        assert (first, second) == ("KDLFH", "DLFH")


def test_methods_that_ran_out_of_memory_have_no_seconds() -> None:
    absent = {(cell.method, cell.n_points) for cell in published().time if cell.seconds is None}
    assert absent == {("MLBE", n) for n in (5000, 10000, 50000, 100000, 184710)} | {
        ("SePH", n) for n in (10000, 50000, 100000, 184710)
    }


def test_the_unsupervised_method_is_the_fastest_at_every_size() -> None:
    for n_points in (1000, 5000, 10000, 50000, 100000, 184710):
        at_size = [cell for cell in published().time if cell.n_points == n_points and cell.seconds is not None]
        assert min(at_size, key=lambda cell: cell.seconds or 0).method == "CCA-ITQ"


def test_the_last_size_is_nus_wide_without_its_queries() -> None:
    nus_wide = DATA_SETS["nus-wide"]
    assert max(cell.n_points for cell in published().time) == nus_wide.n_points - nus_wide.n_queries


@functools.cache
def mirflickr(folder: Path) -> Plan:
    file = folder / "mirflickr25k.npz"
    if not file.exists():
        pytest.skip("DLFH_DATA has no mirflickr25k.npz")
    return Plan(load_source("mirflickr-25k", file), Settings.for_data("mirflickr-25k"))


#: Largest difference from the paper with one run, at the code lengths that are quick enough. docs/reproduction.md has
#: five runs of all; SMFH and CCA-ITQ depend on settings that the paper does not state.
AGREEMENT = {
    ("DLFH paper", 16): 0.02,
    ("DLFH paper", 32): 0.02,
    ("DLFH paper", 64): 0.02,
    ("KDLFH paper", 16): 0.02,
    ("KDLFH paper", 64): 0.02,
    ("SCM", 16): 0.015,
    ("SCM", 32): 0.015,
    ("SCM", 64): 0.015,
    ("CMFH paper", 16): 0.015,
    ("CMFH paper", 64): 0.015,
    ("CCAITQ", 16): 0.025,
    ("MLBE paper", 32): 0.03,
    ("SePH paper", 16): 0.02,
}


@pytest.mark.data
@pytest.mark.parametrize(("label", "bits"), AGREEMENT)
def test_the_papers_figures_are_reproduced_on_its_own_data(label: str, bits: int, data_folder: Path) -> None:
    plan = mirflickr(data_folder)
    assert plan.source.as_published
    cell = plan.cell(plan.settings.row(label), bits, seed=0)
    values, _ = retrieval(cell, plan.source.split(cell.split))
    protocol = "unified" if label.startswith("SePH") else "learned"
    for direction in plan.directions:
        paper = published_map(plan.source, label, protocol, direction, bits)
        assert paper is not None
        found = values["protocols"][protocol][direction]["map"]
        assert found == pytest.approx(paper[0], abs=AGREEMENT[label, bits]), direction
