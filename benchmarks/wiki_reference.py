"""MAP of public reference codes on the Wiki data, and the settings that reproduce them.

Measured by running the authors' MATLAB code (redistributed code for SCM, SePH and CMFH) under GNU Octave:
2,173 training points = database, 693 queries, features centred and not scaled (SMFH: rows of length 1; LEMON: as they
are), MAP over the full ranking, ties by database order. Means and standard deviations over the seeds named. Those of
BATCH, SCRATCH and LEMON are over three seeds; deviations were not kept cell by cell, and stand at the median of their
table, .009.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dlfh.methods import BATCH, CCAITQ, CMFH, CVH, DLFH, KDLFH, LEMON, SCM, SCRATCH, SMFH, CrossModalHasher, SePH

#: By code length: (mean, std) of I→T and of T→I.
Cells = dict[int, tuple[tuple[float, float], tuple[float, float]]]


@dataclass(frozen=True, eq=False)
class Row:
    """One reference implementation: settings to reproduce it, and its MAP by protocol and code length."""

    name: str
    make: Callable[[int, int], CrossModalHasher]
    values: dict[str, Cells]
    seeds: int = 5
    is_kernel: bool = False

    def tolerance(self, protocol: str, spread: float) -> float:
        """Return the tolerance for our mean; reference means are over three to five seeds themselves."""
        if self.seeds == 1:
            return 0.003
        # The reference solver of kernel logistic regressions stops at its iteration cap.
        allowance = (0.005 if protocol == "learned" else 0.02) if self.is_kernel else 0.0
        return max(0.01, 3 * spread) + allowance


def _cells(lengths: tuple[int, ...], image: Any, text: Any) -> Cells:
    """Combine the values of both directions; a single number comes from a deterministic method."""

    def with_spread(value: Any) -> tuple[float, float]:
        return value if isinstance(value, tuple) else (value, 0.0)

    return {n: (with_spread(i), with_spread(t)) for n, i, t in zip(lengths, image, text, strict=True)}


def _seph(bases: Any) -> Callable[[int, int], CrossModalHasher]:
    return lambda n_bits, seed: SePH(n_bits, init="random", bases=bases, learning_rate=500.0, random_state=seed)


def _cmfh(updates: Any) -> Callable[[int, int], CrossModalHasher]:
    setting: Any = {"init": "uniform", "max_iter": 25, "tol": 0.0}
    return lambda n_bits, seed: CMFH(n_bits, updates=updates, random_state=seed, **setting)


def _dlfh(n_bits: int, seed: int) -> CrossModalHasher:
    return DLFH.paper(n_bits, random_state=seed)


ALL, LONG = (8, 16, 32, 64), (16, 32, 64)


def _of_three_seeds(image: tuple[float, ...], text: tuple[float, ...]) -> Cells:
    return _cells(LONG, [(value, 0.009) for value in image], [(value, 0.009) for value in text])


ROWS = (
    Row(
        "DLFH",
        _dlfh,
        {
            "learned": _cells(
                ALL,
                ((0.2203, 0.008), (0.2907, 0.011), (0.3190, 0.006), (0.3412, 0.004)),
                ((0.4497, 0.066), (0.6562, 0.002), (0.6906, 0.009), (0.7071, 0.002)),
            ),
            "hashed": _cells(
                ALL,
                ((0.1739, 0.009), (0.2153, 0.008), (0.2362, 0.009), (0.2459, 0.005)),
                ((0.1510, 0.006), (0.1963, 0.004), (0.2276, 0.004), (0.2351, 0.012)),
            ),
        },
    ),
    Row(
        "KDLFH",
        lambda n_bits, seed: KDLFH.paper(n_bits, random_state=seed),
        {
            "learned": _cells(
                LONG,
                ((0.3049, 0.008), (0.3471, 0.012), (0.3680, 0.004)),
                ((0.7114, 0.007), (0.7374, 0.005), (0.7444, 0.007)),
            ),
            "hashed": _cells(
                LONG,
                ((0.2505, 0.011), (0.2839, 0.010), (0.2954, 0.005)),
                ((0.3658, 0.009), (0.4237, 0.007), (0.4555, 0.004)),
            ),
        },
        is_kernel=True,
    ),
    Row(
        "SMFH",
        lambda n_bits, seed: SMFH(n_bits, stop="code", max_iter=50, random_state=seed),
        {
            "learned": _cells(
                ALL,
                ((0.1612, 0.007), (0.1890, 0.005), (0.2382, 0.002), (0.2590, 0.006)),
                ((0.3182, 0.031), (0.4373, 0.013), (0.5472, 0.011), (0.5934, 0.005)),
            )
        },
        seeds=10,
    ),
    Row(
        "SePH, random bases",
        _seph("random"),
        {
            "learned": _cells(
                LONG,
                ((0.3435, 0.013), (0.3646, 0.007), (0.3838, 0.006)),
                ((0.7344, 0.009), (0.7482, 0.002), (0.7522, 0.004)),
            ),
            "hashed": _cells(
                LONG,
                ((0.2669, 0.010), (0.2808, 0.004), (0.2939, 0.003)),
                ((0.3895, 0.005), (0.4335, 0.004), (0.4589, 0.002)),
            ),
            "unified": _cells(
                LONG,
                ((0.2809, 0.010), (0.2985, 0.004), (0.3145, 0.004)),
                ((0.6315, 0.002), (0.6562, 0.006), (0.6686, 0.002)),
            ),
        },
        is_kernel=True,
    ),
    Row(
        "SePH, k-means bases",
        _seph("kmeans"),
        {
            "learned": _cells(
                LONG,
                ((0.3395, 0.007), (0.3657, 0.007), (0.3808, 0.005)),
                ((0.7355, 0.008), (0.7491, 0.002), (0.7526, 0.003)),
            ),
            "hashed": _cells(
                LONG,
                ((0.2646, 0.006), (0.2804, 0.004), (0.2941, 0.004)),
                ((0.3939, 0.006), (0.4384, 0.004), (0.4620, 0.004)),
            ),
            "unified": _cells(
                LONG,
                ((0.2810, 0.006), (0.3012, 0.005), (0.3170, 0.004)),
                ((0.6352, 0.005), (0.6604, 0.009), (0.6718, 0.001)),
            ),
        },
        is_kernel=True,
    ),
    Row(
        "BATCH",
        lambda n_bits, seed: BATCH(n_bits, random_state=seed),
        {
            "learned": _of_three_seeds((0.350, 0.374, 0.380), (0.725, 0.747, 0.753)),
            "hashed": _of_three_seeds((0.268, 0.284, 0.291), (0.318, 0.351, 0.362)),
        },
    ),
    Row(
        "SCRATCH",
        lambda n_bits, seed: SCRATCH(n_bits, random_state=seed),
        {
            "learned": _of_three_seeds((0.363, 0.377, 0.387), (0.743, 0.760, 0.762)),
            "hashed": _of_three_seeds((0.277, 0.289, 0.298), (0.355, 0.377, 0.389)),
        },
    ),
    Row(
        "LEMON, one chunk",
        lambda n_bits, seed: LEMON(n_bits, random_state=seed),
        {
            "learned": _of_three_seeds((0.304, 0.322, 0.332), (0.678, 0.712, 0.710)),
            "hashed": _of_three_seeds((0.213, 0.222, 0.223), (0.196, 0.210, 0.223)),
        },
    ),
    Row(
        "LEMON, four chunks",
        lambda n_bits, seed: LEMON(n_bits, chunk_size=543, random_state=seed),
        {
            "learned": _of_three_seeds((0.288, 0.325, 0.346), (0.695, 0.702, 0.712)),
            "hashed": _of_three_seeds((0.209, 0.221, 0.228), (0.192, 0.211, 0.223)),
        },
    ),
    # At 64 bits the reference fills bits without a direction with noise; ours are constant.
    Row(
        "SCM, sequential",
        lambda n_bits, seed: SCM(n_bits),
        {"hashed": _cells((8, 16, 32), (0.2125, 0.2341, 0.2410), (0.2013, 0.2257, 0.2459))},
        seeds=1,
    ),
    # Ten labels and ten topics: longer codes are noise in the reference.
    Row(
        "SCM, orthogonal",
        lambda n_bits, seed: SCM(n_bits, variant="orthogonal"),
        {"hashed": _cells((8,), (0.1763,), (0.1795,))},
        seeds=1,
    ),
    Row(
        "CMFH, as is",
        _cmfh("code-as-is"),
        {
            "learned": _cells(
                ALL,
                ((0.2185, 0.003), (0.2124, 0.006), (0.2237, 0.001), (0.2347, 0.004)),
                ((0.4623, 0.013), (0.4911, 0.005), (0.5156, 0.005), (0.5327, 0.002)),
            ),
            "hashed": _cells(
                ALL,
                ((0.2182, 0.003), (0.2195, 0.006), (0.2328, 0.001), (0.2456, 0.004)),
                ((0.1961, 0.005), (0.2072, 0.002), (0.2260, 0.005), (0.2374, 0.002)),
            ),
        },
        seeds=10,
    ),
    Row(
        "CMFH, slip repaired",
        _cmfh("code"),
        {
            "learned": _cells(
                ALL,
                ((0.2136, 0.006), (0.2068, 0.004), (0.2200, 0.003), (0.2305, 0.004)),
                ((0.4600, 0.015), (0.4860, 0.011), (0.5131, 0.006), (0.5235, 0.008)),
            ),
            "hashed": _cells(
                ALL,
                ((0.2144, 0.006), (0.2165, 0.005), (0.2301, 0.003), (0.2431, 0.005)),
                ((0.1973, 0.004), (0.2025, 0.004), (0.2238, 0.004), (0.2353, 0.004)),
            ),
        },
        seeds=10,
    ),
    Row(
        "CCA-ITQ, rotation of images",
        lambda n_bits, seed: CCAITQ(n_bits, rotation="first", random_state=seed),
        {
            "hashed": _cells(
                ALL,
                ((0.2204, 0.011), (0.2385, 0.005), (0.2489, 0.004), (0.2504, 0.001)),
                ((0.1903, 0.004), (0.2033, 0.004), (0.2114, 0.002), (0.2161, 0.002)),
            )
        },
    ),
    Row(
        "CCA-ITQ, rotation of both",
        lambda n_bits, seed: CCAITQ(n_bits, random_state=seed),
        {
            "hashed": _cells(
                ALL,
                ((0.2296, 0.003), (0.2441, 0.003), (0.2513, 0.004), (0.2544, 0.002)),
                ((0.1989, 0.005), (0.2123, 0.002), (0.2175, 0.003), (0.2214, 0.002)),
            )
        },
    ),
    # Nine directions correlate: the reference's tenth bit is noise, and longer codes have no more.
    Row("CVH, pairs", lambda n_bits, seed: CVH(n_bits), {"hashed": _cells((8,), (0.1895,), (0.1864,))}, seeds=1),
)
