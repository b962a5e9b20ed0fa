"""Accuracy and confidence of the first answers to questions, made by rules or written by hand.

    DLFH_DATA=/path/to/folder python -m benchmarks.questions_study --write docs/answers.md

Collections of all icons, photographs and every fourth photograph of IAPR TC-12 are built with default options and
prepared by `dlfh meaning`. Questions are names of labels and pairs of labels, with typing errors, in singular and
plural, and with negation; their synonyms in WordNet that do not occur in the collection; off-topic words; and the words
in benchmarks/similar_words.csv. All were drawn with a fixed seed, or written by hand, before any was asked. Each is
asked literally (`literal`), and as understood by default. Captions of IAPR TC-12 are word numbers, so all of its
questions name labels.

The answers of an earlier version are measured by that version, in a process with its packages (its `benchmarks` read
the data):

    python -m benchmarks.questions_study --save questions.json
    PYTHONPATH=/path/to/earlier/src:/path/to/earlier python benchmarks/questions_before.py questions.json before.json
    python -m benchmarks.questions_study --before before.json --write docs/answers.md
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.answers_data import iapr, icons, photographs
from benchmarks.questions_before import LOOKED_AT, SHOWN, cells
from benchmarks.report import fill
from dlfh import Collection, Encoder
from dlfh.collection.meaning import WordNet, find_wordnet
from dlfh.collection.understanding import singular
from dlfh.datasets import Items, read_arrays

_MAX_QUESTIONS = 100
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NONSENSE = """
    sdkjfh qwpoeiru zxmvnb glorptz ubbeldy wrtzkj asjdhg vvquil blorfen zarkanoid quuxify frobnitz snorfle wibblate
    Auffahrunfall Zeugnis Regenbogen parapluie grenouille bibliotheque ventana cuchillo zapatilla
"""


class Question(NamedTuple):
    """A text, and the ids of right answers."""

    text: str
    right: frozenset[str]


def with_typing_error(text: str, rng: np.random.Generator) -> str | None:
    """Return a text with one wrong, missing, additional or swapped letter in a word of five letters or more."""
    words = text.split()
    long = [place for place, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if not long:
        return None
    place = int(rng.choice(long))
    word, at, letter = words[place].lower(), int(rng.integers(1, len(words[place]) - 1)), str(rng.choice([*_LETTERS]))
    changed = (
        word[:at] + letter + word[at + 1 :],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )[int(rng.integers(4))]
    return None if changed == word else " ".join([*words[:place], changed, *words[place + 1 :]])


def inflected(text: str) -> str:
    """Return a text with its last word in the plural, or in the singular if it is a plural."""
    if text.endswith(("ches", "shes", "sses", "xes")):
        return text[:-2]
    return text[:-1] if text.endswith("s") and not text.endswith("ss") else f"{text}s"


def questions(name: str, asked_of: Items, wordnet: WordNet) -> Iterator[tuple[str, list[Question]]]:
    """Yield kinds of questions, and the questions."""
    rng = np.random.default_rng(0)
    items: dict[str, set[str]] = {}
    with_word: dict[str, set[str]] = {}
    for row, text, labels in zip(asked_of.ids, asked_of.modalities["text"], asked_of.labels or [], strict=True):
        for label in labels:
            items.setdefault(label, set()).add(row)
        for word in words_of(" ".join([text, *labels])):
            with_word.setdefault(word, set()).add(row)
    names = {label: label.replace("_", " ").replace("+", "").lower() for label in items}
    common = sorted(label for label, ids in items.items() if 8 <= len(ids) <= len(asked_of) / 2)
    one = [Question(names[label], frozenset(items[label])) for label in rng.permutation(common)]
    pairs = [(str(a), str(b)) for a, b in rng.permutation([*itertools.permutations(common, 2)])]
    both = [(a, b, items[a] & items[b]) for a, b in pairs]
    typed = [Question(text, right) for name, right in 4 * one if (text := with_typing_error(name, rng)) is not None]
    yield "one label", one
    yield "one label, a typing error", typed
    yield "one label, other number", [Question(inflected(name), right) for name, right in one]
    yield "two labels", [Question(f"{names[a]} {names[b]}", frozenset(ids)) for a, b, ids in both if len(ids) >= 3]
    yield (
        "two labels that no item has",
        [Question(f"{names[a]} {names[b]}", frozenset()) for a, b, ids in both if not ids],
    )
    yield (
        "one label, not another",
        [
            Question(f"{names[a]} {word} {names[b]}", frozenset(items[a] - items[b]))
            for (a, b, ids), word in zip(both, itertools.cycle(["not", "without", "except"]), strict=False)
            if len(ids) >= 3 and len(items[a] - items[b]) >= SHOWN
        ],
    )
    synonyms = [
        Question(other, frozenset(items[label]))
        for label in rng.permutation(common)
        for synset, _ in wordnet.senses(singular(names[label]))[:1]
        for other in wordnet.lemmas[synset]
        if other.isalpha() and singular(other) not in with_word
    ]
    yield "synonym of a label, from WordNet", synonyms
    asked = [(word, right.split("|") if right else []) for word, right in written(name)]
    asked = [(word, right) for word, right in asked if len(with_word.get(singular(word), ())) < 3]
    every = {label.lower(): ids for label, ids in items.items()}
    by_hand = {
        word: frozenset().union(*(every.get(term, set()) | with_word.get(singular(term), set()) for term in right))
        for word, right in asked
    }
    yield "synonym, by hand", [Question(word, by_hand[word]) for word, right in asked if right]
    off_topic = [Question(word, frozenset()) for word, right in asked if not right and singular(word) not in with_word]
    yield "off-topic word, by hand", off_topic
    yield "nonsense and other languages", [Question(word, frozenset()) for word in _NONSENSE.split()]


def words_of(text: str) -> set[str]:
    """Return the words of a text, in the singular."""
    return {singular(word) for word in re.findall(r"[^\W\d_]+", text.lower())}


def written(name: str) -> list[tuple[str, str]]:
    """Return the words written by hand for a collection, each with its right words and labels, separated by bars."""
    with Path(__file__).with_name("similar_words.csv").open(encoding="utf-8", newline="") as file:
        return [(row["word"], row["right"]) for row in csv.DictReader(file) if row["collection"] == name]


def named_iapr(data: Path) -> Items:
    """Return every fourth photograph of IAPR TC-12 with the names of its labels."""
    items, names = iapr(data), read_arrays(data / "iapr_tc12.npz")["label_names"]
    labels = [[str(names[int(label[1:])]) for label in given] for given in items.labels or []]
    return Items.of(items.modalities, labels, items.ids)


def read(name: str, work: Path, data: Path) -> Items:
    """Return the items of a data set."""
    readers = {"icons": lambda: icons(work), "photographs": lambda: photographs(data, work)}
    return readers.get(name, lambda: named_iapr(data))()


def built(name: str, work: Path, items: Items) -> Collection:
    """Return the collection of a data set; build it on first use."""
    folder = work / f"questions-{name.replace(' ', '-')}"
    if not (folder / "similar.txt").exists():
        with Collection.build(folder, items, Encoder.for_items(items)).collection as collection:
            collection.prepare_meaning()
    return Collection.open(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dlfh-questions")
    parser.add_argument("--sets", nargs="+", default=["icons", "photographs", "IAPR TC-12"])
    parser.add_argument("--save", type=Path, help="file to write the questions to, without asking them")
    parser.add_argument("--before", type=Path, help="file with the results of benchmarks/questions_before.py")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.work.mkdir(parents=True, exist_ok=True)
    wordnet, data = WordNet(find_wordnet()), Path(os.environ.get("DLFH_DATA", "."))
    sets = {name: read(name, arguments.work, data) for name in arguments.sets}
    every = {
        name: {kind: asked[:_MAX_QUESTIONS] for kind, asked in questions(name, items, wordnet) if asked}
        for name, items in sets.items()
    }
    if arguments.save:
        plain = {
            name: {kind: [[text, sorted(right)] for text, right in asked] for kind, asked in kinds.items()}
            for name, kinds in every.items()
        }
        arguments.save.write_text(json.dumps(plain))
        return
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    columns = "first five right | first right answer, mean 1/rank | median probability of the first | above 0.9"
    rows = [f"| data | question | questions | {columns} | nothing found | said that no item has both |"]
    rows.append("|---|---|---|---|---|---|---|---|---|")
    for name, kinds in every.items():
        with built(name, arguments.work, sets[name]) as collection:
            for kind, asked in kinds.items():
                stages = [before[name][kind]] if before else []
                stages += [measured(collection, asked, literal=literal) for literal in (True, False)]
                found = [" → ".join(each) if len({*each}) > 1 else each[0] for each in zip(*stages, strict=True)]
                rows.append(" | ".join([f"| {name}", kind, str(len(asked)), *found]) + " |")
                print(rows[-1], flush=True)
    if arguments.write:
        fill(arguments.write, {"questions": "\n".join(rows)})


def measured(collection: Collection, asked: list[Question], *, literal: bool) -> list[str]:
    """Return the cells of a row."""
    found = [collection.search("text", question.text, LOOKED_AT, literal=literal) for question in asked]
    told = np.mean(["No item has the labels" in " ".join(result.notes) for result in found])
    results = [[(item.id, item.probability or 0.0) for item in result] for result in found]
    return [*cells([question.right for question in asked], results), f"{told:.2f}"]


if __name__ == "__main__":
    main()
