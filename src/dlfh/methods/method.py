"""Base class of the library's methods: their description and common parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dlfh._arrays import Floats
from dlfh._validation import check_random_state
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import in_one_block
from dlfh.hashing.base import hash_blocks
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.parameter_types import RandomState

if TYPE_CHECKING:
    from dlfh._mathematics.centred import CentredBlocks, CentredRows


@dataclass(frozen=True)
class MethodInfo:
    """Description of a method, from which the table in the docs is generated.

    title: Full name.
    paper: Authors, venue and year of the publication.
    supervised: Whether it learns from labels. Other methods learn from pairs and ignore labels.
    discrete: Whether codes are learned as bits, not as signs of real numbers, as classified by the DLFH paper.
    complexity: Training time, for n points, d features, c bits and method-specific quantities.
    protocols: Codes that a database can have: "learned" (of training points only), "hashed" (of any points, from one
        modality), "unified" (of any points, from all their modalities together).
    surplus_bits: If there are more bits than the features have directions, the surplus is as good as the other bits
        ("used") or "constant", or the directions are "spread" over all bits.
    n_modalities: Minimum and maximum number of modalities.
    is_deterministic: Whether results are independent of the random seed.
    takes_incomplete: Whether ``fit`` accepts points that lack a modality (``present``) or labels (``labelled``), and
        pairwise similarities (``similarity``).
    takes_blocks: Whether ``fit`` accepts data in blocks: files, large memory maps and Dask arrays.
    """

    title: str
    paper: str
    supervised: bool
    discrete: bool
    complexity: str
    protocols: tuple[Literal["learned", "hashed", "unified"], ...] = ("learned", "hashed")
    surplus_bits: Literal["used", "constant", "spread"] = "used"
    n_modalities: tuple[int, int | None] = (2, 2)
    is_deterministic: bool = False
    takes_incomplete: bool = False
    takes_blocks: bool = False


@dataclass(eq=False, repr=False)
class Method(CrossModalHasher):
    """Base class of the library's methods, with their common parameters."""

    n_bits: int = 64
    _: KW_ONLY
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: bool = False

    objective_: Floats = field(init=False)  #: Objective by iteration, if the method records it.

    def _generator(self, number: int) -> np.random.Generator:
        """Return a generator determined by the seed and a number, so that a loaded model continues identically."""
        if self.random_state is None or isinstance(self.random_state, np.random.Generator):
            return check_random_state(self.random_state)
        return np.random.default_rng([int(self.random_state), number])

    def _hash_linearly(
        self,
        features: dict[str, Any],
        views: Sequence[CentredBlocks | CentredRows],
        weights: Sequence[Floats],
        intercepts: Sequence[Floats | float] = (),
        ridges: Sequence[float] = (),
    ) -> None:
        """Set linear hash functions from each view's weights (d, c), and hashed codes, evaluated lazily in blocks."""
        from dlfh.hashing.linear import LinearHash

        zeros = [0.0] * len(views)
        self.hash_functions_ = {
            view.modality: LinearHash.of_centred(view, W, intercept, ridge)
            for view, W, intercept, ridge in zip(views, weights, intercepts or zeros, ridges or zeros, strict=True)
        }
        self.codes_ = {}
        for name, function in self.hash_functions_.items():
            blocks = features[name] if isinstance(features[name], Blocks) else in_one_block(features[name], name)
            self.codes_[name] = hash_blocks(function, blocks, name, self.n_jobs).lazy_result()
