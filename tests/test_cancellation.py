"""A cancelled computation stops at its next checkpoint; one that nobody can cancel never does."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dlfh._cancellation import cancellable, checkpoint
from dlfh.index import Index


class StoppedError(Exception):
    pass


def stop() -> None:
    raise StoppedError


def test_a_checkpoint_stops_the_computation_of_its_own_thread_only() -> None:
    passed = threading.Event()

    def work() -> None:
        checkpoint()
        passed.set()

    with cancellable(stop):
        with pytest.raises(StoppedError):
            checkpoint()
        other = threading.Thread(target=work)
        other.start()
        other.join()
        with cancellable(lambda: None):
            checkpoint()
        with pytest.raises(StoppedError):
            checkpoint()
    checkpoint()
    assert passed.is_set()


def test_filters_stop_when_they_are_cancelled() -> None:
    index = Index(8, ["image"])
    index.add(["item"], {"image": np.zeros((1, 1), np.uint8)})
    with cancellable(stop), pytest.raises(StoppedError):
        index.matches({"or": [{"a": 1}, {"b": 2}]})
