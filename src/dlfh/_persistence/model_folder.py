"""Models on disk: safetensors and JSON, never pickle, crash-safe.

A model is a folder with ``config.json`` and one ``arrays-<hash>.safetensors``. The configuration
names the array file and its SHA-256, and has one of its own. Arrays are written first, under the name
of their content; the configuration then replaces the old one in a single rename, which is the moment of
saving. Whenever a crash happens, the folder holds the old model or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from dlfh._persistence.files import exclusive, made_folder, read_regular, remove_leftovers, replace_file
from dlfh.errors import ModelError

__all__ = [
    "FORMAT_VERSION",
    "MOST_DIGITS",
    "check_place",
    "config_checksum",
    "holds_model",
    "read_model",
    "write_model",
]

#: Raised when older versions could not read what this one writes.
FORMAT_VERSION = 1
_FORMAT = "dlfh-model"
_CONFIG = "config.json"
_LOCK = ".lock"
_ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
#: No model has a longer configuration: what is learned is in the arrays.
_MOST_CONFIG_BYTES = 1 << 26
#: More digits than a parameter has: such a number is no float, and overflows wherever it is used as one.
MOST_DIGITS = 100


def write_model(
    folder: str | os.PathLike[str],
    config: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    overwrite: bool = True,
) -> None:
    """Write a model folder; an existing model there is replaced in one step, or refused without ``overwrite``."""
    path = Path(folder)
    payload = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    digest = hashlib.sha256(payload).hexdigest()
    array_file = f"arrays-{digest[:16]}.safetensors"
    header = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "arrays": {"file": array_file, "sha256": digest},
    }
    whole = {**header, **config}
    text = json.dumps({**whole, "checksum": config_checksum(whole)}, indent=2, sort_keys=True)
    check_place(path, overwrite=overwrite)
    try:
        with made_folder(path):
            _write(path, array_file, payload, text.encode(), overwrite)
    except OSError as error:
        raise ModelError(f"cannot save a model in {path}: {error.strerror or error}") from error


def _write(path: Path, array_file: str, payload: bytes, config: bytes, overwrite: bool) -> None:
    is_first = not os.path.lexists(path / _LOCK)
    try:
        with exclusive(path / _LOCK):
            check_place(path, overwrite=overwrite)
            try:
                replace_file(path / array_file, [payload])
                replace_file(path / _CONFIG, [config])
            finally:  # whatever happened, the configuration says which arrays are the model's
                remove_leftovers(path, _ARRAYS, keep=_named_arrays(path))
    except BaseException:
        if is_first and not os.path.lexists(path / _CONFIG):
            with suppress(OSError):
                os.unlink(path / _LOCK)
        raise


def _named_arrays(path: Path) -> list[str]:
    try:
        return [_read_config(path)["arrays"]["file"]]
    except ModelError:
        # Nothing that can be loaded. Its arrays are kept, if it is there: it may be of a newer version.
        return os.listdir(path) if os.path.lexists(path / _CONFIG) else []


def config_checksum(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a configuration, less its own entry for it."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_place(path: Path, *, overwrite: bool = True) -> None:
    """Refuse to save over anything but a model, or what a crash left of one; or over a model without ``overwrite``."""
    if path.exists() and not path.is_dir():
        raise ModelError(f"cannot save a model in {path}: it is a file, not a folder")
    if not path.is_dir():
        return
    if os.path.lexists(path / _CONFIG):
        if not _is_ours(path / _CONFIG):
            raise ModelError(f"cannot save a model in {path}: its {_CONFIG} is of something else")
        if not overwrite:
            raise ModelError(f"cannot save a model in {path}: there is one already, and --overwrite would replace it")
        return
    names = [name for name in os.listdir(path) if not name.startswith(".")]
    if not all(map(_ARRAYS.fullmatch, names)):
        raise ModelError(f"cannot save a model in {path}: the folder is not empty and holds no model")


def holds_model(path: Path) -> bool:
    """Return whether a folder has a model, whole or not."""
    return _is_ours(path / _CONFIG)


def _is_ours(config: Path) -> bool:
    """Return whether a file says that it is a model's: what does not say so, even by damage, is never replaced."""
    try:
        content = json.loads(read_regular(config, _MOST_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == _FORMAT


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return configuration and arrays of a model folder, checked against their checksum."""
    path = Path(folder)
    for attempt in range(100):
        config = _read_config(path)
        file = path / config["arrays"]["file"]
        try:
            payload = read_regular(file)
            break
        except FileNotFoundError:
            # Another process may have saved between the two reads; what it saved is whole.
            if attempt == 99 or (_read_config(path) == config and not file.exists()):
                raise ModelError(f"model {path} is incomplete: {file.name} is missing") from None
        except OSError as error:
            raise ModelError(f"model {path} cannot be read: {file.name}: {error.strerror or error}") from None
    if hashlib.sha256(payload).hexdigest() != config["arrays"]["sha256"]:
        raise ModelError(f"model {path} is damaged: {config['arrays']['file']} does not match its checksum")
    try:
        return config, safetensors.numpy.load(payload)
    except safetensors.SafetensorError as error:
        raise ModelError(f"model {path} is damaged: {error}") from None
    except KeyError as error:  # NumPy has no such type
        raise ModelError(f"model {path} is damaged: it has arrays of type {error.args[0]}") from None


def _read_config(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ModelError(f"there is no model at {path}: no such folder")
    if not path.is_dir():
        raise ModelError(f"there is no model at {path}: it is a file, and a model is a folder")
    try:
        content = read_regular(path / _CONFIG, _MOST_CONFIG_BYTES).decode()
        config = json.loads(content, parse_int=_parse_integer)
    except FileNotFoundError:
        raise ModelError(f"{path} is not a model: it has no {_CONFIG}") from None
    except OSError:
        raise ModelError(f"{path} is not a model: its {_CONFIG} cannot be read") from None
    except OverflowError as error:
        raise ModelError(f"model {path} is damaged: {_CONFIG} {error}") from None
    except (ValueError, RecursionError):
        raise ModelError(f"model {path} is damaged: {_CONFIG} is not valid JSON") from None
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise ModelError(f"{path} is not a dlfh model: its {_CONFIG} is of something else")
    version = config.get("format_version")
    if not isinstance(version, int):
        raise ModelError(f"model {path} is damaged: its format version is {version!r}")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"model {path} has format version {version}, and this dlfh reads up to {FORMAT_VERSION}: upgrade dlfh"
        )
    arrays = config.get("arrays")
    if not isinstance(arrays, dict) or not isinstance(arrays.get("file"), str) or "sha256" not in arrays:
        raise ModelError(f"model {path} is damaged: {_CONFIG} does not name its arrays")
    if not _ARRAYS.fullmatch(arrays["file"]):
        raise ModelError(f"model {path} is damaged: {_CONFIG} names arrays outside its folder")
    if config.get("checksum") != config_checksum(config):
        raise ModelError(f"model {path} is damaged: {_CONFIG} does not match its checksum")
    return config


def _parse_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise OverflowError(f"has a number of {len(digits):,} digits")
    return int(digits)
