"""The battery of laws finds methods that break them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pytest

from dlfh.bench import check_method
from dlfh.methods import CrossModalHasher, MethodInfo


@dataclass(eq=False, repr=False)
class LabelSigns(CrossModalHasher):
    """Codes are the signs of a random projection of the centred labels."""

    kind = "LabelSigns of the tests"
    info = MethodInfo(
        "Signs of projected labels",
        "an example",
        supervised=True,
        discrete=False,
        protocols=("learned", "hashed"),
        complexity="n d²",
        n_modalities=(1, None),
    )

    n_bits: int = 64
    _: KW_ONLY
    random_state: int | None = None
    n_jobs: int | None = None
    verbose: bool = False

    def _fit(self, features: dict[str, Any], labels: Any) -> None:
        L = self._label_rows(labels, features).toarray()
        R = np.random.default_rng(self.random_state).standard_normal((L.shape[1], self.n_bits))
        self._learn_functions(features, self._changed((L - L.mean(axis=0)) @ R))

    def _changed(self, values: np.ndarray) -> np.ndarray:
        return values


@pytest.mark.slow
def test_a_method_by_the_documented_base_class_obeys_all_laws() -> None:
    check_method(LabelSigns)


class Unseeded(LabelSigns):
    kind = "Unseeded"

    def _changed(self, values: np.ndarray) -> np.ndarray:
        return values + np.random.default_rng().standard_normal(values.shape)


class Unlearned(LabelSigns):
    kind = "Unlearned"

    def _changed(self, values: np.ndarray) -> np.ndarray:
        return np.random.default_rng(self.random_state).standard_normal(values.shape)


class Unsaved(LabelSigns):
    pass


BROKEN: dict[type[CrossModalHasher], str] = {
    Unseeded: "Unseeded: a seed determines codes on any number of threads: .*",
    Unlearned: "Unlearned: .*(labels in any form|every protocol is better than chance)",
}


@pytest.mark.parametrize("method", BROKEN)
def test_the_law_that_a_method_breaks_is_named(method: type[CrossModalHasher]) -> None:
    with pytest.raises(AssertionError, match=BROKEN[method]):
        check_method(method)


def test_a_method_that_cannot_be_saved_says_what_it_lacks() -> None:
    with pytest.raises(Exception, match="Unsaved cannot be saved: define a class attribute kind"):
        check_method(Unsaved)
