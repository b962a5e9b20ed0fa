"""What a collection says of itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dlfh.collection.evaluation import EvaluationReport
from dlfh.service.settings import Settings
from dlfh.service.states import State


def describe_collection(state: State, settings: Settings) -> dict[str, Any]:
    """Return what the collection holds, how its codes were learned, and what it can be filtered by."""
    encoder, index = state.encoder, state.index
    model = encoder.model_
    values = state.facets.values()
    evaluation = state.once("evaluation", lambda: EvaluationReport.read(state.collection.path))
    return {
        "name": state.collection.path.resolve().name,
        "state": state.name,
        "items": len(index),
        "bits": index.n_bits,
        "method": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "trained": len(next(iter(model.codes_.values()))),
        "labels": state.facets.n_labels,
        "modalities": {name: _modality(state, name) for name in encoder.modalities_},
        "filters": {name: [{"value": value, "count": n} for value, n in own] for name, own in values.items()},
        "calibrated": bool(state.collection.calibration.fits),
        "quality": [asdict(row) for row in evaluation.quality],
        "calibration": [asdict(row) for row in evaluation.calibration],
        "writable": settings.writable,
        "limits": asdict(settings.limits),
    }


def _modality(state: State, name: str) -> dict[str, Any]:
    encoder, index = state.encoder, state.index
    chosen: dict[str, Any] = getattr(encoder.model_, "chosen_", {})
    return {
        "takes": encoder.featurizers_[name].takes,
        "features": repr(encoder.featurizers_[name]),
        "n_features": encoder.model_.n_features_[name],
        "hash_function": repr(chosen[name]) if name in chosen else encoder.model_.hash_functions_[name].kind,
        "learned": index.count(name, "learned"),
        "hashed": index.count(name, "hashed"),
    }


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it."""
    return value if value is None or isinstance(value, (bool, int, str)) else repr(value)
