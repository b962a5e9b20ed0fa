"""Methods give the same results for data in blocks and in memory, for any division into blocks.

DLFH's codes are equal bit for bit; its hash functions, and the results of other methods, are equal to rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dlfh import DLFH, KDLFH, load
from dlfh._labels import LabelSets
from dlfh._mathematics import random_rows
from dlfh.blocks import open_blocks, opening
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import align
from dlfh.codes import unpack
from dlfh.datasets import make_paired, write_arrays
from dlfh.errors import InputError
from dlfh.hashing import KernelLogistic, KernelRidge, LinearRidge
from dlfh.methods import ACQ, CCAITQ, CMFH, CVH, SCM, ccaitq
from dlfh.metrics import mean_average_precision
from tests.methods.small_data import small
from tests.strategies import seeds

LEARNERS: list[Any] = [
    LinearRidge(),
    LinearRidge(1.0, scaling="root"),
    LinearRidge(scaling="standard"),
    KernelRidge(20),
    KernelRidge(20, scaling="standard", bandwidth=0.5),
]


def data(seed: int, n: int, many: bool) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 12 if many else 3)) < 0.35).astype(np.int8)
    labels[0, 0] = 1
    X = (rng.random((n, 6)) + labels @ rng.random((labels.shape[1], 6))).astype(np.float32)
    words = sp.csr_array(np.where(X > 1.2, X, 0))
    return {"image": X, "text": words, "sound": X[:, :4] ** 2}, labels


def in_blocks(modalities: dict[str, Any], labels: Any, starts: list[int]) -> tuple[dict[str, Any], Any]:
    return {name: ArrayBlocks(matrix, starts, name) for name, matrix in modalities.items()}, ArrayBlocks(
        labels, starts, "labels"
    )


def assert_same(one: DLFH, other: DLFH, modalities: dict[str, Any]) -> None:
    for name, matrix in modalities.items():
        np.testing.assert_array_equal(np.asarray(one.codes_[name]), other.codes_[name])
        np.testing.assert_allclose(one.project(name, matrix), other.project(name, matrix), atol=2e-3)
    np.testing.assert_array_equal(one.flips_, other.flips_)


@settings(max_examples=25)
@given(
    seeds,
    st.lists(st.integers(0, 150), max_size=5),
    st.booleans(),
    st.sampled_from(LEARNERS),
    st.sampled_from(["auto", "stochastic"]),
)
def test_codes_in_blocks_equal_those_in_memory(
    seed: int, inner: list[int], many: bool, learner: Any, solver: Any
) -> None:
    modalities, labels = data(seed, 150, many)
    settings_: dict[str, Any] = {"hash_function": learner, "solver": solver, "sample_size": 40, "random_state": 0}
    whole = DLFH(12, **settings_).fit(modalities, labels)
    cut, cut_labels = in_blocks(modalities, labels, [0, *sorted(inner), 150])
    assert_same(DLFH(12, **settings_).fit(cut, cut_labels), whole, modalities)
    assert_same(DLFH(12, **settings_).fit(cut, labels), whole, modalities)


class Counted(ArrayBlocks):
    """Blocks that count how often they are read."""

    n_read = 0

    def _read(self, number: int) -> Any:
        self.n_read += 1
        return super()._read(number)


@pytest.mark.parametrize(
    ("learner", "passes"),
    [("linear", 2), (LinearRidge(scaling="standard"), 2), (KernelRidge(20, scaling="root"), 2), ("auto", 2)],
)
def test_features_are_read_at_most_twice(learner: Any, passes: int) -> None:
    modalities, labels = data(0, 300, False)
    counted: Any = {name: Counted(matrix, [0, 100, 150, 300], name) for name, matrix in modalities.items()}
    DLFH(12, hash_function=learner, random_state=0).fit(counted, labels)
    assert {name: blocks.n_read for name, blocks in counted.items()} == dict.fromkeys(modalities, 3 * passes)


#: Methods that are sums over points, as they come and in their variants.
SUMS: list[Any] = [
    SCM(8),
    SCM(8, variant="orthogonal"),
    CVH(8),
    CVH(8, similarity="labels"),
    CCAITQ(8, random_state=0),
    CCAITQ(8, rotation="first", random_state=0),
    CMFH(8, random_state=0),
    CMFH(8, updates="code", init="uniform", random_state=0),
]


def assert_same_to_rounding(ours: Any, whole: Any, modalities: dict[str, Any]) -> None:
    """Compare projections to the rounding of float32, and codes where projections are not close to zero."""
    for name, matrix in modalities.items():
        expected = whole.project(name, matrix)
        size = np.abs(expected).max()
        np.testing.assert_allclose(ours.project(name, matrix), expected, atol=1e-5 * size)
        one, other = (unpack(np.asarray(model.codes_[name]), model.n_bits) for model in (ours, whole))
        assert one.shape == other.shape
        clear = np.abs(expected) > 1e-4 * size
        if "learned" in ours.info.protocols:  # learned codes are not signs of projections
            assert np.mean(one != other) < 0.002
        else:
            np.testing.assert_array_equal(one[clear], other[clear])


@settings(max_examples=20)
@given(
    seeds, st.lists(st.integers(0, 150), min_size=1, max_size=5), st.sampled_from(SUMS), st.booleans(), st.booleans()
)
def test_methods_of_sums_learn_the_same_from_blocks_and_from_memory(
    seed: int, inner: list[int], method: Any, classes: bool, read_again: bool
) -> None:
    data_ = small(seed)
    modalities = dict(data_.modalities)
    if method.info.n_modalities[1] is None:
        modalities["sound"] = np.asarray(modalities["image"])[:, :4] ** 2
    labels: Any = np.asarray(data_.labels.toarray().argmax(axis=1) if classes else data_.labels.toarray())
    cut, cut_labels = in_blocks(modalities, labels, [0, *sorted(inner), 150])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ccaitq, "_MAX_KEPT", 0 if read_again else 1 << 20)
        patch.setattr(random_rows, "_GROUP", 60)
        whole = clone(method).fit(modalities, labels)
        ours = clone(method).fit(cut, cut_labels)
        from_memory = clone(method).fit(cut, labels)
    assert all(isinstance(codes, Blocks) for codes in ours.codes_.values())
    assert_same_to_rounding(ours, whole, modalities)
    assert_same_to_rounding(from_memory, whole, modalities)


def test_blocks_may_lack_classes() -> None:
    data_ = small()
    classes = data_.labels.toarray().argmax(axis=1) * 10 - 7
    order = np.argsort(classes, kind="stable")
    modalities: Any = {name: matrix[order] for name, matrix in data_.modalities.items()}
    starts = [0, *np.flatnonzero(np.diff(classes[order])) + 1, 150]
    assert len(starts) > 3
    cut, cut_classes = in_blocks(modalities, classes[order], starts)
    whole = SCM(3, variant="orthogonal").fit(modalities, classes[order])
    assert_same_to_rounding(SCM(3, variant="orthogonal").fit(cut, cut_classes), whole, modalities)


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        (SCM(8), 1 + 4 + 1),  # four bits come from labels, the others from pairs
        (SCM(3, variant="orthogonal"), 1),
        (CVH(8), 1),
        (CVH(8, similarity="labels"), 2),
        (CCAITQ(8, random_state=0), 2),
        (CMFH(8, random_state=0), 1),
    ],
    ids=repr,
)
def test_methods_of_sums_read_features_as_often_as_documented(method: Any, passes: int) -> None:
    """Codes are computed on request, by another pass."""
    data_ = make_paired(300, n_labels=12, image_features=12, text_features=15, random_state=0)
    counted: Any = {name: Counted(matrix, [0, 100, 150, 300], name) for name, matrix in data_.modalities.items()}
    clone(method).fit(counted, data_.labels)
    assert {name: blocks.n_read for name, blocks in counted.items()} == dict.fromkeys(counted, 3 * passes)


def test_methods_of_sums_learn_from_files_and_can_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense files are divided like the row groups of a Parquet file; a large memory map is read as a file."""
    modalities = dict(small().modalities)
    np.save(tmp_path / "image.npy", modalities["image"])
    (tmp_path / "text").mkdir()
    for start in (0, 40, 110):
        part = modalities["text"][start : {0: 40, 40: 110}.get(start)]
        write_arrays(tmp_path / "text" / f"{start:03}.parquet", {"text": part})
    whole = CMFH(8, random_state=0).fit(modalities)
    monkeypatch.setattr(opening, "_LARGE_MAP", 0)
    text = open_blocks(tmp_path / "text")
    assert text.starts.tolist() == [0, 40, 110, 150]
    for image in (open_blocks(tmp_path / "image.npy"), np.load(tmp_path / "image.npy", mmap_mode="r")):
        ours = CMFH(8, random_state=0).fit({"image": image, "text": text})
        assert_same_to_rounding(ours, whole, modalities)
    ours.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").codes_["text"], np.asarray(ours.codes_["text"]))


@pytest.mark.parametrize("n", [150, 600])
def test_auto_makes_the_same_choice_in_blocks(n: int) -> None:
    train = make_paired(n, n_labels=6, random_state=0)
    whole = DLFH(16, random_state=0).fit(train.modalities, train.labels)
    cut, _ = in_blocks(train.modalities, train.labels, [0, 100, n - 30, n])
    ours = DLFH(16, random_state=0).fit(cut, train.labels)
    assert repr(ours.chosen_) == repr(whole.chosen_)
    assert_same(ours, whole, train.modalities)


def test_kdlfh_in_blocks_has_the_codes_and_accuracy_of_kdlfh_in_memory(tmp_path: Path) -> None:
    train, test = make_paired(900, n_labels=6, random_state=0).split(test_size=100)
    settings_: dict[str, Any] = {"n_bases": 60, "random_state": 0}
    whole = KDLFH(16, **settings_).fit(train.modalities, train.labels)
    np.save(tmp_path / "image.npy", train.modalities["image"])
    cut, labels = in_blocks(train.modalities, train.labels.toarray(), [0, 100, 450, 800])
    by_name = DLFH(16, hash_function=KernelLogistic(60), random_state=0).fit(cut, labels)
    cut["image"] = open_blocks(tmp_path / "image.npy")
    ours = KDLFH(16, **settings_).fit(cut, train.labels)
    for name, matrix in test.modalities.items():
        found = []
        for model in (ours, by_name, whole):
            np.testing.assert_array_equal(np.asarray(model.codes_[name]), whole.codes_[name])
            found.append(model.encode(name, matrix))
        bits = np.unpackbits(found, axis=2)
        assert (bits[:2] == bits[2]).mean() >= 0.995
        (one, other, expected) = (
            mean_average_precision(codes, whole.codes_["image"], test.labels, train.labels) for codes in found
        )
        assert one == pytest.approx(expected, abs=2e-3)
        assert other == pytest.approx(expected, abs=2e-3)
    ours.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").encode("image", cut["image"]), ours.encode("image", cut["image"])
    )


def test_files_can_be_fitted_and_encoded_and_the_model_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modalities, labels = data(0, 150, False)
    del modalities["text"]
    whole = DLFH(12, hash_function="linear", random_state=0).fit(modalities, labels)
    for name, matrix in (*modalities.items(), ("labels", labels)):
        np.save(tmp_path / f"{name}.npy", matrix)
    opened = {name: open_blocks(tmp_path / f"{name}.npy") for name in modalities}
    ours = DLFH(12, hash_function="linear", random_state=0).fit(opened, open_blocks(tmp_path / "labels.npy"))
    assert_same(ours, whole, modalities)
    np.testing.assert_array_equal(ours.encode("image", opened["image"]), ours.encode("image", modalities["image"]))
    monkeypatch.setattr(opening, "_LARGE_MAP", 0)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in modalities}
    assert_same(DLFH(12, hash_function="linear", random_state=0).fit(mapped, labels), whole, modalities)
    ours.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").codes_["image"], whole.codes_["image"])


@given(seeds, st.integers(1, 29), st.sampled_from(["indicator", "classes", "lists"]))
def test_label_sets_of_two_parts_merge_to_those_of_the_whole(seed: int, cut: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    labels: Any = (rng.random((30, 5)) < 0.4).astype(int)
    if form == "classes":
        labels = rng.integers(0, 4, 30)
    elif form == "lists":
        labels = [[f"label {j}" for j in np.flatnonzero(row)] for row in labels]
    whole, first, rest = (
        LabelSets.from_labels(part, allow_empty=True) for part in (labels, labels[:cut], labels[cut:])
    )
    merged, _ = LabelSets.merge(first.aligned_with(rest, name="first", other_name="rest"))
    for name in ("n_labels", "names"):
        assert getattr(merged, name) == getattr(whole, name)
    for name in ("starts", "labels", "counts"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
    np.testing.assert_array_equal(merged.numbers_of(rest)[rest.set_of_point], whole.set_of_point[cut:])


def test_blocks_are_aligned_to_indivisible_ones_or_to_the_smallest(tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", np.ones((10, 2)))
    file = open_blocks(tmp_path / "image.npy")
    coarse, fine = (ArrayBlocks(np.ones((10, 3)), starts, "text") for starts in ([0, 10], [0, 4, 10]))
    for given_blocks in ([file, coarse, fine], [fine, coarse, file]):
        alike = align({str(number): blocks for number, blocks in enumerate(given_blocks)})
        assert all(blocks.starts.tolist() == [0, 4, 10] for blocks in alike.values())
    fixed = coarse.map(lambda block: block, 3, np.float64)
    assert align({"a": fixed, "b": fine})["b"].starts.tolist() == [0, 10]
    with pytest.raises(InputError, match="split both at the same rows"):
        align({"a": fixed, "b": fine.map(lambda block: block, 3, np.float64)})


def test_unsupported_options_for_blocks_raise_a_one_line_error() -> None:
    modalities, labels = data(0, 150, False)
    cut, cut_labels = in_blocks(modalities, labels, [0, 70, 150])
    bad = modalities["image"].copy()
    bad[100, 2] = np.nan
    for changes, given_labels, given_data, sentence in (
        ({"init": "random"}, cut_labels, cut, 'labels in blocks need init="labels"'),
        ({"keep_sums": True}, labels, cut, "keep_sums needs arrays in memory, but modality 'image' is in blocks"),
        ({}, None, cut, "DLFH learns from labels"),
        ({}, labels[1:], cut, "labels has 149 rows but modality 'image' has 150"),
        ({}, ArrayBlocks(0 * labels, [0, 70, 150], "labels"), cut, "labels are all empty"),
        ({}, labels, {"image": cut["image"]}, "DLFH takes at least two modalities"),
        (
            {},
            labels,
            cut | {"text": modalities["text"][1:]},
            "modality 'text' has 149 rows but modality 'image' has 150",
        ),
        (
            {},
            labels,
            cut | {"image": ArrayBlocks(bad, [0, 70, 150], "image")},
            "'image' has NaN or infinity in row 100",
        ),
    ):
        model = DLFH(8, **{"hash_function": "linear", "random_state": 0, **changes})  # type: ignore[arg-type]
        with pytest.raises(InputError, match=sentence):
            model.fit(given_data, given_labels)
        assert not hasattr(model, "modalities_")
    model = DLFH(8, hash_function="linear", random_state=0).fit(cut, cut_labels)
    with pytest.raises(InputError, match="the model expects 6 features"):
        model.encode("image", cut["sound"])
    with pytest.raises(InputError, match="unknown modality 'smell'"):
        model.encode("smell", cut["image"])
    two = {name: cut[name] for name in ("image", "sound")}
    with pytest.raises(InputError, match=r"ACQ\.fit takes arrays in memory, but modality 'image' is in blocks"):
        ACQ(8).fit(two, labels)
    with pytest.raises(InputError, match="SCM takes exactly two modalities, got 3"):
        SCM(8).fit(cut, labels)
    with pytest.raises(InputError, match="SCM learns from labels: pass labels to fit"):
        SCM(8).fit(two)
    with pytest.raises(InputError, match="labels has 149 rows but modality 'image' has 150"):
        SCM(8).fit(two, labels[1:])
    with pytest.raises(InputError, match="modality 'image' has NaN or infinity in row 100"):
        CVH(8).fit(two | {"image": ArrayBlocks(bad, [0, 70, 150], "image")})
    with pytest.raises(InputError, match="present, labelled and similarity need arrays in memory, not data in blocks"):
        KDLFH(8).fit(cut, labels, labelled=np.ones(150, bool))


def test_operations_that_would_gather_blocks_are_refused() -> None:
    modalities, labels = data(0, 60, False)
    pair = {name: modalities[name] for name in ("image", "text")}
    cut, _ = in_blocks(pair, labels, [0, 20, 60])
    growing = DLFH(8, hash_function="linear", keep_sums=True, random_state=0).fit(pair, labels)
    with pytest.raises(InputError, match="partial_fit takes arrays in memory, but modality 'image' is in blocks"):
        growing.partial_fit(cut, labels)
    unified = CMFH(8, random_state=0).fit(pair)
    with pytest.raises(InputError, match="encode_unified takes arrays in memory, but modality 'image' is in blocks"):
        unified.encode_unified(cut)
