"""Files that come from anywhere: arrays, tables, images and texts."""

from __future__ import annotations

import io
import json
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp
from PIL import Image

from dlfh._imports import is_installed
from dlfh._validation import check_features
from dlfh.datasets import Paired, make_paired, read_arrays, read_items
from dlfh.datasets.loaders import load_file
from dlfh.datasets.tables import read_table
from dlfh.errors import DLFHError
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail
from dlfh.features.images import known_formats, read_image
from tests.datasets.matlab73 import write_matlab73
from tests.fuzz.cases import Case, Target, unpacked
from tests.fuzz.mutations import damage, damage_array, damage_json, damage_text, to_json

__all__ = ["DATA_FILES", "WORKBOOK"]

_rows = np.random.default_rng(0)
_DENSE = _rows.standard_normal((6, 4))
_SPARSE = sp.csr_array(_rows.integers(0, 3, (6, 5)) * (_rows.random((6, 5)) < 0.5) * 1.0)
_LABELS = np.array([0, 1, 2, 0, 1, 2])
_NAMES = np.array(["cat", "dog", "é", "", "a b", "longer name"])


# What is read


def _use_arrays(path: Path) -> None:
    """Read a file, and do with its arrays what a user does next."""
    for array in read_arrays(path).values():
        if sp.issparse(array):
            assert array.format == "csr"
            if max(array.shape) < 10**6:
                array @ np.ones(array.shape[1], np.float64)
                array.T.tocsr()
        else:
            array.tobytes() if array.dtype != object else list(array.ravel())
        if array.ndim == 2 and array.dtype.kind in "biuf" and array.shape[0] < 10**6:
            try:
                check_features(array, "image", array.shape[1])
            except DLFHError:
                continue


def _use_only(use: Callable[[Path], Any]) -> Callable[[Case, Path], None]:
    """Return what gives the only file of a case to a reader."""

    def run(case: Case, folder: Path) -> None:
        case.write(folder)
        (name,) = case.files
        use(folder / name)

    return run


def _use_layout(path: Path) -> None:
    Paired.read(path)
    load_file(path)


def _use_table(path: Path) -> None:
    table = read_table(path)
    for problem in table.problems:
        str(problem)
    options: dict[str, Any] = {"text": table.columns[0]} if table.columns else {}
    if len(table.columns) > 1:
        options["labels"] = table.columns[1]
    if len(table.columns) > 2:
        options["id"] = table.columns[2]
    items = read_items(table=path, **options)
    len(items)


def _use_image(path: Path) -> None:
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    Thumbnail().fit([]).transform_readable([path])


@cache
def _fitted_words(analyzer: Any) -> BagOfWords:
    return BagOfWords(analyzer=analyzer).fit(["a red car", "ein rotes Auto", "猫が好き", "it's 3 o'clock"])


def _use_text(path: Path) -> None:
    texts = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    for analyzer in ("word", "word+char"):
        _fitted_words(analyzer).transform_readable(texts)
        BagOfWords(analyzer=analyzer).fit_transform_readable(texts)


# What it is made of


def _npy(array: Any, *, version: tuple[int, int] | None = None) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), version=version, allow_pickle=True)
    return content.getvalue()


def _zip(members: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return content.getvalue()


def _written(write: Callable[[Path], Any], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        write(path)
        return path.read_bytes()


def _npy_case(rng: Random, others: Sequence[bytes]) -> bytes:
    array: Any = rng.choice((_DENSE, _LABELS, _NAMES, _DENSE.astype("f2"), np.array([[{}]], object), _DENSE > 0))
    if rng.random() < 0.4 and array.dtype != object:
        array = damage_array(rng, array)
    content = _npy(array, version=rng.choice((None, (1, 0), (2, 0), (3, 0))))
    if rng.random() < 0.4:  # the header is a text, with its length before it
        size, start = (struct.unpack_from("<H", content, 8)[0], 10)
        if content[6] > 1:
            size, start = struct.unpack_from("<I", content, 8)[0], 12
        header = damage_text(rng, content[start : start + size].decode("latin-1", "replace"))
        if rng.random() < 0.5:
            header = damage(rng, content[start : start + size]).decode("latin-1")
        raw = header.encode("utf-8", "replace")
        length = struct.pack("<H" if start == 10 else "<I", min(len(raw), 65535))
        return content[:8] + length + raw + content[start + size :]
    return damage(rng, content, others)


def _npz_case(rng: Random, others: Sequence[bytes]) -> bytes:
    arrays = {"image": _DENSE, "labels": _LABELS, "label_names": _NAMES}
    if rng.random() < 0.4:
        return _members(rng, arrays, others)
    return damage(rng, _zip([(f"{name}.npy", _npy(array)) for name, array in arrays.items()]), others)


def _members(rng: Random, arrays: dict[str, Any], others: Sequence[bytes]) -> bytes:
    """Damage what an archive holds, so that the archive's own checksums fit."""
    members = []
    for name, array in arrays.items():
        stored = _npy(damage_array(rng, array) if rng.random() < 1.5 / len(arrays) else array)
        if rng.random() < 0.15:
            stored = damage(rng, stored, others)
        stem = damage_text(rng, name) if rng.random() < 0.1 else name
        members += [(stem.encode("utf-8", "replace").decode() + ".npy", stored)] * rng.choice((1,) * 20 + (0, 2))
    return _zip(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)))


def _sparse_case(rng: Random, others: Sequence[bytes]) -> bytes:
    """Return a sparse matrix as `scipy.sparse.save_npz` keeps it, or as this library does, with parts that lie."""
    kind = rng.choice(("csr", "csc", "bsr", "coo", "dia", "own"))
    parts: dict[str, Any]
    if kind == "own":
        parts = {"text_data": _SPARSE.data, "text_indices": _SPARSE.indices, "text_indptr": _SPARSE.indptr}
        parts["text_shape"] = np.array(_SPARSE.shape)
    else:
        matrix = sp.bsr_array(_SPARSE, blocksize=(2, 1)) if kind == "bsr" else _SPARSE.asformat(kind)
        names = {"coo": ("data", "row", "col"), "dia": ("data", "offsets")}.get(kind, ("data", "indices", "indptr"))
        parts = {name: getattr(matrix, name) for name in names}
        parts |= {"format": np.array(kind.encode()), "shape": np.array(matrix.shape)}
        if rng.random() < 0.5:
            parts["_is_array"] = np.array(True)
    chosen = rng.choice([name for name in parts if name != "format"])
    if rng.random() < 0.9:
        parts[chosen] = damage_array(rng, parts[chosen])
    if rng.random() < 0.1:
        parts["format"] = np.array(rng.choice((b"csr", b"csc", b"bsr", b"lil", b"dok", b"", b"x")))
    if rng.random() < 0.1:
        return _members(rng, parts, others)
    return _zip([(f"{name}.npy", _npy(array)) for name, array in parts.items()])


@cache
def _matlab5_seeds() -> tuple[bytes, ...]:
    cells = np.empty((1, 3), object)
    cells[0, :] = ["cat", _DENSE, "dog"]
    nested = np.empty((1, 2), object)
    nested[0, :] = [cells, "end"]
    plain = {
        "I_tr": _DENSE,
        "T_tr": sp.csc_array(_SPARSE),
        "L_tr": _LABELS.reshape(-1, 1),
        "names": _NAMES.astype(object),
    }
    structured = {"data": {"x": _DENSE, "y": "text", "cells": nested}, "z": _DENSE + 1j * _DENSE, "b": _DENSE > 0}
    written = []
    for variables, compress in ((plain, False), (plain, True), (structured, False), (structured, True)):
        content = io.BytesIO()
        scipy.io.savemat(content, variables, do_compression=compress)
        written.append(b"MATLAB 5.0 MAT-file, Platform: posix".ljust(116) + content.getvalue()[116:])
    content = io.BytesIO()
    scipy.io.savemat(content, {"x": _DENSE, "t": sp.csc_array(_SPARSE)}, format="4")
    return (*written, content.getvalue())


def _matlab5_case(rng: Random, others: Sequence[bytes]) -> bytes:
    file = rng.choice((*_matlab5_seeds(), *others))
    if rng.random() < 0.5 or not file.startswith(b"MATLAB"):
        return damage(rng, file, others)
    changed, place = bytearray(file[:128]), 128
    while place + 8 <= len(file):  # each element is damaged inside, and its length is right
        kind, size = struct.unpack_from("<II", file, place)
        content = file[place + 8 : place + 8 + size]
        place += 8 + size + (0 if kind == 15 else -size % 8)
        if rng.random() < 0.5:
            content = _element(rng, kind, content, others)
        changed += struct.pack("<II", kind, len(content)) + content + (b"" if kind == 15 else bytes(-len(content) % 8))
    return bytes(changed)


def _element(rng: Random, kind: int, content: bytes, others: Sequence[bytes]) -> bytes:
    if kind != 15:
        return damage(rng, content, others)
    try:
        return zlib.compress(damage(rng, zlib.decompress(content), others))
    except zlib.error:
        return damage(rng, content, others)


@cache
def _matlab73_seeds() -> tuple[bytes, ...]:
    variables = {
        "I_tr": _DENSE,
        "T_tr": _SPARSE,
        "L_tr": _LABELS,
        "names": ["cat", "", "dog"],
        "s": {"a": _DENSE, "b": "x"},
    }
    nested = {
        "cells": [_DENSE, ["a", [_LABELS]]],
        "z": np.zeros((0, 3)),
        "logical": _DENSE > 0,
        "t": sp.csc_array((4, 3)),
    }
    return tuple(_written(partial(write_matlab73, variables=chosen), ".mat") for chosen in (variables, nested))


@cache
def _hdf5_seeds() -> tuple[bytes, ...]:
    def write(path: Path) -> None:
        with h5py.File(path, "w", libver=("earliest", "v108")) as file:
            file["image"] = _DENSE
            file.create_dataset("deep/text", data=_DENSE, chunks=(2, 2), compression="gzip", shuffle=True)
            file["names"] = [str(name) for name in _NAMES]
            for part in ("data", "indices", "indptr"):
                file[f"t_{part}"] = getattr(_SPARSE, part)
            file["t_shape"] = _SPARSE.shape
            file["soft"] = h5py.SoftLink("/image")
            file["out"] = h5py.ExternalLink("other.h5", "/x")

    def write_latest(path: Path) -> None:
        with h5py.File(path, "w", libver="latest") as file:
            file.create_dataset("image", data=_DENSE, chunks=(3, 2), maxshape=(None, 4), fletcher32=True)
            file["labels"] = _LABELS

    return _written(write, ".h5"), _written(write_latest, ".h5")


def _matlab73_case(rng: Random, others: Sequence[bytes]) -> bytes:
    if rng.random() < 0.3:
        return _written(lambda path: _lying_matlab73(rng, path), ".mat")
    return damage(rng, rng.choice((*_matlab73_seeds(), *others)), others)


def _lying_matlab73(rng: Random, path: Path) -> None:
    """Write a sound HDF5 file whose contents are not what MATLAB writes."""
    write_matlab73(path, {"x": _DENSE, "t": _SPARSE, "names": ["cat", "", "dog"], "s": {"a": _DENSE}})
    with h5py.File(path, "r+") as file:
        for _ in range(rng.choice((1, 2, 3))):
            with suppress(KeyError, OSError, RuntimeError, TypeError, ValueError):  # some lies cannot be written
                _tell_a_lie(rng, file)


def _tell_a_lie(rng: Random, file: Any) -> None:
    item: Any = file[rng.choice(("x", "t", "names", "s", "s/a"))]
    kind = rng.random()
    if kind < 0.3:
        item.attrs["MATLAB_class"] = rng.choice(
            (b"cell", b"char", b"double", b"logical", b"struct", b"\xff", b"int8", 3, "function_handle")
        )
    elif kind < 0.4:
        item.attrs["MATLAB_empty"] = rng.choice((1, 0, -1, np.ones(3), b"x"))
    elif kind < 0.5:
        item.attrs["MATLAB_sparse"] = rng.choice((0, 1, -1, 2**31, 2**63 - 1, 2.5, b"x", np.ones(2)))
    elif kind < 0.8:
        part = rng.choice(("data", "ir", "jc"))
        old = file["t"][part][()]
        del file["t"][part]
        if rng.random() < 0.9:
            file["t"][part] = damage_array(rng, old)
    elif kind < 0.9:
        group: Any = rng.choice((file, file["s"], file["#refs#"]))
        group[f"again{rng.randrange(99)}"] = rng.choice((file["s"], file["t"], h5py.SoftLink("/s"), file["x"]))
    else:
        file["s"][f"loop{rng.randrange(99)}"] = rng.choice((h5py.SoftLink("/"), h5py.SoftLink("/none"), file["/"]))


def _hdf5_case(rng: Random, others: Sequence[bytes]) -> bytes:
    return damage(rng, rng.choice((*_hdf5_seeds(), *others)), others)


def _parquet(columns: dict[str, Any], about: Any, rng: Random) -> bytes:
    content = io.BytesIO()
    table = pyarrow.table(columns).replace_schema_metadata({b"dlfh": about})
    pyarrow.parquet.write_table(table, content, compression=rng.choice(("none", "snappy", "gzip", "zstd")))
    return content.getvalue()


def _parquet_case(rng: Random, others: Sequence[bytes]) -> bytes:
    lists = [list(_SPARSE.indices[a:b]) for a, b in zip(_SPARSE.indptr, _SPARSE.indptr[1:], strict=False)]
    values = [list(map(float, _SPARSE.data[a:b])) for a, b in zip(_SPARSE.indptr, _SPARSE.indptr[1:], strict=False)]
    columns: dict[str, Any] = {"text.columns": pyarrow.array(lists, pyarrow.list_(pyarrow.int64()))}
    columns |= {"text.values": pyarrow.array(values), "image": pyarrow.array(_DENSE.tolist()), "names": list(_NAMES)}
    columns["labels"] = _LABELS
    about: Any = {"sparse": {"text": 5}, "texts": {"about": "{}"}}
    if rng.random() < 0.6:
        about = damage_json(rng, about) if rng.random() < 0.4 else about
        for _ in range(rng.choice((1, 2))):
            columns[rng.choice(list(columns))] = _odd_column(rng)
        return _parquet(columns, to_json(about), rng)
    return damage(rng, _parquet(columns, to_json(about), rng), others)


def _odd_column(rng: Random) -> Any:
    far = 2**62
    return rng.choice(
        (
            pyarrow.array([0, 1, far, -far, None, 5], pyarrow.timestamp("ns")),
            pyarrow.array([0, 1, far // 1000, -far // 1000, None, 5], pyarrow.timestamp("ms")),
            pyarrow.array([0, 1, far // 1000, 3, None, 5], pyarrow.timestamp("us", tz="Nowhere/City")),
            pyarrow.array([0, 1, 2**31 - 1, -(2**31), None, 5], pyarrow.date32()),
            pyarrow.array([0, 1, far, -far, None, 5], pyarrow.duration("ns")),
            pyarrow.array([0, 1, 3, 4, None, 5], pyarrow.time64("ns")),
            pyarrow.array([b"\xff", b"a", None, b"", b"\0", b"x"], pyarrow.binary()),
            pyarrow.array([None] * 6),
            pyarrow.array([{"a": 1}] * 6),
            pyarrow.array([[("a", 1)]] * 6, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            pyarrow.array([[[1.0]], [], [[2.0]], None, [[]], [[1.0, 2.0]]]),
            pyarrow.array([["a"], ["b", None], [], ["c"], ["d"], [""]]),
            pyarrow.array([[1.0], [2.0, None], [], [1.0], [1.0], [1.0]]),
            pyarrow.array(["a", "b", "a", None, "b", "a"]).dictionary_encode(),
            pyarrow.array([1, 2, None, 4, 5, 6], pyarrow.decimal128(30, 2)),
            pyarrow.array([1.0, float("nan"), None, 4, 5, 6], pyarrow.float32()),
            pyarrow.array([np.float16(1)] * 6, pyarrow.float16()),
            pyarrow.array([True, None, False, True, True, True]),
            pyarrow.array([[-1], [2**40], [0], [1], [2], [3]]),
            pyarrow.array([b"abc"] * 6, pyarrow.binary(3)),
        )
    )


_TABLES = (
    'file,caption,tags\na.png,a red car,car;red\nb.png,"two\nlines",dog\nc.png,,\n',
    'caption;labels;id\nein Auto;car;1\n"a ""quoted"" one";dog;2\n',
    "text,labels,id,extra\n" + "".join(f"text {n},x|y,{n},1\n" for n in range(9)),
)


def _table_case(rng: Random, others: Sequence[bytes]) -> Case:
    if rng.random() < 0.3:
        return Case({"items.parquet": _parquet_table_case(rng, others)})
    text = rng.choice(_TABLES)
    suffix = rng.choice((".csv", ".csv", ".tsv"))
    if suffix == ".tsv":
        text = text.replace(",", "\t")
    if rng.random() < 0.5:
        text = damage_text(rng, text)
    encoding = rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"))
    content = text.encode(encoding, "replace")
    return Case({"items" + suffix: damage(rng, content, others) if rng.random() < 0.7 else content})


_JSON_LINES: tuple[Any, ...] = (
    {"caption": "a red car", "tags": ["car", "red"], "id": 1, "vector": [0.5, 1.0]},
    {"caption": "ein Auto", "tags": "car;x", "id": "2", "extra": {"a": None}},
    {"caption": None, "tags": [], "id": 3.5},
)


def _json_lines_case(rng: Random, others: Sequence[bytes]) -> bytes:
    lines = [to_json(damage_json(rng, line) if rng.random() < 0.5 else line) for line in _JSON_LINES]
    content = rng.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(lines)
    return damage(rng, content, others) if rng.random() < 0.5 else content


_CELLS = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>'
    '<c r="C1" t="inlineStr"><is><t>id</t></is></c></row>'
    '<row r="2"><c r="A2" t="s"><v>2</v></c><c r="B2" t="str"><v>x;y</v></c><c r="C2"><v>7</v></c></row>'
    '<row r="4"><c r="A4" t="b"><v>1</v></c><c r="B4" s="1"><v>45351.5</v></c><c r="C4" t="e"><v>#N/A</v></c></row>'
)
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
#: The parts of a small workbook.
WORKBOOK = {
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><workbookPr date1904="0"/>'
    '<sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/worksheets/sheet1.xml": f"<worksheet xmlns='{_MAIN}'><sheetData>{_CELLS}</sheetData></worksheet>",
    "xl/sharedStrings.xml": f"<sst xmlns='{_MAIN}'><si><t>caption</t></si><si><r><t>ta</t></r><r><t>gs</t></r></si>"
    "<si><t>é</t></si></sst>",
    "xl/styles.xml": f"<styleSheet xmlns='{_MAIN}'><numFmts><numFmt numFmtId='170' formatCode='yyyy-mm'/></numFmts>"
    "<cellXfs><xf/><xf numFmtId='170'/></cellXfs></styleSheet>",
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
}


def _workbook_case(rng: Random, others: Sequence[bytes]) -> bytes:
    """Return a workbook with parts that lie, in an archive whose checksums fit, or with damaged bytes."""
    parts = {name: text.encode() for name, text in WORKBOOK.items()}
    if rng.random() < 0.3:
        return damage(rng, _zip(list(parts.items())), others)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice((*parts, "xl/worksheets/sheet1.xml"))
        if rng.random() < 0.5:
            parts[name] = _swapped_words(rng, parts[name])
        else:
            parts[name] = damage_text(rng, parts[name].decode("utf-8", "replace")).encode("utf-8", "replace")
    if rng.random() < 0.1:
        parts.pop(rng.choice(list(parts)))
    return _zip(list(parts.items()), rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)))


def _swapped_words(rng: Random, content: bytes) -> bytes:
    """Put what a workbook may hold where something else was: XML that is sound, and says something odd."""
    old = rng.choice(
        (b'r="A2"', b"<v>2</v>", b'r="2"', b't="s"', b's="1"', b"7", b'"r1"', b"sheet1", b"<xf/>", b"<si>")
    )
    new = rng.choice(
        (
            *(
                b"",
                b'r="XFD1"',
                b'r="ZZZ9"',
                b'r="1048576"',
                b"<v>-1</v>",
                b"<v>99999999</v>",
                b"<v>1e999</v>",
                b"<v/>",
            ),
            *(
                b't="d"',
                b't="x"',
                b's="999"',
                b"../../x",
                b"/etc/passwd",
                b"<xf/>" * 2000,
                b"<si/>" * 2000,
                b"&#xD800;",
            ),
            *(b"<row><c/></row>", b"<c><c><v>1</v></c></c>", b"<is><t>a</t></is>", b"nan", b"1_0", "٣".encode()),
        )
    )
    return content.replace(old, new, rng.choice((1, -1)))


def _parquet_table_case(rng: Random, others: Sequence[bytes]) -> bytes:
    columns: dict[str, Any] = {"caption": list(_NAMES), "tags": ["a;b"] * 6, "id": list(range(6))}
    columns[rng.choice(list(columns))] = _odd_column(rng)
    content = _parquet(columns, b"{}", rng)
    return damage(rng, content, others) if rng.random() < 0.5 else content


def _arrow_case(rng: Random, others: Sequence[bytes]) -> Case:
    """Return a table of Arrow, as a file or as a stream, compressed or not, with an odd column or damaged bytes."""
    columns: dict[str, Any] = {"caption": list(_NAMES), "tags": ["a;b"] * 6, "id": list(range(6))}
    columns["kind"] = pyarrow.array(["x", "y", None] * 2).dictionary_encode()
    for _ in range(rng.choice((0, 1, 1))):
        columns[rng.choice(list(columns))] = _odd_arrow_column(rng)
    table = pyarrow.table(columns)
    content = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=rng.choice((None, None, "lz4", "zstd")))
    writer = rng.choice((pyarrow.ipc.new_file, pyarrow.ipc.new_stream))
    with writer(content, table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=rng.choice((2, 6)))
    written = content.getvalue()
    if rng.random() < 0.5:
        written = _odd_number(rng, written)
    written = damage(rng, written, others) if rng.random() < 0.5 else written
    return Case({f"items.{rng.choice(('arrow', 'feather'))}": written})


def _odd_arrow_column(rng: Random) -> Any:
    own = (
        pyarrow.array(list(_NAMES), pyarrow.string_view()),
        pyarrow.array([[1], [2, 3], None, [], [4], [5]], pyarrow.list_view(pyarrow.int64())),
        pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2, 6], pyarrow.int32()), pyarrow.array(["a", "b"])),
        pyarrow.nulls(6),
        pyarrow.array([[None]] * 6, pyarrow.list_(pyarrow.null(), 1)),
        pyarrow.array([[("a", 1)]] * 6, pyarrow.map_(pyarrow.string(), pyarrow.int32())),
    )
    return rng.choice(own) if rng.random() < 0.5 else _odd_column(rng)


def _odd_number(rng: Random, content: bytes) -> bytes:
    """Put a number where lengths, offsets and sizes of what is compressed may be: at a multiple of 8 bytes."""
    place = 8 * rng.randrange(max(1, len(content) // 8))
    number = rng.choice((0, 1, -1, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, rng.randrange(1 << 16)))
    return content[:place] + number.to_bytes(8, "little", signed=True) + content[place + 8 :]


@cache
def _layout_arrays() -> dict[str, Any]:
    data = make_paired(20, n_labels=3, image_features=4, text_features=6, random_state=0)
    content = _written(data.write, ".npz")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name.removesuffix(".npy"): np.lib.format.read_array(archive.open(name)) for name in archive.namelist()}


def _layout_case(rng: Random, others: Sequence[bytes]) -> bytes:
    arrays = dict(_layout_arrays())
    about = json.loads(str(arrays["about"])) | {"name": "tiny", "notes": ["a note"], "label_names": ["a", "b", "c"]}
    kind = rng.random()
    if kind < 0.5:
        text = to_json(damage_json(rng, about)).decode("utf-8", "replace")
        arrays["about"] = np.array(damage_text(rng, text) if rng.random() < 0.2 else text)
    if kind > 0.3:
        chosen = rng.choice(list(arrays))
        arrays[chosen] = damage_array(rng, arrays[chosen])
    if rng.random() < 0.2:
        arrays["is_test"] = damage_array(rng, np.arange(20) > 15)
    if rng.random() < 0.2:
        arrays["part"] = damage_array(rng, np.array(["train"] * 15 + ["queries"] * 5))
    return _zip([(f"{name}.npy", _npy(array)) for name, array in arrays.items()])


@cache
def _images() -> dict[str, tuple[bytes, ...]]:
    rng = np.random.default_rng(1)
    pixels = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    modes = {
        "png": ("RGB", "RGBA", "P", "L", "1", "I;16", "LA"),
        "jpeg": ("RGB", "L", "CMYK"),
        "gif": ("P", "L"),
        "webp": ("RGB", "RGBA"),
        "bmp": ("RGB", "P", "1"),
        "avif": ("RGB", "RGBA"),
    }
    if "HEIF" in known_formats():
        modes["heif"] = ("RGB", "RGBA", "L")
    found: dict[str, list[bytes]] = {}
    for kind, names in modes.items():
        for mode in names:
            image = pixels.convert("L").convert("I;16") if mode == "I;16" else pixels.convert(mode)
            content = io.BytesIO()
            options: dict[str, Any] = {}
            if kind in ("avif", "heif", "jpeg", "webp", "png") and mode == "RGB":
                exif = Image.Exif()
                exif[0x0112] = 6
                options = {"exif": exif.tobytes()}
            image.save(content, kind, **options)
            found.setdefault(kind, []).append(content.getvalue())
    frames = io.BytesIO()
    pixels.save(frames, "gif", save_all=True, append_images=[pixels.rotate(90), pixels.rotate(180)])
    found["gif"].append(frames.getvalue())
    return {kind: tuple(contents) for kind, contents in found.items()}


def _image_case(kind: str) -> Callable[[Random, Sequence[bytes]], bytes]:
    def make(rng: Random, others: Sequence[bytes]) -> bytes:
        seeds = (*_images()[kind], *others)
        content = rng.choice(seeds)
        if kind == "png" and rng.random() < 0.6:
            return _png_chunks(rng, content, seeds)
        return damage(rng, content, seeds)

    return make


def _png_chunks(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Damage what the chunks of a PNG hold, so that their checksums fit."""
    chunks, place = [], 8
    while place + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, place)
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    changed = content[:8]
    for name, data in chunks:
        if name == b"IHDR" and rng.random() < 0.3 and len(data) == 13:
            width, height = (rng.choice((0, 1, 16, 12, 1000, 20000, 65535, 2**31 - 1)) for _ in range(2))
            data = struct.pack(">II", width, height) + data[8:]
        elif name == b"IDAT" and rng.random() < 0.3:
            data = zlib.compress(bytes(rng.choice((0, 1, 1000, 300_000))))
        elif rng.random() < 0.4:
            data = damage(rng, data, others)
        whole = struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        changed += whole * rng.choice((1,) * 12 + (0, 2))
    return changed


_WORDS = (
    "a red car\nein rotes Auto\n\n猫が好き 東京\nit's o'clock",
    "naïve e\u0301 ﬁ İ ß ǅ\n\u200d\u0301\n😀😀",
    "x\n" * 5,
)


def _text_case(rng: Random, others: Sequence[bytes]) -> bytes:
    text = rng.choice(_WORDS)
    for _ in range(rng.choice((1, 2, 5))):
        text = damage_text(rng, text)
    if rng.random() < 0.3:
        text += "".join(
            chr(rng.choice((rng.randrange(0x300), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))))
            for _ in range(60)
        )
    if rng.random() < 0.1:
        text += rng.choice(("a", "猫", "a ", "\u0301", "'a")) * rng.choice((1000, 5000))
    content = text.encode("utf-8", "surrogatepass")
    return damage(rng, content, others) if rng.random() < 0.5 else content


def _target(
    name: str, file: str, make: Callable[[Random, Sequence[bytes]], Any], use: Callable[[Path], None], **limits: Any
) -> Target:
    kept: list[bytes] = []

    def case(rng: Random) -> Case:
        if not kept:
            kept.extend(content for path in target.corpus() for content in unpacked(path).files.values())
        if kept and rng.random() < 0.2:
            return Case({file: damage(rng, rng.choice(kept), kept)})
        made = make(rng, kept)
        return made if isinstance(made, Case) else Case({file: made})

    target = Target(name, case, _use_only(use), **limits)
    return target


#: The formats of other programs that are read.
DATA_FILES = (
    _target("npy", "x.npy", _npy_case, _use_arrays),
    _target("npz", "x.npz", _npz_case, _use_arrays),
    _target("sparse", "x.npz", _sparse_case, _use_arrays),
    _target("matlab5", "x.mat", _matlab5_case, _use_arrays),
    _target("matlab73", "x.mat", _matlab73_case, _use_arrays),
    _target("hdf5", "x.h5", _hdf5_case, _use_arrays),
    _target("parquet", "x.parquet", _parquet_case, _use_arrays),
    _target("layout", "x.npz", _layout_case, _use_layout),
    _target("table", "items.csv", _table_case, _use_table),
    _target("arrow", "items.arrow", _arrow_case, _use_table),
    _target("json-lines", "items.jsonl", _json_lines_case, _use_table),
    _target("workbook", "items.xlsx", _workbook_case, _use_table),
    _target("png", "x.png", _image_case("png"), _use_image),
    _target("jpeg", "x.jpg", _image_case("jpeg"), _use_image),
    _target("gif", "x.gif", _image_case("gif"), _use_image),
    _target("webp", "x.webp", _image_case("webp"), _use_image),
    _target("bmp", "x.bmp", _image_case("bmp"), _use_image),
    _target("avif", "x.avif", _image_case("avif"), _use_image),
    *([_target("heif", "x.heic", _image_case("heif"), _use_image)] if is_installed("pillow_heif") else []),
    _target("text", "x.txt", _text_case, _use_text),
)
