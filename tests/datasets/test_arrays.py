"""Arrays are read as written in every format, and errors are one sentence."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dlfh.datasets.arrays import read_array, read_arrays, write_arrays
from dlfh.errors import InputError
from tests.datasets.matlab73 import write_matlab73

NUMBERS = ["int8", "uint8", "int16", "int32", "int64", "uint64", "float32", "float64", "bool"]
SUFFIXES = [".npy", ".npz", ".mat", ".h5", ".hdf5", ".parquet", ".safetensors"]
names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,9}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def dense(kinds: list[str] = NUMBERS, least: int = 0) -> st.SearchStrategy[np.ndarray]:
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=least, max_side=5)
    return st.sampled_from(kinds).flatmap(lambda kind: hnp.arrays(kind, shapes))


@st.composite
def sparse(draw: st.DrawFn, kinds: list[str] = NUMBERS) -> sp.csr_array:
    matrix = draw(dense(kinds, least=1))
    return sp.csr_array(np.nan_to_num(matrix))


def same(found: Any, expected: Any) -> None:
    assert sp.issparse(found) == sp.issparse(expected)
    assert (found.data if sp.issparse(found) else found).flags.writeable
    assert found.dtype == expected.dtype or found.dtype.kind == expected.dtype.kind == "U"
    if sp.issparse(expected):
        assert found.shape == expected.shape
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(found, expected)


@in_one_folder
@given(st.dictionaries(names, st.one_of(dense([*NUMBERS, "float16", "complex128"]), sparse()), max_size=4))
def test_npz_files_are_read_as_written(tmp_path: Path, arrays: dict[str, Any]) -> None:
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        same(found[name], array)


@in_one_folder
@given(st.dictionaries(names, st.one_of(dense(), sparse(["float64", "bool"])), min_size=1, max_size=4))
def test_both_matlab_formats_are_read_as_written(tmp_path: Path, arrays: dict[str, Any]) -> None:
    write_arrays(tmp_path / "a.mat", arrays)
    write_matlab73(tmp_path / "b.mat", arrays)
    for file in ("a.mat", "b.mat"):
        found = read_arrays(tmp_path / file)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            same(found[name], array)


@in_one_folder
@given(st.dictionaries(names, st.one_of(dense(), sparse()), min_size=1, max_size=3), st.booleans())
def test_matlab_5_files_are_read_as_scipy_reads_them(tmp_path: Path, arrays: dict[str, Any], compress: bool) -> None:
    scipy.io.savemat(tmp_path / "a.mat", arrays, do_compression=compress)
    expected = scipy.io.loadmat(tmp_path / "a.mat", mat_dtype=True)
    for name, array in read_arrays(tmp_path / "a.mat").items():
        if sp.issparse(array):
            same(array.astype(float), sp.csr_array(expected[name]).astype(float))
        else:
            same(array, expected[name])


def test_complex_numbers_in_matlab_files_are_read(tmp_path: Path) -> None:
    values = np.array([[1 + 2j, 3], [0, -1j]])
    write_arrays(tmp_path / "a.mat", {"x": values, "s": sp.csr_array(values)})
    same(read_array(tmp_path / "a.mat", "x"), values)
    same(read_array(tmp_path / "a.mat", "s"), sp.csr_array(values))


def test_matlab_4_files_are_read(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.eye(3)}, format="4")
    same(read_array(tmp_path / "a.mat", "x"), np.eye(3))


@in_one_folder
@given(st.lists(texts, min_size=1, max_size=4))
def test_strings_are_read_as_written_in_every_format(tmp_path: Path, words: list[str]) -> None:
    for suffix in (".npz", ".mat", ".parquet"):
        write_arrays(tmp_path / f"a{suffix}", {"words": np.array(words)})
        same(read_array(tmp_path / f"a{suffix}", "words"), np.array(words))
    write_matlab73(tmp_path / "b.mat", {"words": words})
    same(read_array(tmp_path / "b.mat"), np.array(words))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    n_rows = draw(st.integers(0, 5))
    kinds = [*NUMBERS, "float16"]
    width = st.integers(1, 4)
    matrix = st.tuples(st.sampled_from(kinds), width).flatmap(lambda kw: hnp.arrays(kw[0], (n_rows, kw[1])))
    vector = st.sampled_from(kinds).flatmap(lambda kind: hnp.arrays(kind, n_rows))
    rows = st.tuples(st.sampled_from(NUMBERS), width).flatmap(lambda kw: hnp.arrays(kw[0], (n_rows, kw[1])))
    sparse_rows = rows.map(lambda matrix: sp.csr_array(np.nan_to_num(matrix)))
    return draw(st.dictionaries(names, st.one_of(matrix, vector, sparse_rows), min_size=1, max_size=4))


@in_one_folder
@given(tables())
def test_parquet_files_are_read_as_written(tmp_path: Path, arrays: dict[str, Any]) -> None:
    write_arrays(tmp_path / "a.parquet", arrays)
    found = read_arrays(tmp_path / "a.parquet")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        if array.ndim == 2 and not sp.issparse(array) and array.shape[0] == 0:
            continue  # without rows the width is unknown
        same(found[name], array)


def test_a_npy_file_stores_one_array(tmp_path: Path) -> None:
    values = np.arange(6.0).reshape(2, 3)
    write_arrays(tmp_path / "x.npy", {"image": values})
    same(read_arrays(tmp_path / "x.npy")["array"], values)
    same(np.load(tmp_path / "x.npy"), values)
    with pytest.raises(InputError, match=r"x\.npy: a \.npy file stores one dense array, got 'a', 'b'; use \.npz"):
        write_arrays(tmp_path / "x.npy", {"a": values, "b": values})


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
def test_matrices_saved_by_scipy_are_read(tmp_path: Path, layout: str) -> None:
    matrix = sp.random_array((5, 4), density=0.4, rng=np.random.default_rng(0), format=layout)
    sp.save_npz(tmp_path / "x.npz", matrix)
    same(read_array(tmp_path / "x.npz"), sp.csr_array(matrix))


def test_written_files_are_read_by_numpy_and_scipy(tmp_path: Path) -> None:
    arrays = {"file": np.eye(3), "text": sp.csr_array(np.eye(3))}
    write_arrays(tmp_path / "x.npz", arrays)
    with np.load(tmp_path / "x.npz") as file:
        same(file["file"], np.eye(3))
        assert set(file) == {"file", "text_data", "text_indices", "text_indptr", "text_shape"}
    write_arrays(tmp_path / "x.mat", arrays)
    same(scipy.io.loadmat(tmp_path / "x.mat")["text"].toarray(), np.eye(3))


def test_equal_arrays_are_written_as_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_arrays(tmp_path / name, {"x": np.arange(3)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_fields_of_structures_cells_of_numbers_and_rows_of_text_are_read(tmp_path: Path) -> None:
    cells = np.empty(2, object)
    cells[:] = [np.array([1.0, 3.0]), np.array([2.0])]
    scipy.io.savemat(tmp_path / "a.mat", {"s": {"x": np.eye(2), "t": "né"}, "tags": cells, "rows": ["ab", "c"]})
    write_matlab73(
        tmp_path / "b.mat", {"s": {"x": np.eye(2), "t": "né"}, "tags": [np.array([1.0, 3.0]), np.array([2.0])]}
    )
    for file in ("a.mat", "b.mat"):
        found = read_arrays(tmp_path / file)
        same(found["s.x"], np.eye(2))
        same(found["s.t"], np.array(["né"]))
        assert [list(cell) for cell in found["tags"]] == [[1, 3], [2]]
    assert list(read_arrays(tmp_path / "a.mat")["rows"]) == ["ab", "c"]


def test_plain_hdf5_is_not_transposed(tmp_path: Path) -> None:
    values = np.arange(6).reshape(2, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["image"] = values
        file["deep/words"] = ["a", "bé"]
        for part, array in zip(("data", "indices", "indptr", "shape"), ([1.0], [1], [0, 1], [1, 2]), strict=True):
            file[f"text_{part}"] = array
    found = read_arrays(tmp_path / "x.h5")
    same(found["image"], values)
    same(found["deep/words"], np.array(["a", "bé"]))
    same(found["text"], sp.csr_array(np.array([[0.0, 1.0]])))
    (tmp_path / "x.h5").rename(tmp_path / "x.mat")
    same(read_arrays(tmp_path / "x.mat")["image"], values.T)


def test_parquet_tables_of_other_programs_are_read(tmp_path: Path) -> None:
    columns = {
        "x": pa.array([[1.0, 2.0], [3.0, 4.0]]),
        "tags": pa.array([["a", "b"], ["c"]]),
        "n": pa.array([1, None]),
        "kind": pa.array(["u", "v"]).dictionary_encode(),
        "note": pa.array(["u", None]),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=1)
    found = read_arrays(tmp_path / "x.parquet")
    same(found["x"], np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert [list(tags) for tags in found["tags"]] == [["a", "b"], ["c"]]
    assert found["n"][0] == 1
    assert np.isnan(found["n"][1])
    assert list(found["kind"]) == ["u", "v"]
    assert list(found["note"]) == ["u", None]


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([[1.0], None])}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"cannot read .*x\.parquet: column 'x' has no value in row 1$"):
        read_arrays(tmp_path / "x.parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_and_invalid_files_are_named(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"x{suffix}"
    with pytest.raises(InputError, match=rf"cannot read .*x\{suffix}: it does not exist$"):
        read_arrays(file)
    for content in (b"", b"hello\n" * 400, b"\x00" * 3000):
        file.write_bytes(content)
        with pytest.raises(InputError, match=rf"cannot read .*x\{suffix}: it is damaged, truncated or not an? "):
            read_arrays(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match=r"it is a folder, not a file$"):
        read_arrays(file)
    if suffix not in (".h5", ".hdf5", ".safetensors"):
        with pytest.raises(InputError, match=rf"cannot write .*x\{suffix}: it is a folder$"):
            write_arrays(file, {"x": np.zeros(3)})


def test_the_actual_format_is_named_if_the_suffix_is_wrong(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"not a NumPy archive; it looks like a NumPy array \(\.npy\)$"):
        read_arrays(tmp_path / "x.npz")


def test_other_suffixes_are_refused_before_anything_is_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.txt: its name must end in \.npz, \.npy, .*, not in '\.txt'"):
        read_arrays(tmp_path / "x.txt")
    with pytest.raises(InputError, match=r"must end in .*, not in '\.h5'"):
        write_arrays(tmp_path / "x.h5", {"x": np.zeros(3)})
    assert list(tmp_path.iterdir()) == []


class Trap:
    """Fails when unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a file was unpickled",))


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap()], object)
    np.save(tmp_path / "a.npy", trap)
    np.savez(tmp_path / "b.npz", x=trap)
    for name in ("a.npy", "b.npz"):
        with pytest.raises(InputError, match=r"contains pickled Python objects, which are never loaded$"):
            read_arrays(tmp_path / name)
    (tmp_path / "c.npy").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=r"not a NumPy array$"):
        read_arrays(tmp_path / "c.npy")


def arrays_or_one_sentence(file: Path) -> dict[str, Any] | None:
    try:
        return read_arrays(file)
    except InputError as error:
        sentence = str(error)
    assert str(file) in sentence
    assert "\n" not in sentence
    return None


def whole_files(folder: Path) -> dict[str, bytes]:
    arrays = {"x": np.arange(40.0).reshape(8, 5), "s": sp.csr_array(np.eye(8)), "ids": np.arange(8)}
    for suffix in (".npz", ".mat", ".parquet"):
        write_arrays(folder / f"whole{suffix}", arrays)
    np.save(folder / "whole.npy", arrays["x"])
    write_matlab73(folder / "whole73.mat", arrays)
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"x": arrays["x"]}, do_compression=True)
    (folder / "compressed.mat").write_bytes(stream.getvalue())
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return whole_files(tmp_path_factory.mktemp("whole"))


@in_one_folder
@given(st.data())
def test_a_truncated_file_is_refused_or_lacks_whole_variables(
    tmp_path: Path, files: dict[str, bytes], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(files)))
    content = files[name]
    file = tmp_path / name
    file.write_bytes(content)
    whole = read_arrays(file)
    file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    found = arrays_or_one_sentence(file)
    # MATLAB 5 files have no end mark: a file cut between two variables is valid.
    assert found is None or name.endswith(".mat")
    for variable, array in (found or {}).items():
        same(array, whole[variable])


@in_one_folder
@given(st.data())
def test_a_file_with_wrong_bytes_yields_arrays_or_one_sentence(
    tmp_path: Path, files: dict[str, bytes], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / name).write_bytes(bytes(content))
    for array in (arrays_or_one_sentence(tmp_path / name) or {}).values():
        if sp.issparse(array):
            array.check_format(full_check=True)


def test_indices_outside_a_sparse_matrix_are_refused(tmp_path: Path) -> None:
    parts: Any = {"t_data": np.ones(2), "t_indices": np.array([0, 9]), "t_indptr": np.array([0, 2]), "t_shape": [1, 3]}
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(InputError, match=r"x\.npz: .*'t' .*indices"):
        read_arrays(tmp_path / "x.npz")


def test_declared_sizes_are_checked_before_memory_is_allocated(tmp_path: Path) -> None:
    write_matlab73(tmp_path / "x.mat", {"s": sp.csr_array(np.eye(3)), "e": np.zeros((0, 3))})
    with h5py.File(tmp_path / "x.mat", "r+") as file:
        file["s"].attrs["MATLAB_sparse"] = np.uint64(2**40)
    with pytest.raises(InputError, match=r"damaged sparse matrix: it declares 1099511627776 rows for 3 entries$"):
        read_arrays(tmp_path / "x.mat")
    with h5py.File(tmp_path / "x.mat", "r+") as file:
        del file["s"]
        file["e"][...] = [2**20, 2**20]
    with pytest.raises(InputError, match=r"/e is marked as empty but has shape \(1048576, 1048576\)"):
        read_arrays(tmp_path / "x.mat")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", dtype="f4", shape=(2**20, 2**20), chunks=(2**10, 2**10))
    with pytest.raises(InputError, match=r"x\.h5: .*DLFH_MAX_BYTES"):
        read_arrays(tmp_path / "x.h5")


def test_the_error_for_a_missing_array_lists_the_others(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    write_arrays(file, {"I_tr": np.zeros(2), "I_te": np.zeros(2)})
    with pytest.raises(InputError, match=r"x\.npz contains no array 'XTest', only 'I_te', 'I_tr'$"):
        read_array(file, "XTest")
    with pytest.raises(InputError, match=r"x\.npz contains 2 arrays; name one of them: 'I_te', 'I_tr'$"):
        read_array(file)


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("x.npz", {"t": sp.csr_array(np.eye(2)), "t_data": np.zeros(2)}, "two arrays would both be stored as 't_data'"),
        ("x.npz", {"t": np.array([Trap()])}, "array 't' must contain numbers, booleans or strings, got type object"),
        ("x.npz", {"t": [[1], [1, 2]]}, "array 't' has rows of different lengths"),
        ("x.npz", {"": np.zeros(2)}, "names of arrays must be non-empty strings"),
        ("x.mat", {"2x": np.zeros(2)}, "'2x' is not a valid MATLAB variable name"),
        ("x.parquet", {"a": np.zeros(2), "b": np.zeros(3)}, "all arrays in a table must have the same number of rows"),
        ("x.parquet", {"a": np.zeros((2, 2, 2))}, "array 'a' cannot be a table column"),
        ("no/x.npz", {"a": np.zeros(2)}, "No such file or directory"),
    ],
)
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, name: str, arrays: dict[str, Any], message: str) -> None:
    (tmp_path / Path(name).name).write_bytes(b"old")
    with pytest.raises(InputError, match=f"cannot write .*{Path(name).name}: {message}"):
        write_arrays(tmp_path / name, arrays)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(Path(name).name, b"old")]


@pytest.mark.parametrize(("module", "extra", "file"), [("h5py", "matlab", "x.h5"), ("pyarrow", "parquet", "x.parquet")])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, file: str
) -> None:
    (tmp_path / file).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf'not installed: pip install "dlfh\[{extra}\]"$'):
        read_arrays(tmp_path / file)


def test_importing_the_readers_loads_no_heavy_package() -> None:
    program = "import sys, dlfh.datasets.arrays; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    for heavy in ("h5py", "pyarrow", "scipy.io", "pandas"):
        assert f"'{heavy}'" not in modules


def test_safetensors_are_read(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "image": np.eye(3, dtype=np.float32),
        "codes": np.arange(6, dtype=np.uint8).reshape(3, 2),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors")
    for name, array in read_arrays(tmp_path / "x.safetensors").items():
        same(array, arrays[name])


def test_a_folder_of_files_is_read_as_one(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", np.eye(3))
    write_arrays(tmp_path / "rest.npz", {"text": np.ones((3, 2)), "labels": np.arange(3)})
    (tmp_path / "README").write_text("about these files")
    assert list(read_arrays(tmp_path)) == ["image", "text", "labels"]
    np.save(tmp_path / "text.npy", np.eye(3))
    with pytest.raises(InputError, match="two of its files contain 'text'; pass one file"):
        read_arrays(tmp_path)
    (tmp_path / "photo.png").write_bytes(b"")
    with pytest.raises(InputError, match="its name must end in"):  # a folder of images
        read_arrays(tmp_path)
