"""Kernels compile where nothing can be cached."""

from __future__ import annotations

from typing import Any

import pytest

from dlfh._compile import Kernel


def test_kernels_fall_back_to_no_cache_where_nothing_is_writable(monkeypatch: pytest.MonkeyPatch) -> None:
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
