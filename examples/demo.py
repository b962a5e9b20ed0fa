"""Learn from the free Font Awesome icons, search them with words and pictures, and measure the result.

The icons come with the installation (package fontawesomefree, CC BY 4.0). The demo writes them to a folder, as your own
images and captions would be, and then does what `dlfh build`, `dlfh search` and `dlfh evaluate` do.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dlfh import DLFH, Collection, Encoder
from dlfh.cli import main as dlfh
from dlfh.datasets import load_dataset, read_items
from dlfh.features import BagOfWords, CombinedImage, Gist
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.methods import CCAITQ

PICTURE = "bus"
QUESTIONS = ["football", "weather forecast", "money", "music", "chess game", "left arrow"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="output folder")
    parser.add_argument("--every", type=int, default=1, help="use every n-th icon only")
    arguments = parser.parse_args()
    output = arguments.output
    mark = output / ".dlfh-demo"
    if mark.exists():  # written by an earlier demo
        shutil.rmtree(output)
    elif output.exists() and any(output.iterdir()):
        parser.error(
            f"{output} is not empty and was not written by an earlier demo: choose another folder with --output"
        )
    output.mkdir(parents=True, exist_ok=True)
    mark.touch()
    console, began = Console(), time.perf_counter()
    console.rule("dlfh: cross-modal search")

    icons = load_dataset("icons", verbose=True)
    icons = icons.take(range(0, len(icons), arguments.every))
    table = icons.write(output / "icons")
    items = read_items(table, id="name", image="file", text="words", labels="categories")
    n_labelled = int(items.labelled().sum())
    n_held_out = n_labelled // 5
    console.print(
        f"{len(items):,} icons in {output / 'icons'}: {n_labelled:,} have categories to learn from; "
        f"the others, mostly brands, are only searched\n"
    )

    # Every icon is a base, and the penalty for texts is high: chosen on validation icons.
    functions = {"image": KernelRidge(n_bases=2000), "text": LinearRidge(ridge=0.3)}
    features = {"image": CombinedImage(verbose=True), "text": BagOfWords(analyzer="word+char", min_df=2)}
    encoder = Encoder(features, DLFH(n_bits=128, hash_function=functions, random_state=0, verbose=True))
    built = Collection.build(output / "collection", items, encoder, hold_out=n_held_out)
    seconds = encoder.model_.fit_seconds_
    console.print(f"\nlearned 128-bit codes in {seconds:.2f} s: 16 bytes per icon and modality")

    # A classic method that needs no labels, on the same split.
    classic = Encoder({"image": Gist(), "text": BagOfWords(min_df=2)}, CCAITQ(n_bits=128, random_state=0))
    baseline = Collection.build(output / "classic", items, classic, hold_out=n_held_out)
    baseline.collection.close()
    measured = Table(
        title=f"MAP of {n_held_out} unseen queries over {built.evaluation.quality[0].n_items:,} icons\n"
        "with leave-one-out hashed codes"
    )
    for column in ("query → database", "chance", "TF-IDF + CCA-ITQ", "dlfh", "dlfh, asymmetric"):
        measured.add_column(column)
    for ours, theirs in zip(built.evaluation.quality, baseline.evaluation.quality, strict=True):
        numbers = (ours.chance, theirs.hamming, ours.hamming, ours.asymmetric)
        measured.add_row(f"{ours.query} → {ours.database}", *(f"{number:.3f}" for number in numbers))
    console.print(measured)

    with built.collection as collection:
        console.print("\nTexts that find pictures:")
        for question, result in zip(QUESTIONS, collection.search("text", QUESTIONS, k=8), strict=True):
            console.print(f"  [b]{question}[/b] → {', '.join(result.ids)}")
        picture = output / "icons" / f"{PICTURE if PICTURE in items.ids else items.ids[0]}.png"
        console.print(f"\nA picture that finds texts: [b]{picture.stem}[/b] →")
        for item in collection.search("image", picture, k=4):
            console.print(f"  {item.metadata['text']}", highlight=False)
    console.print(f"\nThe same on the command line, with a picture of the results: {QUESTIONS[1]}")
    dlfh(
        [
            "search",
            str(output / "collection"),
            *QUESTIONS[1].split(),
            "-k",
            "8",
            "--output",
            str(output / "answers.png"),
        ]
    )
    serve = f".venv/bin/dlfh serve {output / 'collection'} --pictures {output / 'icons'}"
    serving = "make serve" if output == Path("demo-output") else serve
    console.print(
        f"\nDone in {time.perf_counter() - began:.0f} s. Next:\n"
        f"  search with your own words   .venv/bin/dlfh search {output / 'collection'} WORDS\n"
        f"  search in a browser          {serving}\n"
        "  use your own pictures        .venv/bin/dlfh build --help, docs/search.md",
        highlight=False,
    )


if __name__ == "__main__":
    main()
