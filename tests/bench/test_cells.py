"""Cells and their hashes."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.cells import Cell, SplitSpec

values = st.one_of(
    st.integers(-100, 100), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "full", "λ"])
)
specs = st.builds(
    SplitSpec,
    seed=st.integers(0, 9),
    queries=st.none() | st.integers(1, 40),
    unseen_share=st.sampled_from([0.0, 0.2, 0.5]),
    validation_share=st.sampled_from([0.0, 0.2, 0.5]),
    validation_seed=st.integers(0, 9),
    size=st.none() | st.integers(1, 50),
)


def cell(**changed: object) -> Cell:
    given = {"bits": 16, "seed": 0, "split": SplitSpec(queries=31)} | changed
    return Cell.make("generated", "0f", str(given.pop("method", "DLFH")), given.pop("parameters", {}), **given)  # type: ignore[arg-type]


def test_the_hash_of_a_cell_is_stable() -> None:
    fixed = replace(cell(parameters={"scale": 4.0}), version="0.1.0")
    assert fixed.key == "9e8547b3d03474e9"


@given(st.dictionaries(st.sampled_from("abcλ"), values, max_size=4), specs)
def test_cells_keep_their_hash_in_json(parameters: dict[str, object], spec: SplitSpec) -> None:
    original = cell(parameters=parameters, split=spec)
    again = Cell.from_plain(json.loads(json.dumps(original.plain())))
    assert again == original
    assert again.key == original.key
    assert cell(parameters=dict(reversed(parameters.items())), split=spec).key == original.key


def test_the_hash_covers_everything_but_the_name_of_the_data() -> None:
    base = cell()
    others = [
        replace(base, fingerprint="1f"),
        replace(base, method="SCM"),
        cell(parameters={"scale": 1.0}),
        replace(base, bits=32),
        replace(base, seed=1),
        replace(base, split=SplitSpec(queries=32)),
        replace(base, kind="time"),
        replace(base, k=10),
        replace(base, train_points=100),
        replace(base, version="next"),
    ]
    assert len({base.key, *(each.key for each in others)}) == 1 + len(others)
    assert replace(base, data="other").key == base.key
