"""Fifty short queries: answers of the former default and of the current one.

    DLFH_DATA=/path/to/folder python -m benchmarks.queries_study --write docs/answers.md --picture docs/images/fifty.png

`benchmarks/fifty_queries.csv` was written before any query was run. It defines right answers: every word of a
criterion, or one of several separated by bars, must begin a word of the item's name, text or labels.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers_data import Setting, icons, photographs
from benchmarks.report import code_version, fill
from dlfh import DLFH, Collection, Encoder
from dlfh.collection.calibration.model import expected_calibration_error
from dlfh.collection.pictures import contact_sheet
from dlfh.collection.query import ResultItem
from dlfh.datasets import Items
from dlfh.features import BagOfWords, Gist
from dlfh.features.cache import cached

QUERIES = Path(__file__).with_name("fifty_queries.csv")
#: How many answers are looked at, and how many a first right one is looked for in.
SHOWN, LOOKED_AT = 5, 1000


@dataclass(frozen=True)
class Question:
    """A query and its criterion: right answers have a word of each group."""

    collection: str
    text: str
    right: list[list[str]]

    def answered_by(self, item: ResultItem) -> bool:
        """Return whether an item is right."""
        card = item.metadata or {}
        written = " ".join([item.id, str(card.get("text", "")), *(card.get("labels") or [])])
        words = re.findall(r"[^\W_]+", written.lower())
        return all(any(word.startswith(start) for word in words for start in group) for group in self.right)


def questions() -> list[Question]:
    with QUERIES.open(encoding="utf-8", newline="") as file:
        return [
            Question(row["collection"], row["query"], [group.split("|") for group in row["right"].split()])
            for row in csv.DictReader(file)
        ]


def collections(name: str, items: Items, work: Path) -> dict[str, Collection]:
    """Return a collection of all items built with the former default, and one built with the current one."""
    whole = Setting(name, items, items, items)
    former = Encoder(
        {"image": Gist(), "text": BagOfWords()},
        DLFH(64, hash_function="linear", balance=False, step="bound", random_state=0),
    )
    found = {}
    for kind, encoder in (("before", former), ("now", whole.encoder())):
        folder = work / "built" / code_version() / f"{name}-{kind}"
        if not (folder / "index").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            Collection.build(folder, items, encoder).collection.close()
        found[kind] = Collection.open(folder)
    return found


def ask(collection: Collection, kind: str, text: str) -> list[ResultItem]:
    """Search by the distance of image codes alone, as formerly, or with the current default."""
    if kind == "now":
        return [*collection.search("text", text, LOOKED_AT)]
    known, collection.encoder.calibration_ = collection.encoder.calibration_, None
    try:
        return by_distance_alone(collection, text)
    finally:
        collection.encoder.calibration_ = known


def by_distance_alone(collection: Collection, text: str) -> list[ResultItem]:
    """Return answers by Hamming distance, ties in insertion order."""
    found = [*collection.search("text", text, len(collection), modalities="image", match="codes", ranking="hamming")]
    place = {identifier: row for row, identifier in enumerate(collection.index.ids())}
    return sorted(found, key=lambda item: (item.hamming_distance, place[item.id]))[:LOOKED_AT]


def label_queries(collection: Collection, n_pairs: int = 200) -> dict[str, list[tuple[str, set[str]]]]:
    """Return the names of labels and of pairs of labels, drawn at random, with the ids of the items that have them."""
    items: dict[str, set[str]] = {}
    for item in collection:
        for label in (item.metadata or {}).get("labels") or []:
            items.setdefault(label, set()).add(item.id)
    common = sorted(label for label, ids in items.items() if 8 <= len(ids) <= len(collection) / 2)
    pairs = [*itertools.combinations(common, 2)]
    order = np.random.default_rng(0).permutation(len(pairs))
    both = [(f"{one} {other}", items[one] & items[other]) for one, other in (pairs[place] for place in order)]
    return {
        "one label": [(label, items[label]) for label in common],
        "two labels that items have": [pair for pair in both if len(pair[1]) >= 3][:n_pairs],
        "two labels that no item has": [pair for pair in both if not pair[1]][:n_pairs],
    }


def label_rows(name: str, collection: Collection) -> list[str]:
    """Return the rows of the table of queries that name labels."""
    rows = []
    for kind, asked in label_queries(collection).items():
        for ranking in ("asymmetric", "all"):
            precision, best, probabilities, right = [], [], [], []
            for text, ids in asked:
                found = collection.search("text", text, 10, ranking=ranking)
                hits = [item.id in ids for item in found]
                precision.append(np.mean(hits[: min(10, len(ids)) or 10]))
                best.append(found[0].probability or 0.0)
                probabilities += [item.probability or 0.0 for item in found]
                right += hits
            error = expected_calibration_error(np.array(probabilities), np.array(right))
            rows.append(
                f"| {name} | {kind} | {len(asked)} | {'codes' if ranking == 'asymmetric' else 'labels'} | "
                f"{np.mean(precision):.3f} | {error:.3f} | {np.median(best):.3f} | "
                f"{np.mean(np.array(best) > 0.9):.2f} |"
            )
    return rows


def rank(question: Question, answers: list[ResultItem]) -> int | None:
    return next((row for row, item in enumerate(answers, 1) if question.answered_by(item)), None)


def shown(value: int | None) -> str:
    return "–" if value is None else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument("--picture", type=Path, help="file for a picture of the icons found")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/answers"), help="folder for unpacked archives and collections"
    )
    arguments = parser.parse_args()
    data, work = Path(os.environ.get("DLFH_DATA", "")), arguments.work
    work.mkdir(parents=True, exist_ok=True)
    sources = {"icons": icons(work)}
    if (data / "photos.tar.xz").exists():
        sources["photographs"] = photographs(data, work)
    lines = [
        "| data | query | relevant in the top 5, before | now "
        "| rank of the first relevant one, before | now | top 5 now |",
        "|---|---|---|---|---|---|---|",
    ]
    totals = ["| data | queries | relevant in the top 5, before | now | first result relevant, before | now |"]
    totals.append("|---|---|---|---|---|---|")
    named = ["| data | query | queries | ranking | precision | calibration error | median probability | above 0.9 |"]
    named.append("|---|---|---|---|---|---|---|---|")
    tiles: list[Any] = []
    captions: list[str] = []
    with cached(work / "descriptions"):
        for name, items in sources.items():
            opened = collections(name, items, work)
            named += label_rows(name, opened["now"])
            right: dict[str, list[float]] = {kind: [] for kind in opened}
            first: dict[str, list[bool]] = {kind: [] for kind in opened}
            for question in (each for each in questions() if each.collection == name):
                answers = {kind: ask(collection, kind, question.text) for kind, collection in opened.items()}
                good = {kind: sum(map(question.answered_by, results[:SHOWN])) for kind, results in answers.items()}
                ranks = {kind: rank(question, results) for kind, results in answers.items()}
                for kind in opened:
                    right[kind].append(good[kind] / SHOWN)
                    first[kind].append(ranks[kind] == 1)
                names = [item.id if name == "icons" else item.metadata["text"] for item in answers["now"][:SHOWN]]
                lines.append(
                    f"| {name} | {question.text} | {good['before']} | {good['now']} | {shown(ranks['before'])} | "
                    f"{shown(ranks['now'])} | {'; '.join(names)} |"
                )
                if name == "icons":
                    blank = np.ones((8, 8))
                    for kind, collection in opened.items():
                        if kind == "before":
                            tiles.append(blank)
                            captions.append(question.text)
                        tiles += [collection.image_path(item.metadata) for item in answers[kind][:SHOWN]]
                        captions += [item.id for item in answers[kind][:SHOWN]]
            totals.append(
                f"| {name} | {len(right['now'])} | "
                + " | ".join(f"{np.mean(numbers):.2f}" for by in (right, first) for numbers in by.values())
                + " |"
            )
    if arguments.picture:
        sheet = contact_sheet(tiles, captions, columns=1 + 2 * SHOWN, size=56)
        sheet.convert("L").quantize(16).save(arguments.picture, optimize=True)
    tables = {"fifty": "\n".join(totals), "fifty-each": "\n".join(lines), "named": "\n".join(named)}
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
