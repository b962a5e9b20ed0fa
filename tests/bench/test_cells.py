"""Cells and their hashes; the cache holds whole results, for one run at a time."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.cells import Cache, Cell, Result, SplitSpec
from dlfh.errors import InputError

values = st.one_of(
    st.integers(-100, 100), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "full", "λ"])
)
specs = st.builds(
    SplitSpec,
    seed=st.integers(0, 9),
    queries=st.none() | st.integers(1, 40),
    unseen_share=st.sampled_from([0.0, 0.2, 0.5]),
    validation_share=st.sampled_from([0.0, 0.2, 0.5]),
    validation_seed=st.integers(0, 9),
    size=st.none() | st.integers(1, 50),
)


def cell(**changed: object) -> Cell:
    given = {"bits": 16, "seed": 0, "split": SplitSpec(queries=31)} | changed
    return Cell("generated", "0f", str(given.pop("method", "DLFH")), given.pop("parameters", {}), **given)  # type: ignore[arg-type]


def test_the_hash_of_a_cell_is_stable() -> None:
    fixed = replace(cell(parameters={"scale": 4.0}), version="0.1.0")
    assert fixed.key == "9e8547b3d03474e9"


@given(st.dictionaries(st.sampled_from("abcλ"), values, max_size=4), specs)
def test_cells_keep_their_hash_in_json(parameters: dict[str, object], spec: SplitSpec) -> None:
    original = cell(parameters=parameters, split=spec)
    again = Cell.from_plain(json.loads(json.dumps(original.plain())))
    assert again == original
    assert again.key == original.key
    assert cell(parameters=dict(reversed(parameters.items())), split=spec).key == original.key


def test_the_hash_covers_everything_but_the_name_of_the_data() -> None:
    base = cell()
    others = [
        replace(base, fingerprint="1f"),
        replace(base, method="SCM"),
        cell(parameters={"scale": 1.0}),
        replace(base, bits=32),
        replace(base, seed=1),
        replace(base, split=SplitSpec(queries=32)),
        replace(base, kind="time"),
        replace(base, k=10),
        replace(base, train_points=100),
        replace(base, version="next"),
    ]
    assert len({base.key, *(each.key for each in others)}) == 1 + len(others)
    assert replace(base, data="other").key == base.key


def test_a_result_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    result = Result({"map": 0.5}, {"fit": 1.0}, None, None, {"cores": 2})
    assert cache.get(cell()) is None
    cache.put(cell(), result)
    assert cache.get(cell()) == result
    path = next(cache.cells.glob("*.json"))
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.get(cell()) is None


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="folders are locked on POSIX systems only")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with Cache(tmp_path).exclusive(), pytest.raises(InputError, match="another run is using"):  # noqa: SIM117
        with Cache(tmp_path).exclusive():
            pass
    with Cache(tmp_path).exclusive():
        pass
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


def test_a_file_in_the_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, but a folder is needed"):
        Cache(tmp_path / "file")


def test_a_cell_that_exceeded_a_limit_is_retried_under_a_higher_one() -> None:
    stopped = Result({}, {}, "not finished in 5 minutes", {"minutes": 5})
    assert not stopped.may_succeed_with({"minutes": 5, "gigabytes": 99})
    assert stopped.may_succeed_with({"minutes": 6, "gigabytes": 1})
    assert not Result({}, {}, "refused").may_succeed_with({"minutes": 99, "gigabytes": 99})
