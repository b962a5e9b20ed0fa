from __future__ import annotations

import pytest

from dlfh.bench.data import Source
from dlfh.datasets import make_paired


@pytest.fixture(scope="module")
def source() -> Source:
    return Source.of("generated", {"all": make_paired(120, n_labels=4, random_state=0)})
