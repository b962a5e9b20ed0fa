"""Parameters in the style of scikit-learn, without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from dlfh.errors import InputError

_MAX_REPR = 200  #: Maximum length of a parameter value in a repr.


class Parameterized:
    """An object whose parameters are the arguments of its ``__init__``, stored as attributes of the same names.

    A substitute for scikit-learn's ``BaseEstimator``, because importing scikit-learn takes a second. ``clone`` and
    ``check_is_fitted`` accept every subclass; pipelines and ``GridSearchCV`` accept featurisers, but not methods, whose
    ``fit`` takes several matrices: use ``dlfh tune`` for these.
    """

    #: Parameters that cannot be saved; a loaded object has None instead.
    unsaved_parameters: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters, in the order of ``__init__``."""
        return tuple(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` includes those of nested objects, as ``outer__inner``."""
        parameters: dict[str, Any] = {}
        for name in _defaults(type(self)):
            value = parameters[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                parameters |= {f"{name}__{inner}": each for inner, each in value.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; ``outer__inner`` sets a parameter of a nested object."""
        known = _defaults(type(self))
        nested: dict[str, dict[str, Any]] = {}
        for key, value in parameters.items():
            name, _, inner = key.partition("__")
            if name not in known:
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; available: {', '.join(known)}")
            if inner:
                nested.setdefault(name, {})[inner] = value
        direct = {name: value for name, value in parameters.items() if name in known}
        for name in nested:
            if not hasattr(direct.get(name, getattr(self, name)), "set_params"):
                called = f"{name}__{next(iter(nested[name]))}"
                raise InputError(f"cannot set {called}: the {name!r} of this {type(self).__name__} has no parameters")
        for name, value in direct.items():
            setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        # Compare reprs, because comparing arrays gives arrays and NaN differs from itself.
        shown = [
            f"{name}={_short(value)}"
            for name, default in _defaults(type(self)).items()
            if (value := getattr(self, name)) is not default and repr(value) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the object has a fitted attribute, whose name ends in an underscore."""
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's estimator tags; only scikit-learn calls this, so it is installed and loaded."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def _defaults(kind: type) -> dict[str, Any]:
    """Return the parameters of a class and their defaults."""
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_REPR else text[: _MAX_REPR - 1] + "…"
