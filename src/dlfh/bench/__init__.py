"""The paper's experiments: what was published, and what is measured."""

from dlfh.bench.published import MapCell, Published, TimeCell, published

__all__ = ["MapCell", "Published", "TimeCell", "published"]
