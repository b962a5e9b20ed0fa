"""Our own formats: models, indexes, collections, and results of the bench.

Raw damage must be seen, or change nothing. Damage whose checksums were made to fit is either refused, in one
sentence, or gives something that works.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import safetensors.numpy

import dlfh
from dlfh import Collection, Encoder, Index
from dlfh._persistence.model_folder import config_checksum
from dlfh.bench.cells import Cache, Cell, Result
from dlfh.codes import pack
from dlfh.datasets import Items, make_paired
from dlfh.errors import DLFHError
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail
from dlfh.index import files as index_files
from dlfh.index.segment import metadata_checksum
from dlfh.methods import available
from dlfh.methods.catalogue import METHODS
from tests.fuzz.cases import Case, ChangedError, Target, unpacked
from tests.fuzz.mutations import damage, damage_array, damage_json, to_json

__all__ = ["OWN_FILES"]

Files = dict[str, bytes]

_DATA = make_paired(40, n_labels=3, image_features=5, text_features=7, random_state=0)
_TEXTS = ("a red car", "a blue car", "a small dog", "a big dog", "a red dog", "a blue bird")
_GERMAN = ("ein rotes Auto", "ein blaues Auto", "ein kleiner Hund", "ein grosser Hund", "ein roter Hund", "ein Vogel")
_IMAGES = [np.random.default_rng(n).integers(0, 255, (8, 8, 3), dtype=np.uint8) for n in range(6)]


@contextmanager
def _same_names() -> Iterator[None]:
    """Let files have the same names in every run: they are drawn at random."""
    rng = Random(0)
    with (
        mock.patch.object(secrets, "token_hex", lambda n=32: rng.randbytes(n).hex()),
        mock.patch.object(secrets, "token_bytes", lambda n=32: rng.randbytes(n)),
        mock.patch.object(os, "urandom", rng.randbytes),
    ):
        yield


def _files_of(make: Callable[[Path], Any]) -> Files:
    """Return the files that something makes in a folder; not those that hold locks."""
    with tempfile.TemporaryDirectory() as place, _same_names():
        folder = Path(place) / "made"
        make(folder)
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.stat().st_size}


def _damage_one(rng: Random, files: Files) -> Files:
    """Damage one file, or lose it, or put another in its place."""
    names = sorted(files)
    name = rng.choice(names)
    kind = rng.random()
    if kind < 0.03:
        return {other: content for other, content in files.items() if other != name}
    if kind < 0.06:
        return files | {name: files[rng.choice(names)]}
    return files | {name: damage(rng, files[name], list(files.values()))}


# Models


def _method(name: str) -> Any:
    options = {} if available()[name].is_deterministic else {"random_state": 0}
    return METHODS[name](12, **options).fit(_DATA.modalities, _DATA.labels)  # type: ignore[call-arg]


def _encoder() -> Encoder:
    encoder = Encoder({"text": BagOfWords(), "image": Thumbnail()}, dlfh.DLFH(n_bits=12, random_state=0))
    return encoder.fit(
        {"text": list(_TEXTS), "image": _IMAGES}, [["car"], ["car"], ["dog"], ["dog"], ["dog"], ["bird"]]
    )


@cache
def _models() -> tuple[Files, ...]:
    fitted = [*map(_method, sorted(METHODS)), _encoder()]
    return tuple(_files_of(model.save) for model in fitted)


def _answers_of_model(model: Any) -> bytes:
    """Return a digest of all that a model says of points that it knows."""
    said = hashlib.sha256()
    for name in model.modalities_:
        points: Any = _DATA.modalities.get(name)
        if isinstance(model, Encoder):
            points = {"text": list(_TEXTS), "image": _IMAGES}.get(name)
        said.update(name.encode() + model.codes_[name].tobytes())
        said.update(model.encode(name, points).tobytes())
        said.update(model.project(name, points).tobytes())
    inner = model.model_ if isinstance(model, Encoder) else model
    parameters = {key: value for key, value in inner.get_params(deep=False).items() if key != "hash_function"}
    said.update(repr(sorted(parameters.items(), key=str)).encode())
    return said.digest()


def _make_model(rng: Random) -> Case:
    files = rng.choice((*_models(), *_kept("model")))
    if rng.random() < 0.3:
        return Case(_damage_one(rng, files))
    return Case(_signed_model(rng, files), signed=True)


def _signed_model(rng: Random, files: Files, prefix: str = "") -> Files:
    """Change configuration or arrays of a model, and make its checksums fit."""
    config = json.loads(files[prefix + "config.json"])
    stored = config.get("arrays", {}).get("file", "") if isinstance(config, dict) else ""
    if prefix + stored not in files:
        return _damage_one(rng, files)
    payload = files[prefix + stored]
    kind = rng.random()
    if kind < 0.55:
        payload = _signed_arrays(rng, payload)
    if kind > 0.45:
        config = damage_json(rng, config)
    if isinstance(config, dict):
        digest = hashlib.sha256(payload).hexdigest()
        if isinstance(config.get("arrays"), dict) and rng.random() < 0.95:
            config["arrays"] = {"file": f"arrays-{digest[:16]}.safetensors", "sha256": digest}
            stored = config["arrays"]["file"]
        config["checksum"] = config_checksum(config)
    others = {name: content for name, content in files.items() if not name.startswith(prefix + "arrays-")}
    return others | {prefix + "config.json": to_json(config, indent=2, sort_keys=True), prefix + stored: payload}


def _signed_arrays(rng: Random, payload: bytes) -> bytes:
    if rng.random() < 0.2:
        return damage(rng, payload)
    try:
        arrays = safetensors.numpy.load(payload)
    except Exception:
        return damage(rng, payload)
    if rng.random() < 0.15:  # a type that NumPy does not have, or another one that is as wide
        return payload.replace(
            rng.choice((b'"F32"', b'"F64"', b'"I64"', b'"U8"')),
            rng.choice((b'"BF16"', b'"I32"', b'"F16"', b'"BOOL"')),
            1,
        )
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(arrays))
        kind = rng.random()
        if kind < 0.8:
            arrays[name] = np.ascontiguousarray(_for_safetensors(damage_array(rng, arrays[name])))
        elif kind < 0.9:
            arrays[rng.choice((name + "x", "hash/other/weights", rng.choice(sorted(arrays))))] = arrays.pop(name)
        elif len(arrays) > 1:
            del arrays[name]
    return safetensors.numpy.save(arrays)


def _for_safetensors(array: Any) -> Any:
    array = array.astype(array.dtype.newbyteorder("="))
    return (
        array
        if array.dtype.kind in "biuf"
        else array.astype(np.float64, casting="unsafe")
        if array.dtype.kind == "c"
        else np.zeros(3)
    )


def _use_model(case: Case, folder: Path) -> None:
    case.write(folder / "model")
    model = dlfh.load(folder / "model")
    answers = _answers_of_model(model)
    if case.signed:
        repr(model)
        model.save(folder / "again")
        if _answers_of_model(dlfh.load(folder / "again")) != answers:
            raise ChangedError("what is saved again is another model")
    elif answers not in _model_answers():
        raise ChangedError("a damaged model was loaded, and is another one")


@cache
def _model_answers() -> frozenset[bytes]:
    found = set()
    for files in _models():
        with tempfile.TemporaryDirectory() as folder:
            Case(files).write(Path(folder))
            found.add(_answers_of_model(dlfh.load(folder)))
    return frozenset(found)


# Indexes


def _fill(index: Index) -> None:
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], (30, 2, 20))
    ids = [f"item {n}" for n in range(30)]
    metadata: list[Any] = [{"n": n, "text": "é" * (n % 3)} if n % 4 else None for n in range(30)]
    both = {"image": pack(signs[:12, 0]), "text": pack(signs[:12, 1])}
    index.add(ids[:12], both, learned=True, metadata=metadata[:12])
    index.add(ids[12:20], {"image": pack(signs[12:20, 0])}, metadata=metadata[12:20])
    index.remove(ids[3:5])
    index.add(ids[20:], {"text": pack(signs[20:, 1])})
    index.remove(ids[14:16])


def _make_index_folder(folder: Path) -> None:
    with Index.create(folder, 20, ["image", "text"]) as index:
        _fill(index)


def _make_small_index(folder: Path) -> None:
    with Index.create(folder, 8, ["a"]) as index:
        index.add(["x", "y", "z"], {"a": np.arange(3, dtype=np.uint8).reshape(-1, 1)}, metadata=[{"k": 1}, None, {}])


@cache
def _indexes() -> tuple[Files, ...]:
    return tuple(map(_files_of, (_make_index_folder, _make_small_index)))


def _make_index(rng: Random) -> Case:
    files = rng.choice((*_indexes(), *_kept("index")))
    if rng.random() < 0.4:
        return Case(_damage_one(rng, files))
    return Case(_signed_index(rng, files), signed=True)


def _signed_index(rng: Random, files: Files, prefix: str = "") -> Files:
    """Change the manifest or a section of a segment, and make all checksums fit."""
    files = dict(files)
    try:
        content = json.loads(files[prefix + "manifest.json"])
        body = content["index"]
        kind = rng.random()
        if kind < 0.6:
            entry = rng.choice(body["segments"])
            _sign_segment(rng, files, prefix, entry, body["n_bits"])
        if kind > 0.5:
            content = damage_json(rng, content)
        content["checksum"] = index_files._checksum(content["index"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return _damage_one(rng, files)
    return files | {prefix + "manifest.json": to_json(content, indent=1)}


def _sign_segment(rng: Random, files: Files, prefix: str, entry: Any, n_bits: int, n_chosen: int = 0) -> None:
    """Damage one of the last ``n_chosen`` sections, by default of all, or the bitmap of removed rows."""
    name = prefix + entry["file"]
    if entry["removed"] is not None and not n_chosen and rng.random() < 0.2:
        removed = prefix + entry["removed"]["file"]
        files[removed] = damage(rng, files[removed])
        entry["removed"]["checksum"] = zlib.crc32(files[removed])
        if rng.random() < 0.5:
            entry["removed"]["rows"] = int(np.unpackbits(np.frombuffer(files[removed], np.uint8)).sum())
        return
    sizes = (entry["rows"], tuple(entry["codes"]), entry["id_bytes"], entry["metadata_bytes"])
    words = index_files.WordsRecord(**entry["words"]) if "words" in entry else None
    sections = index_files.sections_of(index_files.SegmentRecord(entry["file"], *sizes, (), words=words), n_bits)
    content, places = bytearray(files[name]), {}
    chosen = rng.randrange(len(sections) - (n_chosen or len(sections)), len(sections))
    start = index_files.ALIGNMENT
    for number, section in enumerate(sections):
        places[section.name] = slice(start, start + section.size)
        if number == chosen or rng.random() < 0.05:
            raw = bytes(content[places[section.name]])
            array = np.frombuffer(raw, section.dtype)
            new = damage(rng, raw) if rng.random() < 0.5 else damage_array(rng, array).tobytes()
            content[places[section.name]] = new[: section.size].ljust(section.size, b"\0")
        start += section.padded
    if "metadata" in places and rng.random() < 0.7:
        _sign_metadata(content, places)
    for number, section in enumerate(sections):
        entry["checksums"][number] = zlib.crc32(content[places[section.name]])
    files[name] = bytes(content)


def _sign_metadata(content: bytearray, places: dict[str, slice]) -> None:
    """Make the checksums of single items' metadata fit."""
    texts = []
    for kind, offsets in (("ids", "id offsets"), ("metadata", "metadata offsets")):
        raw, bounds = content[places[kind]], np.frombuffer(content[places[offsets]], "<i8").tolist()
        texts.append([bytes(raw[a:b]) for a, b in itertools.pairwise(bounds)])
    checks = [metadata_checksum(identifier, text) for identifier, text in zip(*texts, strict=True)]
    content[places["metadata checksums"]] = np.array(checks, "<u4").tobytes()


def _contents(index: Index) -> list[Any]:
    items = [index.get(name) for name in index.ids()]
    listed = [
        (item.id, item.metadata, sorted((m, c.tobytes()) for m, c in item.codes.items()), item.states) for item in items
    ]
    width = -(-index.n_bits // 8)
    queries = np.random.default_rng(1).integers(0, 255, (2, width), dtype=np.uint8)
    queries[:, -1] &= 0xFF << (-index.n_bits % 8) & 0xFF
    answers = [repr(index.search(name, queries, k=5)) for name in index.modalities]
    values = np.random.default_rng(2).standard_normal((1, index.n_bits)).astype(np.float32)
    answers += [repr(index.search(name, values, k=5, ranking="asymmetric")) for name in index.modalities]
    return [index.n_bits, index.modalities, listed, answers]


@cache
def _index_contents() -> list[Any]:
    found = []
    for files in _indexes():
        with tempfile.TemporaryDirectory() as folder:
            Case(files).write(Path(folder))
            with Index.open(folder) as index:
                found.append(_contents(index))
    return found


def _use_index(case: Case, folder: Path) -> None:
    place = folder / "index"
    case.write(place)
    with Index.open(place) as index:
        contents = _contents(index)
        verified = True
        try:
            index.verify()
        except DLFHError:
            verified = False
    if not case.signed:
        if contents not in _index_contents():
            raise ChangedError("a damaged index was opened, and is another one")
        if not verified:
            return
    with Index.open(place, verify=False) as index:
        len(index)
    with Index.open(place, writable=True) as index:
        width = -(-index.n_bits // 8)
        index.put(["a new item"], {name: np.zeros((1, width), np.uint8) for name in index.modalities})
        before = index.ids()
        index.compact()
        if index.ids() != before:
            raise ChangedError("compacting changed which items there are")
        index.verify()


# Collections


def _make_collection_folder(folder: Path) -> None:
    items = Items.of(
        {"english": list(_TEXTS), "german": list(_GERMAN)}, labels=[["car"]] * 2 + [["dog"]] * 3 + [["bird"]]
    )
    encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, dlfh.DLFH(n_bits=12, random_state=0))
    Collection.build(folder, items, encoder).collection.close()


@cache
def _collection() -> Files:
    return _files_of(_make_collection_folder)


#: Addresses that a folder may name. None of them is opened, since the user names none.
_ADDRESSES = (
    "postgresql://127.0.0.1:1/shop",
    "milvus://127.0.0.1:1#t",
    "duckdb:items.duckdb",
    "milvus:items.db",
    "duckdb:",
)


def _make_collection(rng: Random) -> Case:
    files = rng.choice((_collection(), *_kept("collection")))
    kind = rng.random()
    if kind < 0.05:
        address: Any = {"items": rng.choice(_ADDRESSES)}
        return Case(files | {"items.json": to_json(damage_json(rng, address))}, signed=True)
    if kind < 0.3:
        return Case(_damage_one(rng, files))
    if kind < 0.5:
        name = rng.choice([name for name in files if "/" not in name] or sorted(files))
        try:
            return Case(files | {name: to_json(damage_json(rng, json.loads(files[name])), indent=2)}, signed=True)
        except ValueError:
            return Case(_damage_one(rng, files))
    if kind < 0.75:
        return Case(_signed_index(rng, files, "index/"), signed=True)
    changed = _signed_model(rng, files, "model/")
    try:  # the card knows its model by the checksum
        config = json.loads(changed["model/config.json"])
        card = json.loads(changed["collection.json"])
        changed["collection.json"] = to_json(card | {"model": config_checksum(config)}, indent=2)
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    return Case(changed, signed=True)


def _answers(collection: Collection) -> list[Any]:
    found: list[Any] = [repr(collection.search(name, "a red Auto", k=4)) for name in collection.encoder.modalities_]
    for item in collection:
        found.append((item.id, item.metadata, item.states))
        found.append(repr(collection.similar(item.id, k=2)))
    return found


@cache
def _collection_answers() -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        Case(_collection()).write(Path(folder) / "shop")
        with Collection.open(Path(folder) / "shop") as collection:
            return _answers(collection)


def _use_collection(case: Case, folder: Path) -> None:
    place = folder / "shop"
    case.write(place)
    with Collection.open(place) as collection:
        answers = _answers(collection)
    if not case.signed:
        if answers != _collection_answers():
            raise ChangedError("a damaged collection was opened, and is another one")
        return
    with Collection.open(place, writable=True) as collection:
        values = {name: ["new words"] for name in collection.encoder.modalities_}
        collection.add(Items.of(values))


# Words


def _make_words(rng: Random) -> Case:
    """Damage the postings of a segment, with fitting checksums."""
    files = dict(rng.choice((_collection(), *_kept("words"))))
    content = json.loads(files["index/manifest.json"])
    entry = rng.choice(content["index"]["segments"])
    if rng.random() < 0.2:
        return Case(files | {f"index/{entry['file']}": damage(rng, files[f"index/{entry['file']}"])})
    _sign_segment(rng, files, "index/", entry, content["index"]["n_bits"], n_chosen=6)
    if rng.random() < 0.2:
        entry["words"] = damage_json(rng, entry["words"])
    content["checksum"] = index_files._checksum(content["index"])
    return Case(files | {"index/manifest.json": to_json(content, indent=1)}, signed=True)


def _use_words(case: Case, folder: Path) -> None:
    place = folder / "shop"
    case.write(place)
    with Collection.open(place) as collection:
        found = [collection.search(name, "a red Auto", match="words") for name in collection.encoder.modalities_]
        if not case.signed and [repr(each) for each in found] != _word_answers():
            raise ChangedError("a damaged word index was read, and is another one")


@cache
def _word_answers() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        Case(_collection()).write(Path(folder) / "shop")
        with Collection.open(Path(folder) / "shop") as collection:
            names = collection.encoder.modalities_
            return [repr(collection.search(name, "a red Auto", match="words")) for name in names]


# Results of the bench


_CELL = Cell("wiki", "0f", "DLFH", {"scale": 4.0}, bits=32, seed=0)
_RESULT = Result({"map": {"learned": [0.25, 0.5]}}, {"seconds": 1.5}, machine={"cores": 2})


@cache
def _cells() -> Files:
    return _files_of(lambda folder: Cache(folder).put(_CELL, _RESULT))


def _make_cell(rng: Random) -> Case:
    files = rng.choice((_cells(), *_kept("cells")))
    name = next(name for name in files if name.startswith("cells/"))
    if rng.random() < 0.4:
        return Case(files | {name: damage(rng, files[name])})
    try:
        return Case(files | {name: to_json(damage_json(rng, json.loads(files[name])))}, signed=True)
    except ValueError:
        return Case(files | {name: damage(rng, files[name])})


def _use_cell(case: Case, folder: Path) -> None:
    case.write(folder)
    cache_ = Cache(folder)
    result = cache_.get(_CELL)
    if result is not None:
        result.may_succeed_with({"minutes": 5, "gigabytes": 8})
        json.dumps(result.__dict__)
    cache_.put(_CELL, _RESULT)
    if cache_.get(_CELL) != _RESULT:
        raise ChangedError("a result that was put is not what is got")


@cache
def _kept(name: str) -> tuple[Files, ...]:
    return tuple(unpacked(path).files for path in OWN_FILES_BY_NAME[name].corpus())


def _prepare() -> None:
    """Compute what cases are compared with, once, before there are workers."""
    _model_answers()
    _index_contents()
    _collection_answers()
    _word_answers()
    _cells()


#: The formats that are this library's.
OWN_FILES = (
    Target("model", _make_model, _use_model, _prepare),
    Target("index", _make_index, _use_index, _prepare),
    Target("collection", _make_collection, _use_collection, _prepare),
    Target("words", _make_words, _use_words, _prepare),
    Target("cells", _make_cell, _use_cell, _prepare),
)
OWN_FILES_BY_NAME = {target.name: target for target in OWN_FILES}
