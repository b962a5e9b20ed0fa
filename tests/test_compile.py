"""Kernels compile without a writable cache, and only compilation is announced."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dlfh import _compile
from dlfh._compile import Kernel


def test_kernels_compile_without_a_writable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    real = numba.njit

    def njit(function: Any, **options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", njit)

    def double(x: int) -> int:
        return 2 * x

    assert Kernel(double)(21) == 42


TWO_KERNELS = """
import logging, time
logging.basicConfig(format="%(message)s")
import numpy as np
from numba.core import caching
from dlfh import _compile
from dlfh._kernels import ranking
load = caching.FunctionCache.load_overload
def load_slowly(*arguments):
    time.sleep(0.2)
    return load(*arguments)
caching.FunctionCache.load_overload = load_slowly
_compile.ANNOUNCE_AFTER = 0.1
codes = np.arange(12, dtype=np.uint64).reshape(3, 4)
ranking.hamming_block(codes, np.ascontiguousarray(codes.T), np.empty((3, 3), np.uint16))
ranking.reorder(np.ones((1, 2)), np.array([[1, 0]], np.uint32), np.empty((1, 2)))
kernels = (ranking.hamming_block, ranking.reorder)
print(sum(sum(kernel._dispatcher.stats.cache_misses.values()) for kernel in kernels))
"""


def test_compilation_is_announced_once_and_cached_on_disk(tmp_path: Path) -> None:
    """Loading from the cache is not announced, even if the disk is slow."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", TWO_KERNELS]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment) for _ in range(2)
    )
    assert first.stderr.count("compiling the kernels for this machine") == 1
    assert second.stderr == ""
    assert (first.stdout.strip(), second.stdout.strip()) == ("2", "0")
    assert list(tmp_path.rglob("*.nbc"))


def test_compilation_of_other_functions_is_not_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import numba

    monkeypatch.setattr(_compile, "ANNOUNCE_AFTER", 0.0)
    monkeypatch.setattr(_compile, "_seconds_spent", 0.0)
    _compile._announced.clear()
    with caplog.at_level(logging.WARNING, "dlfh"):
        assert numba.njit(lambda x: x + 1)(1) == 2
        time.sleep(0.05)
        assert not caplog.records
        assert Kernel(eval("lambda x: x + 2"))(1) == 3  # has no source file, so it is not cached
    assert [record.message.split(":")[0] for record in caplog.records] == ["compiling the kernels for this machine"]
