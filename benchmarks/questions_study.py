"""Questions made by rules: how often the first answers are right, and how sure the search is.

    python -m benchmarks.questions_study icons=FOLDER photographs=FOLDER --write docs/answers.md

Each folder is a collection. Questions are names of labels and pairs of labels, with typing errors, in singular and
plural, with negation, and words that have nothing to do with the collection. They are drawn with a fixed seed, before
any is asked.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import fill
from dlfh import Collection

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


def questions(collection: Collection) -> Iterator[tuple[str, list[Question]]]:
    """Yield kinds of questions, and the questions."""
    rng = np.random.default_rng(0)
    items: dict[str, set[str]] = {}
    for item in collection:
        for label in (item.metadata or {}).get("labels") or []:
            items.setdefault(label, set()).add(item.id)
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
    yield "nonsense and other languages", [Question(word, frozenset()) for word in _NONSENSE.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--write", type=Path, help="document to write the table to")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = ["| data | question | questions | first five right | first right answer, mean 1/rank | median probability "]
    rows[0] += "of the first | above 0.9 | nothing found |"
    rows.append("|---|---|---|---|---|---|---|---|")
    for pair in arguments.collections:
        name, _, folder = pair.partition("=")
        with Collection.open(folder) as collection:
            for kind, asked in questions(collection):
                some = asked[:_MAX_QUESTIONS]
                found = [collection.search("text", question.text, _LOOKED_AT) for question in some]
                hits = [
                    [item.id in question.right for item in result] for question, result in zip(some, found, strict=True)
                ]
                right = [np.mean(each[:_SHOWN]) if each else 0.0 for each in hits]
                ranks = [1 / (each.index(True) + 1) if True in each else 0.0 for each in hits]
                best = np.array([result[0].probability or 0.0 if len(result) else 0.0 for result in found])
                possible = any(question.right for question in some)
                shown = [f"{np.mean(values):.3f}" if possible else "–" for values in (right, ranks)]
                rows.append(
                    f"| {name} | {kind} | {len(some)} | {shown[0]} | {shown[1]} | {np.median(best):.3f} | "
                    f"{np.mean(best > 0.9):.2f} | {np.mean([len(result) == 0 for result in found]):.2f} |"
                )
                print(rows[-1], flush=True)
    if arguments.write:
        fill(arguments.write, {"questions": "\n".join(rows)})


if __name__ == "__main__":
    main()
