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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from dlfh.errors import ModelError
from dlfh.persistence._files import TEMPORARY_PREFIX, exclusive, replace_file

__all__ = ["FORMAT_VERSION", "check_place", "config_checksum", "read_model", "write_model"]

#: Raised when older versions could not read what this one writes.
FORMAT_VERSION = 1
_FORMAT = "dlfh-model"
_CONFIG = "config.json"


def write_model(
    folder: str | os.PathLike[str], config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a model folder; an existing model there is replaced in one step."""
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
    check_place(path)
    path.mkdir(parents=True, exist_ok=True)
    with exclusive(path / ".lock"):
        check_place(path)
        replace_file(path / array_file, [payload])
        replace_file(path / _CONFIG, [text.encode()])
        for stale in (*path.glob("arrays-*.safetensors"), *path.glob(f"{TEMPORARY_PREFIX}*")):
            if stale.name != array_file:
                stale.unlink(missing_ok=True)


def config_checksum(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a configuration, less its own entry for it."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_place(path: Path) -> None:
    """Refuse to save over anything but a model, or what a crash left of one."""
    if path.exists() and not path.is_dir():
        raise ModelError(f"cannot save a model in {path}: it is a file, not a folder")
    if not path.is_dir():
        return
    if (path / _CONFIG).exists():
        try:
            _read_config(path)
        except ModelError as error:
            if "is not a dlfh model" in str(error):
                raise ModelError(f"cannot save a model in {path}: its {_CONFIG} is of something else") from None
        return
    names = [name for name in os.listdir(path) if not name.startswith(".")]
    if any(not (name.startswith("arrays-") and name.endswith(".safetensors")) for name in names):
        raise ModelError(f"cannot save a model in {path}: the folder is not empty and holds no model")


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return configuration and arrays of a model folder, checked against their checksum."""
    path = Path(folder)
    for attempt in range(100):
        config = _read_config(path)
        file = path / config["arrays"]["file"]
        try:
            payload = file.read_bytes()
            break
        except FileNotFoundError:
            # Another process may have saved between the two reads; what it saved is whole.
            if attempt == 99 or (_read_config(path) == config and not file.exists()):
                raise ModelError(f"model {path} is incomplete: {config['arrays']['file']} is missing") from None
    if hashlib.sha256(payload).hexdigest() != config["arrays"]["sha256"]:
        raise ModelError(f"model {path} is damaged: {config['arrays']['file']} does not match its checksum")
    try:
        return config, safetensors.numpy.load(payload)
    except safetensors.SafetensorError as error:
        raise ModelError(f"model {path} is damaged: {error}") from None


def _read_config(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ModelError(f"there is no model at {path}: no such folder")
    if not path.is_dir():
        raise ModelError(f"there is no model at {path}: it is a file, and a model is a folder")
    try:
        config = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is not a model: it has no {_CONFIG}") from None
    except OSError:
        raise ModelError(f"{path} is not a model: its {_CONFIG} cannot be read") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
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
    if not re.fullmatch(r"arrays-[0-9a-f]+\.safetensors", arrays["file"]):
        raise ModelError(f"model {path} is damaged: {_CONFIG} names arrays outside its folder")
    if config.get("checksum") != config_checksum(config):
        raise ModelError(f"model {path} is damaged: {_CONFIG} does not match its checksum")
    return config
