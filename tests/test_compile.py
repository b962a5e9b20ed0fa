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


SLOW_DISK = """
import logging, sys, time
import numba
from numba.core import caching
logging.basicConfig()
from dlfh import _compile
load = caching.FunctionCache.load_overload
def slowly(self, *arguments):
    time.sleep(0.2)
    return load(self, *arguments)
caching.FunctionCache.load_overload = slowly
_compile.ANNOUNCE_AFTER = 0.1
from dlfh.codes import random_codes, hamming_distances
import numpy as np
codes = random_codes(np.random.default_rng(0), 3000, 64)
hamming_distances(codes, codes)
assert "numba" in sys.modules
"""


def test_loading_from_the_cache_is_not_announced(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOW_DISK]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stderr for _ in range(2)
    )
    assert "compiling the kernels" in first
    assert "compiling the kernels" not in second


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
