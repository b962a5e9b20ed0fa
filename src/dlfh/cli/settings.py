"""Build settings: the TOML file that `dlfh tune` writes and `dlfh build` reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlfh.bench.toml import read_toml, to_toml
from dlfh.errors import InputError

_TYPES = {"method": str, "bits": int, "image_features": str, "text_features": str, "parameters": dict}
_TYPE_NAMES = {str: "a string", int: "a whole number", dict: "a table"}


@dataclass(frozen=True)
class BuildSettings:
    """Method, code length, features and method parameters; None where the file sets nothing."""

    method: str | None = None
    bits: int | None = None
    image_features: str | None = None
    text_features: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> BuildSettings:
        """Read a settings file; None yields empty settings."""
        if path is None:
            return cls()
        plain = read_toml(path)
        for name, value in plain.items():
            if name not in _TYPES:
                raise InputError(f"{path}: unknown build setting {name!r}; settings are {', '.join(_TYPES)}")
            if type(value) is not _TYPES[name]:
                raise InputError(f"{path}: {name} must be {_TYPE_NAMES[_TYPES[name]]}, got {value!r}")
        if plain.get("parameters") and "method" not in plain:
            raise InputError(f"{path} has parameters but does not name their method")
        return cls(**plain)

    def to_toml(self) -> str:
        """Return the settings as TOML."""
        return to_toml({name: value for name, value in vars(self).items() if value is not None and value != {}})
