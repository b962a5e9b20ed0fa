"""Raw data to answers: texts and images are described, encoded, kept, searched and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand

if TYPE_CHECKING:
    from dlfh.collection.calibration_report import CalibrationReport
    from dlfh.collection.candidates import featurizers_for, recommended_model
    from dlfh.collection.choosing import Trial
    from dlfh.collection.collection import BuildResult, Collection
    from dlfh.collection.encoder import Encoder, load
    from dlfh.collection.evaluated import EvaluationReport
    from dlfh.collection.evaluation import HeldOut, RetrievalQuality, fit_and_evaluate, hold_out
    from dlfh.collection.pictures import contact_sheet
    from dlfh.collection.result import ResultItem, SearchResult
    from dlfh.collection.syncing import SyncResult

__all__ = [
    "BuildResult",
    "CalibrationReport",
    "Collection",
    "Encoder",
    "EvaluationReport",
    "HeldOut",
    "ResultItem",
    "RetrievalQuality",
    "SearchResult",
    "SyncResult",
    "Trial",
    "contact_sheet",
    "featurizers_for",
    "fit_and_evaluate",
    "hold_out",
    "load",
    "recommended_model",
]

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "candidates": "featurizers_for recommended_model",
        "choosing": "Trial",
        "collection": "BuildResult Collection",
        "encoder": "Encoder load",
        "evaluated": "EvaluationReport",
        "evaluation": "HeldOut RetrievalQuality fit_and_evaluate hold_out",
        "result": "SearchResult ResultItem",
        "pictures": "contact_sheet",
        "syncing": "SyncResult",
        "calibration_report": "CalibrationReport",
    },
)
