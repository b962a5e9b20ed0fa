"""Types of method parameters, whose ranges are checked when a model is fitted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np

from dlfh._mathematics.ridge import check_ridge
from dlfh._validation import check_choice, check_flag, check_fraction, check_integer, check_positive

Positive = Annotated[float, check_positive]
NonNegative = Annotated[float, functools.partial(check_positive, allow_zero=True)]
Fraction = Annotated[float, check_fraction]  #: Between 0 and 1, both excluded.
Share = Annotated[float, functools.partial(check_fraction, allow_one=True)]  #: Above 0 and at most 1.
NonNegativeInt = Annotated[int, functools.partial(check_integer, low=0)]
PositiveInt = Annotated[int, functools.partial(check_integer, low=1)]
AtLeastTwo = Annotated[int, functools.partial(check_integer, low=2)]
RandomState = int | np.random.Generator | None
RidgeOrAuto = Annotated[float | Literal["auto"], lambda value, name: check_ridge(value)]


def check_types(model: Any) -> None:
    """Raise InputError for an annotated field of a dataclass that has another type or is out of range."""
    for name, hint in _parameters(model.__class__).items():
        _check(getattr(model, name), name, hint)


@functools.cache
def _parameters(kind: type) -> Mapping[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" in vars(base):
            hints |= inspect.get_annotations(base, eval_str=True)
    return {name: hints[name] for name in inspect.signature(kind).parameters if name in hints}


def _check(value: Any, name: str, hint: Any) -> None:
    if hint is bool:
        check_flag(value, name)
    elif get_origin(hint) is Literal:
        check_choice(value, name, get_args(hint))
    elif get_origin(hint) is Annotated:
        hint.__metadata__[0](value, name)
    else:  # a union: None and strings are alternatives to a checked type
        alternatives = get_args(hint)
        words = [word for each in alternatives if get_origin(each) is Literal for word in get_args(each)]
        if (value is None and NoneType in alternatives) or (isinstance(value, str) and value in words):
            return
        for each in alternatives:
            if get_origin(each) is Annotated:
                _check(value, name, each)
