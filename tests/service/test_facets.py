"""Facets of a changed index equal those gathered anew, although only new segments are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.titles import Titles
from dlfh.index import Index
from dlfh.service import facets
from dlfh.service.facets import Facets

METADATA = st.fixed_dictionaries(
    {"text": st.sampled_from(["red shoe", "blue coat", "a red coat"])},
    optional={
        "labels": st.lists(st.sampled_from(["red", "Red", "blue"]), max_size=2),
        "columns": st.fixed_dictionaries(
            {}, optional={"size": st.sampled_from([1, 1.0, True, "1", 2]), "key": st.integers()}
        ),
    },
)
#: Items to put, or to remove, by their numbers.
CHANGES = st.lists(
    st.tuples(st.booleans(), st.dictionaries(st.integers(0, 9), METADATA, min_size=1, max_size=6)), max_size=5
)
TITLES = Titles(["text"])


def facts(index: Index, found: Facets) -> Any:
    ids = index.ids()
    titled = {prefix: sorted({ids[position] for position in found.titled(prefix)}) for prefix in ("r", "co", "a re")}
    return found.values(), found.n_labels, found.labels("re", 5), titled


@given(CHANGES)
def test_facets_follow_changes(changes: list[tuple[bool, dict[int, dict[str, Any]]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facets, "_MAX_VALUES", 3)
        index, last = Index(8, ["text"]), None
        for is_put, items in changes:
            ids = [f"i{number}" for number in items]
            if is_put:
                codes = {"text": np.zeros((len(ids), 1), np.uint8)}
                index.put(ids, codes, metadata=[*items.values()])
            else:
                index.remove([name for name in ids if name in index])
            last = Facets(index, TITLES, last)
            anew = Facets(index, TITLES)
            now, fresh = facts(index, last), facts(index, anew)
            # A name with too many values stays unlisted until its segment is rewritten.
            assert {name: fresh[0].get(name) for name in now[0]} == now[0]
            assert {name for name in fresh[0] if name not in now[0]} <= {"key"}
            assert now[1:] == fresh[1:]
            expected = sorted(item.id for item in index.items() if "red" in str((item.metadata or {})["text"]))
            assert now[3]["r"] == expected


def test_unchanged_segments_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"text": np.zeros((100, 1), np.uint8)}
    with Index.create(tmp_path / "index", 8, ["text"]) as index:
        index.add([f"i{row}" for row in range(100)], codes, metadata=[{"labels": ["a"]}] * 100)
        with Index.open(tmp_path / "index") as reader:
            first = Facets(reader, TITLES)
            index.put(["i5"], {"text": codes["text"][:1]}, metadata=[{"labels": ["b"]}])
            index.remove(["i6"])
            gathered: list[str] = []
            monkeypatch.setattr(facets, "_count", _counting(facets._count, gathered))
            newer = reader.newer()
            assert newer is not None
            with newer:
                second = Facets(newer, TITLES, first)
                assert second.values() == {"labels": [("a", 98), ("b", 1)]}
                assert len(gathered) == 3  # the new item, the replaced one and the removed one
            assert first.values() == {"labels": [("a", 100)]}
            assert len(reader) == 100  # the former state is as it was


def _counting(count: Any, gathered: list[Any]) -> Any:
    def counting(counts: Any, all_metadata: Any) -> None:
        kept = [*all_metadata]
        gathered.extend(kept)
        count(counts, kept)

    return counting
