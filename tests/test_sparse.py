"""Invalid sparse matrices raise InputError and never crash the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import DLFH
from dlfh._sparse import compressed_rows, rows_from_parts
from dlfh.datasets import Paired, read_arrays
from dlfh.errors import InputError
from dlfh.metrics import mean_average_precision

LAYOUTS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")


def example(layout: str = "csr") -> Any:
    matrix = sp.csr_array(np.array([[1.0, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 4], [5, 0, 0, 0]]))
    return matrix.asformat(layout) if layout != "bsr" else sp.bsr_array(matrix, blocksize=(2, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_rows(layout: str) -> None:
    np.testing.assert_array_equal(compressed_rows(example(layout), "x").toarray(), example().toarray())


def test_valid_parts_are_not_copied() -> None:
    matrix = example()
    rows = compressed_rows(matrix, "x")
    assert all(np.shares_memory(getattr(rows, part), getattr(matrix, part)) for part in ("data", "indices", "indptr"))


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("indices", [9, 0, 1, 0, 0], "indices must be from 0 to"),
        ("indices", [-1, 0, 1, 0, 0], "indices must be from 0 to"),
        ("indices", [0.0, 0, 1, 0, 0], "indices must be one-dimensional integers"),
        ("indptr", [0, 2_000_000_000, 0, 0, 0], "indptr must start at 0 and not decrease"),
        ("indptr", [0, 0, 0, 0, 0], "indptr ends at 0 but"),
        ("indptr", [1, 1, 2, 3, 5], "indptr must start at 0"),
        ("indptr", [0, 1, 2, 3, 2_000_000_000], "indptr ends at 2000000000"),
        ("indptr", [0, 1], "indptr must be . integers"),
    ],
)
def test_indices_outside_the_matrix_are_refused(layout: str, part: str, value: list[Any], reason: str) -> None:
    matrix = example(layout)
    n = len(getattr(matrix, part))
    wrong = np.array(value if len(value) == 2 else [*value[: n - 1], value[-1]])
    setattr(matrix, part, wrong)
    with pytest.raises(InputError, match=f"^x is a damaged sparse matrix: {reason}"):
        compressed_rows(matrix, "x")


@given(st.sampled_from(LAYOUTS[:5]), st.data())
def test_arbitrary_parts_give_a_matrix_or_an_input_error(layout: str, data: st.DataObject) -> None:
    """A failure would crash the process."""
    whole = example(layout)
    names = [name for name in ("data", "indices", "indptr", "row", "col", "offsets") if hasattr(whole, name)]
    parts = {name: np.array(getattr(whole, name)) for name in names}
    numbers = st.sampled_from([0, 1, 2, 3, -1, 5, 255, 2**31 - 1, -(2**31), 2**62])
    for _ in range(data.draw(st.integers(0, 3))):
        name = data.draw(st.sampled_from(names))
        if not parts[name].size:
            continue
        wrong = parts[name].astype(data.draw(st.sampled_from(["i4", ">i4", "i8", "u2", "u8"])))
        with np.errstate(all="ignore"):
            wrong.flat[data.draw(st.integers(0, wrong.size - 1))] = np.int64(data.draw(numbers)).astype(wrong.dtype)
        parts[name] = wrong[: data.draw(st.integers(0, len(wrong)))] if data.draw(st.booleans()) else wrong
    try:
        rows = rows_from_parts("x", parts, (4, 4), layout)
    except InputError:
        return
    rows.check_format(full_check=True)
    assert rows.toarray().shape == (4, 4)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_the_other_byte_order_is_converted(layout: str) -> None:
    matrix = example(layout).astype(np.int32)
    for name in ("data", "indices", "indptr"):
        if hasattr(matrix, name):
            setattr(matrix, name, getattr(matrix, name).astype(">i4"))
    rows = compressed_rows(matrix, "x")
    assert rows.dtype.isnative
    assert rows.indices.dtype.isnative
    np.testing.assert_array_equal(rows.toarray(), example().toarray())


def out_of_range(n_rows: int, n_columns: int) -> sp.csr_array:
    """Return a matrix that passes SciPy's own check."""
    matrix = sp.csr_array(np.eye(n_rows, n_columns))
    matrix.indices[-1] = 2_000_000_000
    return matrix


def uses_of_invalid_matrices() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    X, Y, labels = rng.random((20, 6)), rng.random((20, 5)), rng.integers(0, 3, 20)
    model = DLFH(8, random_state=0, max_iter=2, hash_function="linear").fit({"image": X, "text": Y}, labels)
    codes = model.codes_["image"]
    return {
        "fit": lambda: DLFH(8, hash_function="linear").fit({"image": out_of_range(20, 20), "text": Y}, labels),
        "encode": lambda: model.encode("image", out_of_range(6, 6)),
        "project": lambda: model.project("image", out_of_range(6, 6)),
        "labels": lambda: DLFH(8, hash_function="linear").fit({"image": X, "text": Y}, out_of_range(20, 20)),
        "similarity": lambda: DLFH(8, hash_function="linear").fit(
            {"image": X, "text": Y}, similarity=out_of_range(20, 20)
        ),
        "relevance": lambda: mean_average_precision(codes, codes, relevance=out_of_range(20, 20)),
        "split": lambda: Paired({"image": out_of_range(20, 20), "text": Y}, labels).split(5),
        "split of labels": lambda: Paired({"image": X, "text": Y}, out_of_range(20, 20)).split(5),
    }


@pytest.mark.parametrize(
    "place", ["fit", "encode", "project", "labels", "similarity", "relevance", "split", "split of labels"]
)
def test_every_entry_point_refuses_indices_outside_the_matrix(place: str) -> None:
    with pytest.raises(InputError, match=r"is a damaged sparse matrix: indices must be from 0 to .*, found 2000000000"):
        uses_of_invalid_matrices()[place]()


def numpy_file(file: Path) -> None:
    indptr, indices = np.array([0, 2_000_000_000, 0], "i4"), np.array([0, 1, 2], "i4")
    np.savez(file, format=np.array(b"csc"), shape=[3, 2], data=np.ones(3), indices=indices, indptr=indptr)


def matlab_file(file: Path) -> None:
    """Write a file in which a single byte is wrong."""
    matrix = sp.csc_array(np.eye(60, 4) + np.ones((60, 4)))
    scipy.io.savemat(file, {"array": matrix})
    starts = matrix.indptr.astype("<i4").tobytes()
    file.write_bytes(file.read_bytes().replace(starts, starts[:-4] + b"\0" + starts[-3:]))


@pytest.mark.parametrize(("name", "make"), [("x.npz", numpy_file), ("x.mat", matlab_file)])
def test_a_file_whose_last_row_pointer_is_0_is_refused(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    """SciPy accepts such a matrix, and converting it crashes the process: hence the subprocess."""
    file = tmp_path / name
    make(file)
    code = f"from dlfh.datasets import read_arrays\ntry: read_arrays({str(file)!r})\nexcept ValueError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(" is a damaged sparse matrix: indptr must start at 0 and not decrease")


@pytest.mark.parametrize("layout", LAYOUTS[:5])
def test_scipy_files_of_every_layout_are_read(tmp_path: Path, layout: str) -> None:
    sp.save_npz(tmp_path / "x.npz", example(layout))
    np.testing.assert_array_equal(read_arrays(tmp_path / "x.npz")["array"].toarray(), example().toarray())
