"""Example texts and images, and conversions of features."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import scipy.sparse as sp

TEXTS = ["The red cat", "a red, red dog!", "", "Über die Straße", "नमस्ते दुनिया", "東京タワー"]


PICTURES = list(np.random.default_rng(0).integers(0, 256, (10, 20, 30, 3), np.uint8))


def dense(features: Any) -> np.ndarray:
    return features.toarray() if sp.issparse(features) else np.asarray(features)


def with_json(parts: tuple[dict[str, Any], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads(json.dumps(parts[0])), parts[1]
