"""Calibration of the probabilities that people read: of the first ten answers, by kind of question.

    DLFH_DATA=/path/to/folder python -m benchmarks.shown_study --write docs/answers.md

Three times, a fifth of the items is held out, and a collection is built from the others, with combined image features
and tf-idf. Questions are made by rules, with a fixed seed. From held-out items: captions, half of the words of a
caption, one word of it that names no label, and pictures. From the collection: half of the words of captions, and names
of labels and pairs of labels that at least eight items have. Right answers have all labels of a caption's item or
all words asked for; one label of a picture's item; all labels that are named; or the single word.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers_data import iapr, icons, photographs
from benchmarks.report import fill
from dlfh import Collection, Encoder
from dlfh.collection.calibration.model import expected_calibration_error
from dlfh.collection.understanding import singular
from dlfh.datasets import Items

_SHOWN, _MAX_QUESTIONS, _MIN_LABELLED, _MAX_ITEMS = 10, 300, 8, 2500


def words_of(text: str) -> list[str]:
    """Return the words of a text, in the singular."""
    return [singular(word) for word in re.findall(r"[^\W_]+", text.lower())]


def questions(
    queries: Items, collection: Collection, rng: np.random.Generator
) -> Iterator[tuple[str, list[tuple[str, Any, Any]]]]:
    """Yield kinds of questions; each question is a modality, a value, and a predicate of right answers."""

    def has_all(labels: Any) -> Any:
        return lambda item: {*labels} <= {*item.labels}

    def contains(words: Any) -> Any:
        return lambda item: {*words} <= {*words_of(item.metadata["text"])}

    def half(text: str, labels: Any) -> Any:
        words = words_of(text)
        some = [str(word) for word in rng.permutation(words)[: max(1, len(words) // 2)]]
        return "text", " ".join(some), lambda item: has_all(labels)(item) or contains(some)(item)

    order = rng.permutation(len(queries))[:_MAX_QUESTIONS]
    texts, pictures = queries.modalities["text"], queries.modalities["image"]
    labels = [(queries.labels or [])[row] for row in range(len(queries))]
    yield "whole caption", [("text", texts[row], has_all(labels[row])) for row in order if labels[row]]
    yield "half a caption", [half(texts[row], labels[row]) for row in order if labels[row]]
    yield (
        "picture",
        [
            ("image", pictures[row], lambda item, row=row: bool({*labels[row]} & {*item.labels}))
            for row in order
            if labels[row]
        ],
    )
    items: dict[str, set[str]] = {}
    n_texts: dict[str, int] = {}
    for item in collection:
        for label in (item.metadata or {}).get("labels") or []:
            items.setdefault(label, set()).add(item.id)
        for word in {*words_of((item.metadata or {}).get("text", ""))}:
            n_texts[word] = n_texts.get(word, 0) + 1
    common = sorted(label for label, ids in items.items() if len(ids) >= _MIN_LABELLED)
    named = {word for label in items for word in words_of(label)}
    singles = [rng.choice([word for word in words_of(texts[row]) if n_texts.get(word)] or [""]) for row in order]
    singles = [str(word) for word in dict.fromkeys(singles) if word and word not in named and len(word) > 2]
    yield "one word", [("text", word, contains([word])) for word in singles]
    known = [item.metadata or {} for item in collection]
    known = [known[row] for row in rng.permutation(len(known))[:_MAX_QUESTIONS]]
    yield "half a name of an item", [half(each["text"], each["labels"]) for each in known if each.get("labels")]
    spoken = {label: label.replace("_", " ").replace("+", "").lower() for label in items}
    yield "label", [("text", spoken[label], has_all([label])) for label in rng.permutation(common)[:_MAX_QUESTIONS]]
    pairs = [(a, b) for a, b in rng.permutation([*itertools.combinations(common, 2)]).tolist()]
    for kind, exists in (("pair that exists", True), ("pair that does not", False)):
        some = [pair for pair in pairs if bool(items[pair[0]] & items[pair[1]]) is exists][:_MAX_QUESTIONS]
        yield kind, [("text", f"{spoken[a]} {spoken[b]}", has_all([a, b])) for a, b in some]


def measure(name: str, items: Items, n_splits: int) -> list[str]:
    """Return the rows of a data set: the results of all splits together."""
    order = np.random.default_rng(0).permutation(len(items))
    found: dict[str, list[tuple[float, bool]]] = {}
    n_asked: dict[str, int] = {}
    for split in range(n_splits):
        queries, first = items.take(np.sort(order[split::5])), items.take(np.sort(np.delete(order, np.s_[split::5])))
        with tempfile.TemporaryDirectory() as folder:
            # Features as most trials choose them, so that a collection takes seconds to build.
            images = None if isinstance(first.modalities["image"], np.ndarray) else "combined"
            encoder = Encoder.for_items(first, image_features=images or "auto", text_features="tfidf")
            with Collection.build(Path(folder) / "built", first, encoder).collection as collection:
                for kind, asked in questions(queries, collection, np.random.default_rng(split)):
                    n_asked[kind] = n_asked.get(kind, 0) + len(asked)
                    for modality, value, is_right in asked:
                        result = collection.search(modality, value, _SHOWN)
                        found.setdefault(kind, []).extend(
                            (item.probability or 0.0, bool(is_right(item))) for item in result
                        )
    rows = []
    for kind, pairs in found.items():
        stated, right = np.array(pairs).T
        error = expected_calibration_error(stated, right.astype(bool))
        rows.append(f"| {name} | {kind} | {n_asked[kind]} | {stated.mean():.3f} | {right.mean():.3f} | {error:.3f} |")
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dlfh-shown")
    parser.add_argument("--splits", type=int, default=3, help="of five, the number of fifths that are held out in turn")
    parser.add_argument("--sets", nargs="+", default=["icons", "photographs", "IAPR TC-12"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.work.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ.get("DLFH_DATA", "."))
    readers = {
        "icons": lambda: icons(arguments.work),
        "photographs": lambda: photographs(data, arguments.work),
        "IAPR TC-12": lambda: iapr(data),
    }
    rows = ["| data | question | questions | mean probability | share right | calibration error |"]
    rows.append("|---|---|---|---|---|---|")
    for name in arguments.sets:
        items = readers[name]()
        items = items.take(np.sort(np.random.default_rng(0).permutation(len(items))[:_MAX_ITEMS]))
        rows += measure(name, items, arguments.splits)
    if arguments.write:
        fill(arguments.write, {"shown": "\n".join(rows)})


if __name__ == "__main__":
    main()
