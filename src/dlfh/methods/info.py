"""What there is to know of a method before choosing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodInfo:
    """A method's entry in the registry; the table in the docs is made of these.

    Attributes
    ----------
    title : str
        The name in full.
    paper : str
        Who published it, where and when.
    supervised : bool
        Whether it learns from labels. What does not learns from pairs alone, and ignores labels.
    discrete : bool
        Whether codes are learned as bits, by the DLFH paper's count; if not, as real numbers whose signs are
        taken in the end.
    protocols : tuple of str
        What codes a database may have: "learned" (training points, by training), "hashed" (any points, by
        the hash function of one modality), "unified" (any points, from all their modalities together).
    complexity : str
        Training time, for n points, d features, c bits, and what the method adds to these.
    surplus_bits : {"used", "constant", "spread"}
        What becomes of bits beyond the number of directions that the features have: they are as good as
        others, or are constant, or the directions are spread over all bits.
    n_modalities : tuple of int and int or None
        The least and the largest number of modalities.
    is_deterministic : bool
        Whether there is nothing random in it.
    takes_incomplete : bool
        Whether its ``fit`` takes points without some modality (``present``), points without labels (``labelled``), and
        similarities of single pairs (``similarity``).
    takes_blocks : bool
        Whether its ``fit`` takes data that does not fit in memory, by blocks: files, large memory maps, Dask arrays.
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
