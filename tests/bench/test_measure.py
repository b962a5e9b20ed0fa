"""One fit measures every protocol, with the values of `dlfh.metrics`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._probabilities.scores import MATCHES
from dlfh.bench.cells import Cell, SplitSpec
from dlfh.bench.data import Source
from dlfh.bench.measure import build, given_codes, retrieval
from dlfh.codes import unpack
from dlfh.datasets import Paired
from dlfh.errors import InputError
from dlfh.methods import CrossModalHasher
from dlfh.metrics import evaluate, mean_average_precision
from dlfh.metrics.measures import PR
from tests.bench.test_cells import cell


def dense(labels: Any) -> np.ndarray:
    return labels.toarray() if sp.issparse(labels) else np.asarray(labels)


def probable(model: CrossModalHasher, name: str, points: Paired) -> np.ndarray:
    return model.label_probabilities({name: points.modalities[name]})


def fast_cell(**changed: object) -> Cell:
    return cell(parameters={"hash_function": "linear", "max_iter": 2}, bits=8, **changed)


@pytest.mark.parametrize("unseen_share", [0.0, 0.25])
def test_measurements_are_those_of_the_metrics(source: Source, unseen_share: float) -> None:
    measured = fast_cell(split=SplitSpec(queries=31, unseen_share=unseen_share), k=7)
    parts = source.split(measured.split)
    values, _ = retrieval(measured, parts)
    model = build(measured, 1).fit(parts.train.modalities, parts.train.labels)
    queries, labels = model.encode("text", parts.queries.modalities["text"]), parts.queries.labels
    databases = {
        "learned": (model.codes_["image"], parts.train.labels),
        "hashed": (model.encode("image", parts.train.modalities["image"]), parts.train.labels),
    }
    images = {"learned": dense(parts.train.labels), "hashed": probable(model, "image", parts.train)}
    if parts.unseen is not None:
        databases["unseen"] = (model.encode("image", parts.unseen.modalities["image"]), parts.unseen.labels)
        images["unseen"] = probable(model, "image", parts.unseen)
    for protocol, (items, item_labels) in databases.items():
        scores = values["protocols"][protocol]["text → image"]
        arguments = (queries, items, labels, item_labels)
        assert scores["map"] == pytest.approx(mean_average_precision(*arguments), abs=1e-12)
        assert scores["map_at"] == pytest.approx(mean_average_precision(*arguments, k=7), abs=1e-12)
        curve = PR(ranks=scores["ranks"])
        expected = evaluate(*arguments, measures=["nDCG@7", 'P(match="all")@5', "P@7", curve])
        assert scores["ndcg_at"] == pytest.approx(expected["nDCG@7"], abs=1e-12)
        assert scores["exact_at"] == pytest.approx(expected['P(match="all")@5'], abs=1e-12)
        real = model.project("text", parts.queries.modalities["text"])
        asymmetric = mean_average_precision(real, items, labels, item_labels)
        assert scores["asymmetric_map"] == pytest.approx(asymmetric, abs=1e-12)
        stored = model.quantize_probabilities(images[protocol])
        for match in MATCHES:
            tables = model.score_tables(probable(model, "text", parts.queries), match)
            ranked = mean_average_precision(tables, stored, labels, item_labels)
            assert scores[f"{match}_map"] == pytest.approx(ranked, abs=1e-12)
        assert scores["precision_at"] == pytest.approx(expected["P@7"], abs=1e-12)
        assert scores["precision"] == pytest.approx(expected[curve].precision, abs=1e-12)
        assert scores["recall"] == pytest.approx(expected[curve].recall, abs=1e-12)


def test_a_unified_database_is_encoded_from_all_modalities(source: Source) -> None:
    measured = cell(method="CMFH", parameters={"max_iter": 2}, bits=8)
    parts = source.split(measured.split)
    values, _ = retrieval(measured, parts)
    model = build(measured, 1).fit(parts.train.modalities, parts.train.labels)
    queries = model.encode("text", parts.queries.modalities["text"])
    unified = model.encode_unified(parts.train.modalities)
    expected = mean_average_precision(queries, unified, parts.queries.labels, parts.train.labels)
    assert values["protocols"]["unified"]["text → image"]["map"] == pytest.approx(expected, abs=1e-12)
    assert "unified" not in retrieval(fast_cell(), parts)[0]["protocols"]


def test_without_unseen_points_each_half_of_the_queries_searches_the_other(source: Source) -> None:
    measured = fast_cell()
    parts = source.split(measured.split)
    values, _ = retrieval(measured, parts)
    model = build(measured, 1).fit(parts.train.modalities, parts.train.labels)
    labels = parts.queries.labels
    texts = model.encode("text", parts.queries.modalities["text"])
    images = model.encode("image", parts.queries.modalities["image"])
    real = model.project("text", parts.queries.modalities["text"])
    order = np.random.default_rng(0).permutation(31)
    halves = np.sort(order[::2]), np.sort(order[1::2])
    for measure, queries in (("map", texts), ("asymmetric_map", real)):
        total = sum(
            len(half) * mean_average_precision(queries[half], images[other], labels[half], labels[other])
            for half, other in (halves, halves[::-1])
        )
        assert values["protocols"]["unseen"]["text → image"][measure] == pytest.approx(total / 31, abs=1e-12)


def test_a_method_that_learns_from_a_sample_encodes_the_others(source: Source) -> None:
    values, _ = retrieval(fast_cell(train_points=60), source.split(SplitSpec(queries=31)))
    assert values["n_train"] == 60
    few, _ = retrieval(fast_cell(), source.split(SplitSpec(queries=31, size=60)))
    assert values["protocols"]["learned"]["image → text"]["ranks"][-1] == 89  # the database is the whole training set
    assert few["protocols"]["learned"]["image → text"]["ranks"][-1] == 60


def test_codes_computed_elsewhere_get_the_scores_of_a_fit_with_the_same_codes(source: Source, tmp_path: Path) -> None:
    fitted = fast_cell(split=SplitSpec(queries=31), k=7)
    parts = source.split(fitted.split)
    expected, _ = retrieval(fitted, parts)
    model = build(fitted, 1).fit(parts.train.modalities, parts.train.labels)
    arrays = {}
    for name in model.modalities_:
        arrays[f"{name}_queries"] = unpack(model.encode(name, parts.queries.modalities[name]), 8)
        arrays[f"{name}_hashed"] = unpack(model.encode(name, parts.train.modalities[name]), 8)
        arrays[f"{name}_learned"] = unpack(model.codes_[name], 8)
    np.savez(tmp_path / "8-0.npz", **arrays)  # type: ignore[arg-type]
    given = replace(fitted, kind="codes", parameters={"file": str(tmp_path / "8-0.npz")})
    found, _ = given_codes(given, parts, threads=1)
    for protocol, directions in expected["protocols"].items():
        for direction, scores in directions.items():
            others = dict.fromkeys(["asymmetric_map", "any_map", "all_map"])
            assert found["protocols"][protocol][direction] == scores | others
    with pytest.raises(InputError, match="has codes of 8 bits, but its name says 16"):
        given_codes(replace(given, bits=16), parts, threads=1)
    with pytest.raises(InputError, match="has 31 image codes for the 20 queries of this split"):
        given_codes(given, source.split(SplitSpec(queries=20)), threads=1)
