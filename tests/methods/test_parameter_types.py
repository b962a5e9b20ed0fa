"""Parameter types: the values that each accepts and refuses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import pytest

from dlfh import InputError
from dlfh.methods.parameter_types import (
    AtLeastTwo,
    Fraction,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    RandomState,
    RidgeOrAuto,
    Share,
    check_types,
)


@dataclass
class Model:
    n_bits: int = 8
    _: KW_ONLY
    positive: Positive = 1.0
    non_negative: NonNegative = 0.0
    fraction: Fraction = 0.5
    share: Share = 1.0
    iterations: NonNegativeInt = 0
    count: PositiveInt = 1
    pairs: AtLeastTwo = 2
    ridge: RidgeOrAuto = "auto"
    scale: Positive | Literal["auto"] = "auto"
    sample: PositiveInt | None = None
    init: Literal["labels", "random"] = "labels"
    flag: bool = False
    random_state: RandomState = None


class Derived(Model):
    pass


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("positive", [1e-300, 3, np.float32(2)], [0, -1.0, np.inf, np.nan, "1", None, True]),
        ("non_negative", [0, 1e300], [-1e-9, np.inf, "auto"]),
        ("fraction", [0.5, 1e-9], [0, 1, 2.0, "half"]),
        ("share", [1, 0.2], [0, 1.1]),
        ("iterations", [0, np.int64(7)], [-1, 1.0, True]),
        ("count", [1, 10**9], [0, 2.5, None]),
        ("pairs", [2], [1]),
        ("ridge", [0, 3.5, "auto"], [-1, "other", None]),
        ("scale", [0.1, "auto"], [0, "other", None, np.ones(3)]),
        ("sample", [None, 1], [0, "all", 1.5]),
        ("init", ["labels", "random"], ["Labels", None, 0]),
        ("flag", [True, np.bool_(False)], [0, 1, None, "yes"]),
    ],
)
@pytest.mark.parametrize("kind", [Model, Derived])
def test_values_of_the_declared_type_are_accepted_and_others_refused(
    kind: Any, name: str, accepted: list[Any], refused: list[Any]
) -> None:
    for value in accepted:
        check_types(kind(**{name: value}))
    for value in refused:
        with pytest.raises(InputError, match=f"^{name} must be"):
            check_types(kind(**{name: value}))


def test_only_dataclasses_are_checked() -> None:
    class Plain:
        flag: bool = "yes"  # type: ignore[assignment]

    check_types(Plain())
