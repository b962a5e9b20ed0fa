"""Registries from the names used in files to classes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from typing import Any, ClassVar, Generic, TypeVar

from dlfh.errors import InputError, ModelError

Base = TypeVar("Base")


class Registry(Generic[Base]):
    """Subclasses of a base class by kind, the name that files use.

    noun: What error messages call the classes.
    group: Entry points in which other packages name their kinds, as ``kind = "module:Class"``.
    """

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
            raise InputError(
                f"the {self.noun} {_qualified_name(cls)} has the kind {kind!r}, which belongs to "
                f"{old or self._modules[kind]}: choose another"
            )
        self._classes[kind] = cls

    def find(self, kind: object) -> type[Base]:
        """Return the class of a kind that a file names."""
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
        """The kinds that other installed packages name in their entry points, and the modules that define them."""
        points = metadata.entry_points(group=self.group) if self.group else ()
        return {point.name: point.module for point in points if point.name not in self._modules}

    def kind_of(self, cls: type[Base]) -> str:
        """Return the kind of a class, which the class itself must define: an inherited kind names the parent."""
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
    """Import a module of another package, whose errors, whatever they are, raise one InputError."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}") from error


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
