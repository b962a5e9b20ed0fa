"""Crash-safe storage of models as safetensors and JSON, never pickle.

A model is a folder with ``config.json`` and ``arrays-<hash>.safetensors``. The configuration contains a checksum of
itself and the name and checksum of the array file. The arrays are written first, under a name derived from their
content; a single rename then replaces the configuration. After a crash at any time, the folder contains either the old
model or the new one, complete.
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
import safetensors
import safetensors.numpy

from dlfh._arrays import Array
from dlfh._persistence import files
from dlfh.errors import ModelError

FORMAT_VERSION = 1  # incremented when older versions cannot read new files
_FORMAT = "dlfh-model"
_CONFIG = "config.json"
_LOCK = ".lock"
_ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_MAX_CONFIG_BYTES = 1 << 26  # largest configuration file; learned values are in the arrays
MAX_DIGITS = 100  # longest integer parameter; longer ones overflow when converted to float


def write_model(
    folder: str | os.PathLike[str], config: Mapping[str, Any], arrays: Mapping[str, Array], *, overwrite: bool = True
) -> None:
    """Write a model folder atomically; replace an existing model only with ``overwrite``."""
    path = Path(folder)
    payload = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    digest = hashlib.sha256(payload).hexdigest()
    array_file = f"arrays-{digest[:16]}.safetensors"
    header = {"format": _FORMAT, "format_version": FORMAT_VERSION, "arrays": {"file": array_file, "sha256": digest}}
    content = {**header, **config}
    text = json.dumps({**content, "checksum": config_checksum(content)}, indent=2, sort_keys=True)
    check_target(path, overwrite=overwrite)
    try:
        with files.create_folder(path):
            _write(path, array_file, payload, text.encode(), overwrite)
    except OSError as error:
        raise ModelError(f"cannot save a model in {path}: {error.strerror or error}") from error


def _write(path: Path, array_file: str, payload: bytes, config: bytes, overwrite: bool) -> None:
    is_first = not os.path.lexists(path / _LOCK)
    try:
        with files.exclusive(path / _LOCK):
            check_target(path, overwrite=overwrite)
            try:
                files.replace_file(path / array_file, [payload])
                files.replace_file(path / _CONFIG, [config])
            finally:  # the configuration names the arrays in use, whether or not writing succeeded
                files.remove_leftovers(path, _ARRAYS, keep=_arrays_in_use(path))
    except BaseException:
        if is_first and not os.path.lexists(path / _CONFIG):
            with suppress(OSError):
                os.unlink(path / _LOCK)
        raise


def _arrays_in_use(path: Path) -> list[str]:
    try:
        return [_read_config(path)["arrays"]["file"]]
    except ModelError:
        # An unreadable configuration may be of a newer version: keep its arrays.
        return os.listdir(path) if os.path.lexists(path / _CONFIG) else []


def config_checksum(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a configuration without its ``checksum`` entry."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_target(path: Path, *, overwrite: bool = True) -> None:
    """Raise ModelError unless a folder is new, empty, an interrupted save, or (with ``overwrite``) a model."""
    problem = None
    if path.exists() and not path.is_dir():
        problem = "it is a file, not a folder"
    elif path.is_dir() and os.path.lexists(path / _CONFIG):
        if not holds_model(path):
            problem = f"its {_CONFIG} was not written by dlfh"
        elif not overwrite:
            problem = "the folder contains a model; use --overwrite to replace it"
    elif path.is_dir() and not all(_ARRAYS.fullmatch(name) for name in os.listdir(path) if name[0] != "."):
        problem = "the folder is not empty and contains no model"
    if problem is not None:
        raise ModelError(f"cannot save a model in {path}: {problem}")


def holds_model(path: Path) -> bool:
    """Return whether a folder contains a model configuration; a damaged one does not count and is never replaced."""
    try:
        content = json.loads(files.read_regular(path / _CONFIG, _MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == _FORMAT


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the configuration and arrays of a model folder after verifying their checksums."""
    path = Path(folder)
    for attempt in range(100):
        config = _read_config(path)
        file = path / config["arrays"]["file"]
        try:
            payload = files.read_regular(file)
            break
        except FileNotFoundError:
            # Another process may have saved between the two reads; read its configuration.
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
    except KeyError as error:  # a type that NumPy lacks
        raise ModelError(f"model {path} is damaged: it contains arrays of type {error.args[0]}") from None


def _read_config(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ModelError(f"there is no model at {path}: the folder does not exist")
    if not path.is_dir():
        raise ModelError(f"there is no model at {path}: a model is a folder, and this is a file")
    try:
        content = files.read_regular(path / _CONFIG, _MAX_CONFIG_BYTES).decode()
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
        raise ModelError(f"{path} is not a dlfh model: its {_CONFIG} was not written by dlfh")
    problem = files.version_problem(config.get("format_version"), FORMAT_VERSION)
    if problem is not None:
        raise ModelError(f"model {path} {problem}")
    arrays = config.get("arrays")
    if not isinstance(arrays, dict) or not isinstance(arrays.get("file"), str) or "sha256" not in arrays:
        raise ModelError(f"model {path} is damaged: {_CONFIG} does not name an array file")
    if not _ARRAYS.fullmatch(arrays["file"]):
        raise ModelError(f"model {path} is damaged: {_CONFIG} names an invalid array file")
    if config.get("checksum") != config_checksum(config):
        raise ModelError(f"model {path} is damaged: {_CONFIG} does not match its checksum")
    return config


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise OverflowError(f"contains a number with {len(digits):,} digits")
    return int(digits)


def with_prefix(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
