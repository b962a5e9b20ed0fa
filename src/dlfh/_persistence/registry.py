"""Registries from the names used in files to classes, and the parameters of objects as JSON values."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import MAX_DIGITS
from dlfh.errors import InputError, ModelError, prefixed

_MAX_DEPTH = 50  # maximum nesting depth of a parameter
Base = TypeVar("Base")


class Registry(Generic[Base]):
    """Subclasses of a base class by kind, their name in files; packages declare others as entry points of ``group``."""

    def __init__(self, noun: str, group: str = "") -> None:
        self.noun, self.group = noun, group
        self._classes: dict[str, type[Base]] = {}
        self._modules: dict[str, str] = {}

    def declare(self, package: str, modules: Mapping[str, str]) -> None:
        """Declare the module of a package that defines each kind, to be imported when the kind is needed."""
        self._modules |= {kind: f"{package}.{module}" for kind, module in modules.items()}

    def add(self, cls: type[Base]) -> None:
        """Register a class; a class defined again under the same name, as in notebooks, replaces the earlier one."""
        kind: str = cls.__dict__["kind"]
        old = _qualified_name(self._classes[kind]) if kind in self._classes else None
        if old not in (None, _qualified_name(cls)) or self._modules.get(kind, cls.__module__) != cls.__module__:
            conflict = f"{_qualified_name(cls)} has the kind {kind!r}, already used by {old or self._modules[kind]}"
            raise InputError(f"the {self.noun} {conflict}: choose another kind")
        self._classes[kind] = cls

    def find(self, kind: object) -> type[Base]:
        """Return the class of a kind that was read from a file."""
        if isinstance(kind, str):
            if kind not in self._classes:
                module = self._modules.get(kind) or self.packaged.get(kind)
                if module is not None:
                    import_module(module)
            if kind in self._classes:
                return self._classes[kind]
        raise ModelError(f"unknown {self.noun} {kind!r}: import the module that defines it first")

    @cached_property
    def packaged(self) -> dict[str, str]:
        """The kinds that other installed packages declare as entry points, and the modules that define them."""
        from importlib import metadata  # here, because a search must not load it

        points = metadata.entry_points(group=self.group) if self.group else ()
        return {point.name: point.module for point in points if point.name not in self._modules}

    def kind_of(self, cls: type[Base]) -> str:
        """Return the kind of a class, which the class itself must define: an inherited kind belongs to the parent."""
        if "kind" not in cls.__dict__:
            raise InputError(f"the {self.noun} {cls.__name__} cannot be saved: define a class attribute kind")
        kind: str = cls.__dict__["kind"]
        if kind not in self._classes or _qualified_name(self._classes[kind]) != _qualified_name(cls):
            raise InputError(f"{cls.__name__} is not a {self.noun}")
        return kind


class Registered:
    """Base class that registers each subclass that defines a ``kind``."""

    kind: ClassVar[str]
    _registry: ClassVar[Registry[Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            cls._registry.add(cls)


def import_module(name: str) -> Any:
    """Import a module of another package; any error in it becomes an InputError."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}") from error


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def parameters_to_json(owner: Parameterized, objects: Registry[Any] | None = None) -> dict[str, Any]:
    """Return an object's parameters as JSON values; ``objects`` are the classes of nested objects.

    Unsaved parameters and random generators become None. Other values that have no such form raise InputError.
    """
    saved = {}
    for name, value in owner.get_params(deep=False).items():
        is_generator = name == "random_state" and isinstance(value, np.random.Generator)
        with prefixed(f"cannot save parameter {name!r} of {type(owner).__name__}"):
            saved[name] = None if is_generator or name in owner.unsaved_parameters else _to_json(value, objects)
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
        raise InputError(f"it contains a number with more than {MAX_DIGITS} digits")
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
        pairs = ([_from_json(part, objects, depth + 1) for part in (key, each)] for key, each in value["items"])
        return dict(pairs)
    if value.keys() == {"kind", "parameters"} and objects is not None:
        return objects.find(value["kind"])(**parameters_from_json(value["parameters"], objects, depth + 1))
    raise ValueError("a parameter has an unknown form")
