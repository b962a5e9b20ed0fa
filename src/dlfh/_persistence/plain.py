"""Parameters as JSON can hold them, and back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import MOST_DIGITS
from dlfh._persistence.registry import Registry
from dlfh.errors import InputError

__all__ = ["parameters_from_plain", "plain_parameters"]

#: Lists in lists, and objects in objects, deeper than any parameter has them.
_DEEPEST = 50


def plain_parameters(owner: Parameterized, objects: Registry[Any] | None = None) -> dict[str, Any]:
    """Return an object's parameters as plain values; one that has no plain form is named in the error.

    Parameters
    ----------
    owner : Parameterized
        Those of its parameters that it says are not saved become None, and so does a ``random_state`` that is a
        generator: what it will draw next is nothing that a file can hold.
    objects : Registry, optional
        Classes with parameters of their own, of which its parameters may be.

    Examples
    --------
    >>> class Words(Parameterized):
    ...     def __init__(self, ngrams=(1, 2), weights=None):
    ...         self.ngrams, self.weights = ngrams, weights
    >>> plain_parameters(Words(weights={"title": np.float32(2)}))
    {'ngrams': [1, 2], 'weights': {'items': [['title', 2.0]]}}
    >>> parameters_from_plain(_)
    {'ngrams': (1, 2), 'weights': {'title': 2.0}}
    >>> plain_parameters(Words(weights=print))
    Traceback (most recent call last):
    dlfh.errors.InputError: the parameter 'weights' of Words cannot be saved: it has a builtin_function_or_method in it
    """
    plain = {}
    for name, value in owner.get_params(deep=False).items():
        is_generator = name == "random_state" and isinstance(value, np.random.Generator)
        try:
            plain[name] = None if is_generator or name in owner.unsaved_parameters else _to_plain(value, objects)
        except InputError as error:
            raise InputError(f"the parameter {name!r} of {type(owner).__name__} cannot be saved: {error}") from None
    return plain


def plain_values(values: dict[str, Any], objects: Registry[Any]) -> dict[str, Any]:
    """Return values by name, objects with parameters among them, as plain ones; `parameters_from_plain` undoes it."""
    return {name: _to_plain(value, objects) for name, value in values.items()}


def parameters_from_plain(
    plain: dict[str, Any], objects: Registry[Any] | None = None, depth: int = 0
) -> dict[str, Any]:
    """Return the parameters that `plain_parameters` made plain."""
    return {name: _from_plain(value, objects, depth) for name, value in plain.items()}


def _to_plain(value: Any, objects: Registry[Any] | None = None) -> Any:
    """Return a value as JSON can hold it. Sequences and sets come back as tuples, paths as strings."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise InputError(f"it has a number of more than {MOST_DIGITS} digits in it")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):  # as pairs: keys may be tuples, and words may be those that mark objects
        return {"items": [[_to_plain(key, objects), _to_plain(each, objects)] for key, each in value.items()]}
    if isinstance(value, (tuple, list)):
        return [_to_plain(each, objects) for each in value]
    if isinstance(value, (set, frozenset)):
        return [_to_plain(each, objects) for each in sorted(value, key=str)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if objects is not None and isinstance(value, Parameterized):
        return {"kind": objects.kind_of(type(value)), "parameters": plain_parameters(value, objects)}
    raise InputError(f"it has a {type(value).__name__} in it")


def _from_plain(value: Any, objects: Registry[Any] | None, depth: int) -> Any:
    """Return what `_to_plain` made plain; what it cannot have made raises ValueError, or ModelError for a kind."""
    if depth > _DEEPEST:
        raise ValueError(f"a parameter is nested more than {_DEEPEST} deep")
    if isinstance(value, list):
        return tuple(_from_plain(each, objects, depth + 1) for each in value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"items"}:
        return {
            _from_plain(key, objects, depth + 1): _from_plain(each, objects, depth + 1) for key, each in value["items"]
        }
    if value.keys() == {"kind", "parameters"} and objects is not None:
        return objects.find(value["kind"])(**parameters_from_plain(value["parameters"], objects, depth + 1))
    raise ValueError("a parameter is none that was saved")
