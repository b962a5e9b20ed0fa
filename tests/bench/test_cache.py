"""The cache holds whole results, for one run at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlfh.bench.cache import Cache, Result
from dlfh.errors import InputError
from tests.bench.test_cells import cell


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
