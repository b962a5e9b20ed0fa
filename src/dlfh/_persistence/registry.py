"""Classes by the words that files have for them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from dlfh.errors import InputError, ModelError

__all__ = ["Registered", "Registry"]

Base = TypeVar("Base")


class Registry(Generic[Base]):
    """The classes of one base, each by its kind: the word that a file has for it.

    Parameters
    ----------
    what : str
        What the classes are, for messages.

    Examples
    --------
    >>> class Shape(Registered):
    ...     registry = Registry("shape")
    >>> class Circle(Shape):
    ...     kind = "circle"
    >>> Shape.registry.find("circle") is Circle, Shape.registry.kind_of(Circle)
    (True, 'circle')
    >>> Shape.registry.find("square")
    Traceback (most recent call last):
    dlfh.errors.ModelError: it needs the shape 'square', which is not known here: import the module that defines it
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._classes: dict[str, type[Base]] = {}
        self._modules: dict[str, str] = {}

    def expect(self, package: str, modules: Mapping[str, str]) -> None:
        """Say in which module of a package each kind is defined, so that what is needed is imported, and no more."""
        self._modules |= {kind: f"{package}.{module}" for kind, module in modules.items()}

    def add(self, cls: type[Base]) -> None:
        """Register a class by its kind; the same class defined again, as notebooks do, takes its own place."""
        kind: str = cls.__dict__["kind"]
        old = _place(self._classes[kind]) if kind in self._classes else None
        if old not in (None, _place(cls)) or self._modules.get(kind, cls.__module__) != cls.__module__:
            raise InputError(
                f"the {self.what} {_place(cls)} has the kind {kind!r}, which is that of "
                f"{old or self._modules[kind]}: give it another"
            )
        self._classes[kind] = cls

    def find(self, kind: object) -> type[Base]:
        """Return the class of a kind that a file names."""
        if isinstance(kind, str):
            if kind not in self._classes and kind in self._modules:
                importlib.import_module(self._modules[kind])
            if kind in self._classes:
                return self._classes[kind]
        raise ModelError(
            f"it needs the {self.what} {kind!r}, which is not known here: import the module that defines it"
        )

    def kind_of(self, cls: type[Base]) -> str:
        """Return the kind by which a file finds a class again: its own, since that of its parent finds the parent."""
        if "kind" not in cls.__dict__:
            raise InputError(f"the {self.what} {cls.__name__} has no kind of its own, by which loading would find it")
        kind: str = cls.__dict__["kind"]
        if kind not in self._classes or _place(self._classes[kind]) != _place(cls):
            raise InputError(f"{cls.__name__} is no {self.what}")
        return kind


class Registered:
    """A base whose subclasses are registered by being defined, if they have a ``kind`` of their own."""

    kind: ClassVar[str]
    registry: ClassVar[Registry[Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            cls.registry.add(cls)


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
