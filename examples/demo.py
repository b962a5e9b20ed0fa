"""From a folder of pictures and a table of words to answers: the free Font Awesome icons, searched by text and image.

The icons come with the installation (package fontawesomefree, CC BY 4.0). They are written to a folder as a user would
have them, and everything else is what `dlfh build`, `dlfh search` and `dlfh evaluate` do.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.table import Table

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.pictures import contact_sheet
from dlfh.datasets import load_dataset, read_items
from dlfh.features import BagOfWords, CombinedImage, Gist
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.methods import CCAITQ

PICTURE = "bus"
QUESTIONS = ["football", "weather forecast", "money", "music", "chess game", "left arrow"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for what it makes")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th icon only, to be quick")
    arguments = parser.parse_args()
    output = arguments.output
    mark = output / ".dlfh-demo"
    if mark.exists():  # what an earlier demo made, and nothing of anybody else's
        shutil.rmtree(output)
    elif output.exists() and any(output.iterdir()):
        parser.error(f"{output} is not empty, and no earlier demo made it: choose another folder with --output")
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
        f"the others, most of them brands, are searchable too\n"
    )

    # Chosen on validation icons: docs/icons.md.
    functions = {"image": KernelRidge(n_bases=2000), "text": LinearRidge(ridge=0.3)}
    features = {"image": CombinedImage(verbose=True), "text": BagOfWords(analyzer="word+char", min_df=2)}
    encoder = Encoder(features, DLFH(n_bits=128, hash_function=functions, random_state=0, verbose=True))
    built = Collection.build(output / "collection", items, encoder, hold_out=n_held_out)
    seconds = encoder.model_.fit_seconds_
    console.print(f"\nlearned 128-bit codes in {seconds:.2f} s: 16 bytes an icon and modality")

    # The classic that needs no labels, on the same split.
    classic = Encoder({"image": Gist(), "text": BagOfWords(min_df=2)}, CCAITQ(n_bits=128, random_state=0))
    baseline = Collection.build(output / "classic", items, classic, hold_out=n_held_out)
    baseline.collection.close()
    measured = Table(
        title=f"MAP over {n_held_out} unseen icons asking for {built.evaluation.quality[0].n_items:,}\n"
        "that have the codes of functions which did not see them"
    )
    for column in ("query → database", "chance", "TF-IDF + CCA-ITQ", "dlfh", "dlfh, asymmetric"):
        measured.add_column(column)
    for ours, theirs in zip(built.evaluation.quality, baseline.evaluation.quality, strict=True):
        numbers = (ours.chance, theirs.hamming, ours.hamming, ours.asymmetric)
        measured.add_row(f"{ours.query} → {ours.database}", *(f"{number:.3f}" for number in numbers))
    console.print(measured)

    with built.collection as collection:
        console.print("\nWords that ask for pictures:")
        tiles, captions = [], []
        answers = collection.search("text", QUESTIONS, k=8)
        for question, found in zip(QUESTIONS, answers, strict=True):
            tiles += [Image.new("L", (1, 1), 255), *(collection.image_path(item.metadata) for item in found)]
            captions += [f"{question}:", *found.ids]
            console.print(f"  [b]{question}[/b] → {', '.join(found.ids)}")
        contact_sheet(tiles, captions, columns=9).save(output / "answers.png")
        picture = output / "icons" / f"{PICTURE if PICTURE in items.ids else items.ids[0]}.png"
        console.print(f"\nA picture that asks for words: [b]{picture.stem}[/b] →")
        for item in collection.search("image", picture, k=4):
            console.print(f"  {item.metadata['text']}", highlight=False)
    serving = "make serve" if output == Path("demo-output") else f".venv/bin/dlfh serve {output / 'collection'}"
    console.print(
        f"\nThe pictures found are in {output / 'answers.png'}. All of it took {time.perf_counter() - began:.0f} s.\n"
        f"Go on with your own words:      .venv/bin/dlfh search {output / 'collection'} ... -o x.png\n"
        "and with your own pictures:     .venv/bin/dlfh build --help\n"
        "README.md and docs/search.md say more.\n"
        f"Search these in a browser:      {serving}",
        highlight=False,
    )


if __name__ == "__main__":
    main()
