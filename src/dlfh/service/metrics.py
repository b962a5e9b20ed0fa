"""What is counted, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dlfh.service.logs import _method, endpoint_of

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counters of one service.

    Attributes
    ----------
    draining : bool
        Whether the service is about to end: it is not ready any more, and answers close their connections.
    """

    def __init__(self) -> None:
        self.draining = False
        self.registry = CollectorRegistry()
        labels = ("endpoint", "method", "status")
        self._requests = Counter("dlfh_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "dlfh_request_seconds", "Seconds to an answer.", ["endpoint"], buckets=_SECONDS, registry=self.registry
        )
        self.batches = Histogram(
            "dlfh_batch_size", "Requests answered together.", buckets=(1, 2, 4, 8, 16, 32), registry=self.registry
        )
        self.waiting = Gauge("dlfh_waiting", "Requests that wait for a worker.", registry=self.registry)
        self.items = Gauge("dlfh_items", "Items of the collection.", registry=self.registry)
        self.refreshes = Counter("dlfh_refreshes", "New states that were taken.", ["result"], registry=self.registry)

    def request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        endpoint = endpoint_of(scope)
        self._requests.labels(endpoint, _method(scope["method"]), str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
