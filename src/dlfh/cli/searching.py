"""`dlfh search`: ask a collection with a text, an image, a vector, or an item of its own, once or at a prompt."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._lazy import postpone_numpy_submodules
from dlfh._terminal import plain
from dlfh.cli.options import AsJson, Overwrite, parse_filters, parse_pairs
from dlfh.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dlfh.collection import Collection, SearchResult

__all__ = ["Asking", "search"]

#: How much of a text or of other metadata a table shows.
_WIDTH = 60


@dataclass
class Asking:
    """How questions are asked, and what becomes of their answers.

    Attributes
    ----------
    k : int
    how : dict
        Further options of `Collection.search`; an item of the collection takes those of `Collection.similar`.
    picture : path or None
        Where answers are drawn.
    overwrite : bool
        Whether a picture that is there is replaced; one that is drawn here is, by that of the next answer.
    as_json : bool
    """

    k: int
    how: dict[str, Any] = field(default_factory=dict)
    picture: Path | None = None
    overwrite: bool = False
    as_json: bool = False

    def ask(self, collection: Collection, modality: str | None, value: Any) -> SearchResult:
        """Ask with a value of a modality, or, without one, with an item by its id."""
        if modality is not None:
            return collection.search(modality, _value(collection, modality, value), self.k, **self.how)
        from dlfh.errors import InputError

        for name, allowed in (("ranking", "hamming"), ("match", "codes"), ("min_probability", None)):
            asked = self.how.get(name)
            if asked not in (None, allowed):
                raise InputError(f"an item of the collection cannot ask by {name} {asked!r}: only its codes are kept")
        own = ("modalities", "hashed_only", "radius", "ids", "where")
        return collection.similar(value, self.k, **{name: self.how[name] for name in own if name in self.how})

    def answer(self, collection: Collection, modality: str | None, value: Any) -> None:
        """Ask, and show what is found."""
        found = self.ask(collection, modality, value)
        missing = 0
        if self.picture is not None:
            missing = _draw(collection, found, modality, value, self.picture, self.overwrite)
            self.overwrite = True
        if self.as_json:
            print_json(found.to_dicts())
            return
        _print_found(collection, found)
        if self.picture is not None:
            _say_where(self.picture, missing)


def search(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    text: Annotated[str | None, typer.Option(help="Ask with a text.", show_default=False)] = None,
    image: Annotated[Path | None, typer.Option(help="Ask with an image file.", show_default=False)] = None,
    id: Annotated[
        str | None, typer.Option(help="Ask for items like one of the collection.", show_default=False)
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option(
            help="Ask in a modality of another name: NAME=VALUE; or with a vector: NAME=FILE or NAME=FILE:VARIABLE.",
            show_default=False,
        ),
    ] = None,
    modalities: Annotated[
        str | None,
        typer.Option(
            "--modalities", help="Modality to search, or all. Default: what measured best.", show_default=False
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(help="codes, words, or both. Default: what measured best.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items to find.")] = 10,
    radius: Annotated[
        int | None, typer.Option(help="Find all items within so many bits instead.", show_default=False)
    ] = None,
    ranking: Annotated[
        str | None,
        typer.Option(help="asymmetric (default), specific, or hamming.", show_default=False),
    ] = None,
    hashed_only: Annotated[
        bool, typer.Option("--hashed-only", help="Find every item by its hashed code, labelled or not.")
    ] = False,
    min_probability: Annotated[
        float | None, typer.Option(help="Find items at least so probable to be right.", show_default=False)
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(help="Restrict the search to items with these ids; repeat for several.", show_default=False),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Find items with these labels and columns: NAME=VALUE, 'price<20', or a filter as JSON; repeated.",
            show_default=False,
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the images found into this file (.png, .jpg), and a page beside it (.html).", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Find items by a text, an image, a vector, or an item of the collection.

    Without a question the collection stays open and takes one a line: at a prompt, or from what is piped in.

    [b]Examples[/b]

    $ dlfh search shop/ --text "red running shoes"

    $ dlfh search shop/ --image photo.jpg --modalities text -k 5 --json

    $ dlfh search shop/ --text shoes --ranking specific

    $ dlfh search shop/ --text shoes --where brand=Acme --where 'price<20'

    $ dlfh search shop/ --id sku-17 --picture similar.png

    $ dlfh search shop/     [dim](asks for questions until Ctrl-D)[/dim]
    """
    if "numpy" not in sys.modules:
        # One question gives BLAS threads nothing to do but to start and to wait.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        postpone_numpy_submodules()
    from dlfh._persistence.outputs import check_not_read, check_outputs
    from dlfh.cli.models import open_collection
    from dlfh.errors import InputError

    asked = parse_pairs([ask] if ask else None, "--ask")
    given: list[tuple[str | None, Any]] = [("text", text), ("image", image), (None, id), *asked.items()]
    questions = [(modality, value) for modality, value in given if value is not None]
    if len(questions) > 1:
        raise InputError(f"ask one question, with --text, --image, --id or --ask; got {len(questions)}")
    outputs = _outputs(picture)
    check_outputs(outputs, [collection, image], overwrite=overwrite)
    how: dict[str, Any] = {"modalities": modalities, "match": match, "ranking": ranking, "hashed_only": hashed_only}
    how |= {"min_probability": min_probability, "radius": radius, "ids": ids, "where": parse_filters(where)}
    asking = Asking(k, how, picture, overwrite, as_json)
    with open_collection(collection) as opened:
        if text is not None:
            questions = [(_text_modality(opened), text)]
        for output in outputs:
            if output.exists():
                check_not_read(output, _image_files(opened))
        if questions:
            asking.answer(opened, *questions[0])
        else:
            from dlfh.cli.prompting import stay_open

            stay_open(opened, asking)


def _text_modality(collection: Collection) -> str:
    """Return the modality that a text asks in: that of this name, or the first that takes texts."""
    featurizers = collection.encoder.featurizers_
    texts = [name for name, featurizer in featurizers.items() if featurizer.takes == "texts"]
    return texts[0] if texts and "text" not in featurizers else "text"


def _outputs(picture: Path | None) -> list[Path]:
    if picture is None:
        return []
    from dlfh.collection.answers import page_beside

    return [picture, page_beside(picture)]


def _value(collection: Collection, modality: str, value: Any) -> Any:
    """Return what asks: a text or the path of an image as it was written, or the vector that a file holds."""
    if collection.encoder.featurizer(modality).takes != "vectors":
        return value
    from dlfh.datasets.reading import find_array
    from dlfh.errors import InputError

    vectors = find_array({}, str(value))
    if vectors.ndim == 2 and vectors.shape[0] == 1:
        return vectors[0] if not hasattr(vectors, "toarray") else vectors.toarray()[0]
    if vectors.ndim != 1:
        raise InputError(f"{value} holds an array of shape {vectors.shape}, and one vector asks: one row")
    return vectors


def _print_found(collection: Collection, found: SearchResult) -> None:
    if not found:
        typer.echo("nothing found")
        return
    images = collection.encoder.image_modalities()
    texts = [name for name in collection.encoder.modalities_ if name not in images]
    print_table(
        "",
        ("", "id", "probable", "equals", "bits apart", "code", "what it is"),
        [
            (
                item.rank,
                item.id,
                item.chance,
                item.n_equal,
                item.hamming_distance,
                "learned" if item.learned else "hashed",
                _item_line(item.metadata, texts),
            )
            for item in found
        ],
        whole=("id",),
    )


def _item_line(metadata: dict[str, Any], modalities: Sequence[str]) -> str:
    """Return what is known of an item in a line: its texts first, then its labels."""
    texts = [str(metadata[name]) for name in modalities if name in metadata]
    labels = metadata.get("labels")
    line = " | ".join([*texts, *([", ".join(map(str, labels))] if isinstance(labels, list) else [])])
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _image_files(collection: Collection) -> Iterator[Path]:
    """Yield the image files of all items."""
    for item in collection:
        yield from collection.image_paths(item.metadata or {})


def _draw(
    collection: Collection, found: SearchResult, modality: str | None, value: Any, picture: Path, overwrite: bool
) -> int:
    """Draw what was asked with and the items found; return how many images are missing."""
    from dlfh.collection.answers import Question, write_answers

    image = None
    if modality is None:
        image = collection.image_path(collection.get(value).metadata or {})
    elif modality in collection.encoder.image_modalities():
        image = Path(value)
    question = Question(f"{modality or 'like'}: {value}", image)
    return write_answers(collection, found, question, picture, overwrite=overwrite)


def _say_where(picture: Path, missing: int) -> None:
    from dlfh.collection.answers import page_beside

    typer.echo(plain(f"{picture} and {page_beside(picture)}: the images found"), nl=not missing)
    if missing:
        typer.echo(
            f", {missing} of them missing: images are found by their paths from the collection, where it is now or "
            "where it was made, so move them along with it"
        )
