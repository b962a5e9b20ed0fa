"""Accuracy and confidence of the first answers to questions, made by rules or written by hand.

    DLFH_DATA=/path/to/folder python -m benchmarks.questions_study --write docs/answers.md

Collections of all icons, photographs and every fourth photograph of IAPR TC-12 are built with default options and
prepared by `dlfh meaning`. Questions are names of labels and pairs of labels, with typing errors, in singular and
plural, and with negation; their synonyms in WordNet that do not occur in the collection; off-topic words; and the words
in benchmarks/similar_words.csv. All were drawn with a fixed seed, or written by hand, before any was asked. Each is
asked literally (`literal`), and as understood by default.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.answers_data import iapr, icons, photographs
from benchmarks.report import fill
from dlfh import Collection, Encoder
from dlfh.collection.meaning import WordNet, find_wordnet
from dlfh.collection.understanding import singular
from dlfh.datasets import Items, read_arrays

#: Questions of a kind, and answers that are looked at.
_MAX_QUESTIONS, _SHOWN, _LOOKED_AT = 100, 5, 100
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


def questions(name: str, collection: Collection, wordnet: WordNet) -> Iterator[tuple[str, list[Question]]]:
    """Yield kinds of questions, and the questions."""
    rng = np.random.default_rng(0)
    items: dict[str, set[str]] = {}
    with_word: dict[str, set[str]] = {}
    for item in collection:
        card = item.metadata or {}
        for label in card.get("labels") or []:
            items.setdefault(label, set()).add(item.id)
        for word in words_of(" ".join([str(card.get("text", "")), *(card.get("labels") or [])])):
            with_word.setdefault(word, set()).add(item.id)
    names = {label: label.replace("_", " ").replace("+", "").lower() for label in items}
    common = sorted(label for label, ids in items.items() if 8 <= len(ids) <= len(collection) / 2)
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
            if len(ids) >= 3 and len(items[a] - items[b]) >= _SHOWN
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


def built(name: str, work: Path, data: Path) -> Collection:
    """Return the collection of a data set; build it on first use."""
    readers = {"icons": lambda: icons(work), "photographs": lambda: photographs(data, work)}
    folder = work / f"questions-{name.replace(' ', '-')}"
    if not (folder / "similar.txt").exists():
        items = readers.get(name, lambda: named_iapr(data))()
        with Collection.build(folder, items, Encoder.for_items(items)).collection as collection:
            collection.prepare_meaning()
    return Collection.open(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dlfh-questions")
    parser.add_argument("--sets", nargs="+", default=["icons", "photographs", "IAPR TC-12"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.work.mkdir(parents=True, exist_ok=True)
    wordnet = WordNet(find_wordnet())
    rows = ["| data | question | questions | first five right | first right answer, mean 1/rank | median probability "]
    rows[0] += "of the first | above 0.9 | nothing found |"
    rows.append("|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        with built(name, arguments.work, Path(os.environ.get("DLFH_DATA", "."))) as collection:
            for kind, asked in questions(name, collection, wordnet):
                some = asked[:_MAX_QUESTIONS]
                if not some:
                    continue
                both = zip(*(measured(collection, some, literal=literal) for literal in (True, False)), strict=True)
                cells = [before if before == after else f"{before} → {after}" for before, after in both]
                rows.append(" | ".join([f"| {name}", kind, str(len(some)), *cells]) + " |")
                print(rows[-1], flush=True)
    if arguments.write:
        fill(arguments.write, {"questions": "\n".join(rows)})


def measured(collection: Collection, asked: list[Question], *, literal: bool) -> list[str]:
    """Return the cells of a row."""
    found = [collection.search("text", question.text, _LOOKED_AT, literal=literal) for question in asked]
    hits = [[item.id in question.right for item in result] for question, result in zip(asked, found, strict=True)]
    right = [float(np.mean(each[:_SHOWN])) if each else 0.0 for each in hits]
    ranks = [1 / (each.index(True) + 1) if True in each else 0.0 for each in hits]
    best = np.array([result[0].probability or 0.0 if len(result) else 0.0 for result in found])
    possible = any(question.right for question in asked)
    cells = [f"{np.mean(values):.3f}" if possible else "–" for values in (right, ranks)]
    nothing = np.mean([len(result) == 0 for result in found])
    return [*cells, f"{np.median(best):.3f}", f"{np.mean(best > 0.9):.2f}", f"{nothing:.2f}"]


if __name__ == "__main__":
    main()
