"""Quality of answers: ties, items added later, known-item search, probabilities, search time.

    DLFH_DATA=/path/to/folder python -m benchmarks.answers_study --write docs/answers.md

The folder contains `iapr_tc12.npz` and `photos.tar.xz`; missing files are skipped. Collections are kept in ``--work``
and reused while the library does not change. `--only labelled known` makes only these tables.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers_data import Setting, draws_of_settings, without_labels
from benchmarks.report import code_version, fill, machine
from dlfh import Collection
from dlfh.collection.calibration.model import CalibrationReport
from dlfh.collection.query import Query, SearchOptions
from dlfh.collection.ranking import Ranker
from dlfh.datasets import Items
from dlfh.features.cache import cached

#: Rankings of a collection.
RANKINGS = {"codes": SearchOptions(match="codes"), "default": SearchOptions()}


def built(setting: Setting, work: Path) -> Path:
    """Build a collection of the initial items with the defaults of `dlfh build`, once, and return its folder."""
    folder = work / "built" / code_version() / f"{setting.name.replace(' ', '-')}-{setting.draw}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        Collection.build(folder, setting.first, setting.encoder()).collection.close()
    return folder


def with_later(setting: Setting, work: Path, *, labels: bool) -> Draw:
    """Return the collection after adding the later items, with or without their labels."""
    folder = built(setting, work)
    copy = folder.with_name(f"{folder.name}.{'labelled' if labels else 'bare'}")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    with Collection.open(copy, writable=True) as collection:
        collection.add(setting.later if labels else without_labels(setting.later))
    return Draw(setting, Collection.open(copy))


#: By data set, a collection for each draw of the items that come later.
Draws = dict[str, list["Draw"]]


class Draw:
    """The collection of one draw, and its ranked answers."""

    def __init__(self, setting: Setting, collection: Collection) -> None:
        self.setting = setting
        self.collection = collection
        self.searcher = collection.searcher
        self.ids = collection.index.ids()
        self.labels = [{*((item.metadata or {}).get("labels") or [])} for item in collection]

    def answers(self, modality: str, items: Items, k: int, ranking: str) -> list[Any]:
        """Return the ranked answers to each query."""
        queries, ranker, options = self._ranker(modality, items, replace(RANKINGS[ranking], k=k))
        return [ranker.rank(self.searcher._encoded(query, options)) for query in queries]

    def _ranker(self, modality: str, items: Items, options: SearchOptions) -> tuple[list[Query], Ranker, SearchOptions]:
        encoder = self.collection.encoder
        kind: Any = encoder.featurizer(modality).takes.removesuffix("s")
        queries = [Query(kind, value, modality) for value in items.modalities[modality]]
        options = self.searcher.resolve(queries[0], options)
        self.searcher.encode(queries)
        return queries, Ranker(self.collection.index, encoder, modality, options, self.searcher.words.matches), options

    def n_tied(self, modality: str, items: Items, k: int) -> list[Any]:
        """Return, by query, the number of items tied with each result, in both probability and tie-breakers."""
        counts = []
        queries, ranker, options = self._ranker(modality, items, SearchOptions(k=k))
        for query in queries:
            encoded = self.searcher._encoded(query, options)
            keys = [key(np.arange(len(self.collection))) for key in ranker._tie_breakers(encoded)]
            rows = np.stack([ranker.log_odds(encoded), *keys])
            found = ranker.rank(encoded).positions
            counts.append((rows[:, found, None] == rows[:, None]).all(axis=0).sum(axis=1))
        return counts


def ties_table(draws: Draws) -> str:
    lines = [
        "| data | query | items tied with the first, median | tied by codes alone | tied |",
        "|---|---|---|---|---|",
    ]
    for name, (draw, *_) in draws.items():
        for modality in ("text", "image"):
            before = draw.answers(modality, draw.setting.queries, 10, "codes")
            after = draw.n_tied(modality, draw.setting.queries, 10)
            equals = np.median([result.n_equal[0] for result in before])
            shares = [np.mean([result.n_equal > 1 for result in before]), np.mean([n_tied > 1 for n_tied in after])]
            lines.append(f"| {name} | {modality} | {equals:.0f} | {shares[0]:.1%} | {shares[1]:.1%} |")
    return "\n".join(lines)


def shares(draw: Draw, modality: str, ranking: str) -> list[float]:
    """Return precision at 10 and the share of later items among the right answers."""
    setting = draw.setting
    later = {*setting.later.ids}
    truth = {
        identifier: {*labels}
        for items in (setting.first, setting.later)
        for identifier, labels in zip(items.ids, items.labels or [], strict=True)
    }
    right, new = [], []
    for labels, results in zip(
        setting.queries.labels or [], draw.answers(modality, setting.queries, 10, ranking), strict=True
    ):
        for position in results.positions:
            name = draw.ids[position]
            right.append(bool(truth[name] & {*labels}))
            if right[-1]:
                new.append(name in later)
    return [float(np.mean(right)), float(np.mean(new))]


def later_table(draws: Draws, rankings: tuple[str, ...]) -> str:
    lines = [
        "| data | query | ranking | draws | P@10 "
        "| share of later items in relevant results | range over draws | share in all items |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, several in draws.items():
        share = np.mean([len(draw.setting.later) / len(draw.ids) for draw in several])
        for modality in ("text", "image"):
            for ranking in rankings:
                precision, new = np.transpose([shares(draw, modality, ranking) for draw in several])
                spread = f"{new.min():.3f} to {new.max():.3f}" if len(new) > 1 else "–"
                numbers = f"{precision.mean():.3f} | {new.mean():.3f} | {spread} | {share:.3f}"
                lines.append(f"| {name} | {modality} | {ranking} | {len(several)} | {numbers} |")
    return "\n".join(lines)


def half(text: str, rng: np.random.Generator) -> str:
    words = text.split()
    return " ".join(words[place] for place in np.sort(rng.permutation(len(words))[: max(1, len(words) // 2)]))


def ranks(draw: Draw, items: Items, texts: list[str]) -> list[int]:
    """Return the rank of each item for its own text, among all items."""
    asking = Items.of({"text": texts}, None, items.ids)
    answers = draw.answers("text", asking, len(draw.ids), "default")
    return [
        1 + [draw.ids[place] for place in results.positions].index(identifier)
        for identifier, results in zip(items.ids, answers, strict=True)
    ]


def known_table(draws: Draws) -> str:
    lines = [
        "| data | query | training item: median rank | mean 1 / rank | later item: median rank | mean 1 / rank |",
        "|---|---|---|---|---|---|",
    ]
    for name, several in draws.items():
        for kind in ("its own text", "half of its words"):
            found: dict[str, list[int]] = {"trained": [], "later": []}
            for draw in several:
                rng = np.random.default_rng(1)
                first, later = draw.setting.first, draw.setting.later
                groups = {"trained": first.take(np.sort(rng.permutation(len(first))[:200]))}
                groups["later"] = later.take(np.arange(min(200, len(later))))
                for group, items in groups.items():
                    item_texts = items.modalities["text"]
                    texts = item_texts if kind == "its own text" else [half(text, rng) for text in item_texts]
                    found[group] += ranks(draw, items, texts)
            numbers = (f"{np.median(places):.0f} | {np.mean(1 / np.array(places)):.2f}" for places in found.values())
            lines.append(f"| {name} | {kind} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def calibration_of_later(draw: Draw) -> Iterator[CalibrationReport]:
    """Yield the calibration of items added without labels, judged by their true labels."""
    setting = draw.setting
    places = draw.collection.index.positions(setting.later.ids)
    vectors = draw.collection.encoder.featurize_items(setting.queries)
    for name in ("image", "text"):
        texts = setting.queries.modalities["text"] if name == "text" else None
        answered = draw.searcher.log_odds(name, vectors.matrices[name], texts)
        assert answered is not None
        asking, found = setting.queries.labels or [], setting.later.labels or []
        right = [[bool({*mine} & {*theirs}) for theirs in found] for mine in asking]
        if texts is not None:  # a text asks for all its labels
            right = [[{*mine} <= {*theirs} for theirs in found] for mine in asking]
        yield CalibrationReport.from_results(name, "hashed", [*answered[0][:, places]], [*np.array(right)])


def calibration_table(labelled: Draws, bare: Draws) -> str:
    lines = [
        "| data | query | database codes | share of relevant pairs | calibration error | Brier score | constant |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (draw, *_) in labelled.items():
        learned = draw.collection.evaluate(draw.setting.queries).calibration
        for report in (*learned, *calibration_of_later(bare[name][0])):
            constant = report.share * (1 - report.share)
            numbers = f"{report.share:.3f} | {report.calibration_error:.3f} | {report.brier:.3f} | {constant:.3f}"
            lines.append(f"| {name} | {report.query} | {report.codes} | {numbers} |")
    return "\n".join(lines)


def time_table(draws: Draws) -> str:
    lines = [
        "| data | items | `dlfh search`, processor seconds: median | most "
        "| one query to an open collection, milliseconds |",
        "|---|---|---|---|---|",
    ]
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for name, (draw, *_) in draws.items():
        text, *others = draw.setting.queries.modalities["text"][:51]
        command = [sys.executable, "-m", "dlfh", "search", str(draw.collection.path), text, "--json"]
        spent = []
        for _ in range(11):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, capture_output=True, env=compiled)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        draw.collection.search("text", text)
        began = time.process_time()
        for question in others:
            draw.collection.search("text", question)
        milliseconds = 1000 * (time.process_time() - began) / len(others)
        numbers = f"{np.median(spent[1:]):.2f} | {max(spent[1:]):.2f} | {milliseconds:.1f}"
        lines.append(f"| {name} | {len(draw.ids):,} | {numbers} |")
    return "\n".join(lines)


#: What tables there are.
TABLES = ("ties", "labelled", "unlabelled", "known", "calibration", "time")


def make(name: str, data: Path, work: Path) -> str:
    """Return a table."""

    def collections(labels: bool, several: bool = False) -> Draws:
        return {
            draws[0].name: [with_later(setting, work, labels=labels) for setting in draws[: None if several else 1]]
            for draws in draws_of_settings(data, work)
        }

    made: dict[str, Callable[[], str]] = {
        "ties": lambda: ties_table(collections(True)),
        "labelled": lambda: later_table(collections(True, several=True), ("codes", "default")),
        "unlabelled": lambda: later_table(collections(False, several=True), ("codes", "default")),
        "known": lambda: known_table(collections(False, several=True)),
        "calibration": lambda: calibration_table(collections(True), collections(False)),
        "time": lambda: time_table(collections(True)),
    }
    return made[name]()


def kept(work: Path, name: str, make: Callable[[], str]) -> str:
    """Return a cached table of the same library version, or make it."""
    file = work / "tables" / code_version() / f"{name}.md"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(make(), encoding="utf-8")
    return file.read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/answers"), help="folder for unpacked archives and collections"
    )
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="tables to make", metavar="TABLE")
    arguments = parser.parse_args()
    data, work = Path(os.environ.get("DLFH_DATA", "")), arguments.work
    work.mkdir(parents=True, exist_ok=True)
    with cached(work / "descriptions"):
        tables = {"machine": machine()} | {
            name: kept(work, name, partial(make, name, data, work)) for name in arguments.only
        }
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
