"""What `dlfh tune` chose for items, in a file that `dlfh build` takes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dlfh._persistence.files import read_regular
from dlfh.errors import InputError

__all__ = ["BuildSettings"]

_MOST_BYTES = 1 << 16
_EXPECTED = {"method": str, "bits": int, "image_features": str, "text_features": str, "parameters": dict}
_CALLED = {str: "a string", int: "a whole number", dict: "a table"}


@dataclass(frozen=True)
class BuildSettings:
    """Settings of a build; None where nothing is said.

    Attributes
    ----------
    method, image_features, text_features : str or None
    bits : int or None
    parameters : dict
        Of the method.
    """

    method: str | None = None
    bits: int | None = None
    image_features: str | None = None
    text_features: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> BuildSettings:
        """Read them from a file; None says nothing."""
        if path is None:
            return cls()
        try:
            plain = tomllib.loads(read_regular(path, _MOST_BYTES).decode())
        except FileNotFoundError:
            raise InputError(f"there are no settings at {path}: no such file") from None
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be read as settings in TOML: {str(error).splitlines()[0]}") from None
        for name, value in plain.items():
            if name not in _EXPECTED:
                known = ", ".join(_EXPECTED)
                raise InputError(f"{path} has {name!r}, which is no setting of a build: it may have {known}")
            if type(value) is not _EXPECTED[name]:
                raise InputError(f"{name} in {path} must be {_CALLED[_EXPECTED[name]]}, got {value!r}")
        if plain.get("parameters") and "method" not in plain:
            raise InputError(f"{path} has parameters and does not say of which method")
        return cls(**plain)

    def to_toml(self) -> str:
        """Return them as a file holds them.

        Examples
        --------
        >>> print(BuildSettings("DLFH", 128, text_features="tfidf", parameters={"scale": 8.0}).to_toml(), end="")
        method = "DLFH"
        bits = 128
        text_features = "tfidf"
        <BLANKLINE>
        [parameters]
        scale = 8.0
        """
        from dlfh.bench.toml import to_toml

        said = {own.name: getattr(self, own.name) for own in fields(self)}
        return to_toml({name: value for name, value in said.items() if value is not None and value != {}})
