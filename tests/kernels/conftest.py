"""These tests are of compiled code: where Numba is loaded, twins do not stand in for small work."""

import numba  # noqa: F401
