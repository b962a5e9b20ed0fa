"""Understanding of words in questions: similar meaning, typing errors and negation; no items are ranked.

    DLFH_DATA=/path/to/folder python -m benchmarks.words_study --write docs/answers.md

Similar meaning: benchmarks/similar_words.csv, written by hand before any word was looked up: words that ask for
something in the collection, with the words and labels that are right, and off-topic words. The weights and the
threshold were chosen on every other word, the first included; the others are reported, also at the threshold that
rejects 90 % of these off-topic words. Words that occur in three texts or more are omitted, and so are off-topic words
that occur at all.

Typing errors: one wrong, missing, additional or swapped letter in words of the collection of five letters or more,
three seeds, 500 words each. Valid words are drawn from WordNet; none occurs in the collection.

Negation: benchmarks/negations.csv, written from a description of the task, before the parser was seen.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.answers_data import icons, photographs
from benchmarks.questions_study import with_typing_error, words_of, written
from benchmarks.report import fill
from dlfh.collection.meaning import WordNet, find_wordnet, scored_words, wordllama_embedding
from dlfh.collection.understanding import LabelNames, QueryReader, dictionary, singular
from dlfh.collection.words import tokens
from dlfh.datasets import Items

_PHRASES = ("no smoking", "do not enter", "not found", "why not smile")  # assumed to be in captions
_N_WORDS, _N_VALID, _VOCABULARY = 500, 2000, 20_000


def similar_rows(name: str, items: Items, wordnet: WordNet) -> Iterator[str]:
    """Yield the rows of a collection: the half on which settings were chosen, and the other half."""
    texts, labels = items.modalities["text"], [label for given in items.labels or [] for label in given]
    began = time.process_time()
    scored = {
        word: (target, excess) for word, target, excess in scored_words(texts, labels, wordnet, wordllama_embedding())
    }
    seconds = time.process_time() - began
    n_similar = sum(excess >= 0 for _, excess in scored.values())
    n_texts = Counter(word for text in texts for word in words_of(text))
    asked = [(word, right.split("|") if right else []) for word, right in written(name)]
    common = {word for word, n in n_texts.items() if n >= 3}
    topical = [(word, right) for word, right in asked if right and singular(word) not in common]
    off_topic = [word for word, right in asked if not right and singular(word) not in n_texts]
    for half, about in enumerate(("chosen on", "held out")):
        none = "", -np.inf
        found = [(*(scored.get(word) or scored.get(singular(word), none)), right) for word, right in topical[half::2]]
        others = np.array([(scored.get(word) or scored.get(singular(word), none))[1] for word in off_topic[half::2]])
        right = np.array([bool(words_of(word) & words_of(" ".join(accepted))) for word, _, accepted in found])
        excess = np.array([each for _, each, _ in found])
        stricter = np.quantile(others, 0.9, method="higher")
        shares = np.mean(right & (excess >= 0)), np.mean(right[excess >= 0])
        strict = np.mean(others < 0), np.mean(right & (excess > stricter))
        cells = [name, about, f"{len(found)}", *(f"{share:.2f}" for share in shares), f"{len(others)}"]
        yield " | ".join(
            [f"| {cells[0]}", *cells[1:], *(f"{share:.2f}" for share in strict), f"{n_similar:,}", f"{seconds:.0f} s |"]
        )


def typing_rows(name: str, items: Items, wordnet: WordNet) -> Iterator[str]:
    """Yield the row of a collection."""
    words = {word for text in items.modalities["text"] for word in tokens(text)}
    labels = LabelNames(sorted({label for given in items.labels or [] for label in given}), {})
    reader = QueryReader(frozenset(words | labels.words), lambda _: False, labels.name_length)
    singulars = {singular(word) for word in reader.words}
    long = sorted(word for word in reader.words if len(word) >= 5 and word.isalpha() and word.isascii())
    lemmas = sorted({lemma for names in wordnet.lemmas.values() for lemma in names if len(lemma) >= 4})
    valid_words = [lemma for lemma in lemmas if lemma.isalpha() and singular(lemma) not in singulars]
    right, corrected, n, changed, n_valid = 0, 0, 0, 0, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for word in rng.permutation(long)[:_N_WORDS].tolist():
            typed = with_typing_error(word, rng)
            if typed is None or typed in reader.words or singular(typed) in singulars:
                continue
            meant = reader.read(typed).corrected.get(typed)
            n, corrected = n + 1, corrected + (meant is not None)
            right += meant is not None and singular(meant) == singular(word)
        for word in rng.permutation(valid_words)[:_N_VALID].tolist():
            n_valid, changed = n_valid + 1, changed + bool(reader.read(word).corrected)
    yield (
        f"| {name} | {len(reader.words):,} | {n:,} | {right / n:.3f} | {right / corrected:.3f} | {n_valid:,} | "
        f"{changed / n_valid:.3f} |"
    )


def negation_row() -> str:
    """Return the row for questions with and without negation."""
    with Path(__file__).with_name("negations.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["question"], {*row["excluded"].split("|")} - {""}) for row in csv.DictReader(file)]
    words = frozenset(word for question, _ in rows for word in tokens(question))

    def is_known(phrase: str) -> bool:
        return any(f" {phrase} " in f" {known} " for known in _PHRASES)

    reader = QueryReader(words, is_known, lambda _: 0)
    found = [({word for term in reader.read(text).excluded for word in term.split()}, right) for text, right in rows]
    common, n_found, n_right = (sum(map(len, each)) for each in zip(*((a & b, a, b) for a, b in found), strict=True))
    plain = [bool(excluded) for excluded, right in found if not right]
    return (
        f"| {len(rows) - len(plain)} | {common / n_found:.2f} | {common / n_right:.2f} | {sum(plain)} of {len(plain)} |"
    )


def cost_row() -> str:
    """Return the row with the processor time to read a question, with and without a typing error."""
    rng = np.random.default_rng(0)
    words = [str(word) for word in rng.permutation(sorted(dictionary()))[:_VOCABULARY]]
    reader = QueryReader(frozenset(words), lambda _: False, lambda _: 0)
    typed = [text for word in words[:400] if (text := with_typing_error(word, rng)) is not None]
    cells = []
    for questions in (
        [f"red {word} without laces" for word in words[:400]],
        [f"red {word} without laces" for word in typed],
    ):
        reader.read(questions[0])
        times = []
        for question in questions:
            began = time.process_time()
            reader.read(question)
            times.append(time.process_time() - began)
        cells += [f"{1000 * np.median(times):.2f} ms", f"{1000 * np.quantile(times, 0.99):.2f} ms"]
    return f"| {_VOCABULARY:,} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dlfh-questions")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    sets = {
        "icons": icons(arguments.work),
        "photographs": photographs(Path(os.environ.get("DLFH_DATA", ".")), arguments.work),
    }
    wordnet = WordNet(find_wordnet())
    tables = {
        "similar": [
            "| data | words | asked | right | right, of those replaced | off-topic | rejected | right at 90 % rejected "
            "| words in the file | time |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *(row for name, items in sets.items() for row in similar_rows(name, items, wordnet)),
        ],
        "typing": [
            "| data | vocabulary | typing errors | corrected | right, of those corrected | valid words | changed |",
            "|---|---|---|---|---|---|---|",
            *(row for name, items in sets.items() for row in typing_rows(name, items, wordnet)),
        ],
        "negation": ["| negated | precision | recall | false alarms |", "|---|---|---|---|", negation_row()],
        "reading": [
            "| vocabulary | known words: median | 99 % | a typing error: median | 99 % |",
            "|---|---|---|---|---|",
            cost_row(),
        ],
    }
    for rows in tables.values():
        print("\n".join(rows), flush=True)
    if arguments.write:
        fill(arguments.write, {name: "\n".join(rows) for name, rows in tables.items()})


if __name__ == "__main__":
    main()
