"""Codes that other programs wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import scipy.io

from dlfh import InputError
from dlfh.codes import pack, random_codes, unpack
from dlfh.datasets.code_files import code_place, pack_codes, read_code_set

SIGNS = np.random.default_rng(0).choice([-1, 1], (30, 20))

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "packed": pack,
    "0 and 1, uint8": lambda signs: (signs > 0).astype(np.uint8),
    "0 and 1, double": lambda signs: (signs > 0).astype(np.float64),
    "-1 and +1, int8": lambda signs: signs.astype(np.int8),
    "-1 and +1, float": lambda signs: signs.astype(np.float32),
    "booleans": lambda signs: signs > 0,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_codes(form: str) -> None:
    codes, n_bits = pack_codes({"queries": FORMS[form](SIGNS[:5]), "database": FORMS[form](SIGNS)})
    assert n_bits == (24 if form == "packed" else 20)
    np.testing.assert_array_equal(codes["queries"], pack(SIGNS[:5]))
    np.testing.assert_array_equal(codes["database"], pack(SIGNS))


def test_torch_tensors_are_packed_like_arrays() -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(pack_codes({"codes": torch.sign(torch.tensor(SIGNS))})[0]["codes"], pack(SIGNS))


def test_packed_codes_with_small_bytes_are_recognised_beside_others() -> None:
    few = np.zeros((1, 2), np.uint8)  # by itself, two bits
    assert pack_codes({"queries": few})[1] == 2
    assert pack_codes({"queries": few, "database": random_codes(np.random.default_rng(0), 9, 16)})[1] == 16


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.linspace(-1, 1, 9).reshape(3, 3), "'a' must be packed bits .* but it contains -0.75"),
        (np.array([[0, 1, -1]]), "it contains both 0 and -1"),
        (np.full((2, 2), np.nan), "it contains nan"),
        (np.zeros(5), "'a' must be a matrix of codes, one per row, got float64 of"),
        (np.array([["x"]]), "'a' must be a matrix of codes"),
    ],
)
def test_other_values_are_refused(array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pack_codes({"a": array})


def test_codes_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="'a' has codes of 8 bits but 'b' has 16"):
        pack_codes({"a": np.ones((2, 8)), "b": np.ones((2, 16))})


def write_npy_files(place: Path, arrays: dict[str, Any]) -> Path:
    place.mkdir()
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    return place


def write_file(place: Path, suffix: str, write: Any, arrays: dict[str, Any]) -> Path:
    path = place.with_suffix(suffix)
    write(path, arrays)
    return path


WRITERS: dict[str, Callable[[Path, dict[str, Any]], Path]] = {
    "folder of .npy": write_npy_files,
    ".npz": lambda place, arrays: write_file(place, ".npz", lambda path, values: np.savez(path, **values), arrays),
    ".mat": lambda place, arrays: write_file(place, ".mat", scipy.io.savemat, arrays),
    ".safetensors": lambda place, arrays: write_file(
        place, ".safetensors", lambda path, values: safetensors.numpy.save_file(values, path), arrays
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("names", [("text_queries", "text_hashed"), ("qBY", "rBY")])
def test_sets_of_codes_are_read_from_every_format(tmp_path: Path, kind: str, names: tuple[str, str]) -> None:
    other = ("image_queries", "image_hashed") if "text" in names[0] else ("qBX", "rBX")
    arrays = {other[0]: SIGNS[:4], other[1]: SIGNS, names[0]: -SIGNS[:4], names[1]: -SIGNS}
    place = WRITERS[kind](tmp_path / "20-3", arrays)
    assert code_place(tmp_path, 20, 3) == place
    assert code_place(tmp_path, 20, 0) is None
    codes, n_bits = read_code_set(place, ("image", "text"))
    assert n_bits == 20
    assert codes.keys() == {(name, role) for name in ("image", "text") for role in ("queries", "hashed")}
    np.testing.assert_array_equal(unpack(codes["text", "queries"], 20), -SIGNS[:4])
    np.testing.assert_array_equal(unpack(codes["image", "hashed"], 20), SIGNS)


def test_a_set_without_query_codes_says_what_is_expected(tmp_path: Path) -> None:
    np.savez(tmp_path / "20.npz", image_queries=SIGNS, codes=SIGNS)
    place = code_place(tmp_path, 20, 0)
    assert place is not None
    with pytest.raises(InputError, match=r"20\.npz must contain image_queries, text_queries \(or qBX, .*'codes'"):
        read_code_set(place, ("image", "text"))
