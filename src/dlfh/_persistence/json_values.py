"""Conversion of parameters to and from JSON values."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import MAX_DIGITS
from dlfh._persistence.registry import Registry
from dlfh.errors import InputError

#: Maximum nesting depth of a parameter.
_MAX_DEPTH = 50


def parameters_to_json(owner: Parameterized, objects: Registry[Any] | None = None) -> dict[str, Any]:
    """Return an object's parameters as JSON values, or raise an InputError that names the one without such a form.

    owner: Its ``unsaved_parameters``, and a ``random_state`` that is a generator, become None.
    objects: Classes of nested objects, which are saved with their parameters.
    """
    saved = {}
    for name, value in owner.get_params(deep=False).items():
        is_generator = name == "random_state" and isinstance(value, np.random.Generator)
        try:
            saved[name] = None if is_generator or name in owner.unsaved_parameters else _to_json(value, objects)
        except InputError as error:
            raise InputError(f"cannot save parameter {name!r} of {type(owner).__name__}: {error}") from None
    return saved


def values_to_json(values: dict[str, Any], objects: Registry[Any]) -> dict[str, Any]:
    """Return named values, which may be objects with parameters, as JSON values."""
    return {name: _to_json(value, objects) for name, value in values.items()}


def parameters_from_json(saved: dict[str, Any], objects: Registry[Any] | None = None, depth: int = 0) -> dict[str, Any]:
    """Return the parameters that `parameters_to_json` or `values_to_json` converted."""
    return {name: _from_json(value, objects, depth) for name, value in saved.items()}


def _to_json(value: Any, objects: Registry[Any] | None = None) -> Any:
    """Return a JSON value. Sequences and sets are read back as tuples, paths as strings."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise InputError(f"it contains a number of more than {MAX_DIGITS} digits")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):  # as pairs, because keys may be tuples or equal the markers of objects
        return {"items": [[_to_json(key, objects), _to_json(each, objects)] for key, each in value.items()]}
    if isinstance(value, (tuple, list)):
        return [_to_json(each, objects) for each in value]
    if isinstance(value, (set, frozenset)):
        return [_to_json(each, objects) for each in sorted(value, key=str)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if objects is not None and isinstance(value, Parameterized):
        return {"kind": objects.kind_of(type(value)), "parameters": parameters_to_json(value, objects)}
    raise InputError(f"it contains a {type(value).__name__}")


def _from_json(value: Any, objects: Registry[Any] | None, depth: int) -> Any:
    """Invert `_to_json`; raise ValueError for other JSON values and ModelError for unknown kinds."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"a parameter is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return tuple(_from_json(each, objects, depth + 1) for each in value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"items"}:
        return {
            _from_json(key, objects, depth + 1): _from_json(each, objects, depth + 1) for key, each in value["items"]
        }
    if value.keys() == {"kind", "parameters"} and objects is not None:
        return objects.find(value["kind"])(**parameters_from_json(value["parameters"], objects, depth + 1))
    raise ValueError("a parameter has an unknown form")
