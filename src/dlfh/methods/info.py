"""Description of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodInfo:
    """Description of a method; the table in the docs is generated from these.

    title: Full name.
    paper: Authors, venue and year of the publication.
    supervised: Whether it learns from labels. Other methods learn from pairs and ignore labels.
    discrete: Whether codes are learned as bits, as classified by the DLFH paper, or as real numbers whose signs are
        taken at the end.
    protocols: Codes that a database can have: "learned" (training points, by training), "hashed" (any points, by the
        hash function of one modality), "unified" (any points, from all their modalities together).
    complexity: Training time, for n points, d features, c bits and method-specific quantities.
    surplus_bits: Bits beyond the number of directions that the features have: they are as good as the others, or
        constant, or the directions are spread over all bits.
    n_modalities: Minimum and maximum number of modalities.
    is_deterministic: Whether results do not depend on a random seed.
    takes_incomplete: Whether ``fit`` accepts points that lack a modality (``present``) or labels (``labelled``), and
        similarities of single pairs (``similarity``).
    takes_blocks: Whether ``fit`` accepts data in blocks: files, large memory maps and Dask arrays.
    """

    title: str
    paper: str
    supervised: bool
    discrete: bool
    protocols: tuple[Literal["learned", "hashed", "unified"], ...]
    complexity: str
    surplus_bits: Literal["used", "constant", "spread"] = "used"
    n_modalities: tuple[int, int | None] = (2, 2)
    is_deterministic: bool = False
    takes_incomplete: bool = False
    takes_blocks: bool = False
