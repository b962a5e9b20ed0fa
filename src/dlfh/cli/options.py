"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from dlfh.collection import Encoder
    from dlfh.datasets import Items
    from dlfh.methods import CrossModalHasher

__all__ = [
    "AsJson",
    "ItemOptions",
    "ItemsAt",
    "ModelOptions",
    "Overwrite",
    "ProblemFile",
    "Quiet",
    "method_named",
    "parse_filters",
    "parse_pairs",
    "place_of",
    "shows_progress",
    "with_options",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
ProblemFile = Annotated[
    Path | None, typer.Option("--problems", help="File to write all that was left out to, one JSON object a line.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files and models that are there already; never what is read.")
]
ItemsAt = Annotated[
    str | None,
    typer.Option(
        "--items",
        help="Engine to keep the items in: postgresql://HOST/DATABASE#TABLE, duckdb:FILE#TABLE or "
        "milvus://HOST:PORT#TABLE. Default: the folder.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bars.")]

#: The length of codes with --fast.
_FAST_BITS = 64

_DATA = "What to read"
_MODEL = "What to learn"

#: A filter as people write it.
_COMPARISON = re.compile(r"([^<>=!]+)(<=|>=|!=|=|<|>)([^<>=!].*|)", re.DOTALL)


@dataclass(frozen=True)
class ItemOptions:
    """Where items come from."""

    source: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of images, a table (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .xlsx) or arrays (.npz, "
            ".npy, .mat).",
            show_default=False,
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            help="A table of items; image paths are relative to SOURCE, or to the table.", rich_help_panel=_DATA
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option(help="Column of ids. Default: the image's path, or the row.", rich_help_panel=_DATA),
    ] = None
    image: Annotated[
        list[str] | None,
        typer.Option(help="Column of image paths. For several: NAME=COLUMN, repeated.", rich_help_panel=_DATA),
    ] = None
    text: Annotated[
        list[str] | None,
        typer.Option(help="Column of texts. For several: NAME=COLUMN, repeated.", rich_help_panel=_DATA),
    ] = None
    vectors: Annotated[
        list[str] | None,
        typer.Option(
            help="Ready vectors as NAME=VARIABLE of SOURCE, NAME=FILE, NAME=FILE:VARIABLE or NAME=COLUMN; repeated.",
            rich_help_panel=_DATA,
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(help="Column or variable of labels.", rich_help_panel=_DATA),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="What stands between labels in a cell. Default: what most have of ; | , tabs", rich_help_panel=_DATA
        ),
    ] = None
    encoding: Annotated[str, typer.Option(help="How a table of text is encoded.", rich_help_panel=_DATA)] = "utf-8"

    def inputs(self) -> list[Path | None]:
        """Return the files and folders that are named here to be read."""
        values = parse_pairs(self.vectors, "--vectors").values()
        files = [part for value in values for part in (value, value.rpartition(":")[0]) if part]
        return [self.source, self.table, *map(Path, files)]

    def names_something(self) -> bool:
        """Return whether anything is said of what to read, beside where it is."""
        return any((self.table, self.id, self.image, self.text, self.vectors, self.labels, self.separator))

    def read(self, known: Sequence[str] | None = None, *, outputs: Sequence[Path | None] = ()) -> Items:
        """Read the items.

        Where modalities are a guess (the words of a folder's file names), only those that are ``known`` are kept.
        None of the ``outputs`` may be an image that the items name.
        """
        from dlfh._persistence.outputs import check_not_read
        from dlfh.datasets import read_items
        from dlfh.datasets.problem import LABEL_WORDS

        items = read_items(
            self.source,
            table=self.table,
            id=self.id,
            image=_columns(self.image, "image"),
            text=_columns(self.text, "text"),
            vectors=parse_pairs(self.vectors, "--vectors"),
            labels=self.labels,
            separator=self.separator,
            encoding=self.encoding,
        )
        if known is not None and self.table is None and self.source is not None and self.source.is_dir():
            items = _only_known(items, known)
        if known is not None and LABEL_WORDS in known:  # what was built of one modality has its labels for another
            items = items.with_label_words()
        for output in outputs:
            if output is not None and output.exists():
                files = (value for values in items.modalities.values() if isinstance(values, list) for value in values)
                check_not_read(output, (value for value in files if isinstance(value, Path)))
        return items


def _only_known(items: Items, known: Sequence[str]) -> Items:
    from dlfh.errors import InputError

    unknown = {name for name in items.modalities if name not in known}
    if unknown == {*items.modalities}:
        raise InputError(f"a folder of images gives image and text, and this model knows {', '.join(known)}")
    return replace(
        items,
        modalities={name: values for name, values in items.modalities.items() if name not in unknown},
        metadata=[{name: value for name, value in card.items() if name not in unknown} for card in items.metadata],
    )


@dataclass(frozen=True)
class ModelOptions:
    """What is to be learned from items."""

    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file that `dlfh tune` wrote; options win over it.", rich_help_panel=_MODEL),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(help="A method of `dlfh methods`.", show_default="DLFH", rich_help_panel=_MODEL),
    ] = None
    bits: Annotated[
        int | None,
        typer.Option(
            "--bits",
            "-b",
            help="Length of the codes. Default: 128, or 64 with --fast.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A parameter of the method, as NAME=VALUE (such as hash_function=kernel).",
            rich_help_panel=_MODEL,
        ),
    ] = None
    image_features: Annotated[
        str | None,
        typer.Option(
            help="gist, hog, thumbnail, combined (these three), cnn (dlfh[cnn]), clip:FOLDER; or auto: what serves "
            "best of combined, gist, thumbnail and, if it is installed, cnn, tried on some of the items.",
            show_default="auto",
            rich_help_panel=_MODEL,
        ),
    ] = None
    text_features: Annotated[
        str | None,
        typer.Option(
            help="tfidf, pieces (of words, beside words), count, binary, clip:FOLDER; or auto: tfidf or pieces.",
            show_default="auto",
            rich_help_panel=_MODEL,
        ),
    ] = None
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Try nothing: gist, tfidf, linear hash functions and 64 bits, where options say nothing else.",
            rich_help_panel=_MODEL,
        ),
    ] = False
    seed: Annotated[int, typer.Option(help="Seed of all that is random.", rich_help_panel=_MODEL)] = 0
    hold_out: Annotated[
        int | None,
        typer.Option(
            help="Keep so many labelled items out of training, to measure with. Default: a tenth, of 200 or more.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None

    def hasher(self, verbose: bool) -> CrossModalHasher:
        """Return the method, with its parameters."""
        from dlfh.cli.settings import BuildSettings
        from dlfh.collection.candidates import N_BITS
        from dlfh.errors import InputError
        from dlfh.methods.catalogue import METHODS

        said = BuildSettings.read(self.settings)
        chosen = METHODS[method_named(self.method or said.method or "DLFH")]
        if said.method is not None and chosen is not METHODS[method_named(said.method)]:
            raise InputError(
                f"{self.settings} is for {said.method} and --method is {self.method}: leave out one of them"
            )
        given = {name: _value(text) for name, text in parse_pairs(self.set, "--set").items()}
        parameters = {**said.parameters, **given}
        known = chosen.parameter_names()
        if self.fast and "hash_function" in known:
            parameters = {"hash_function": "linear", **parameters}
        for name in parameters:
            if name not in known or name in ("n_bits", "random_state", "verbose"):
                raise InputError(f"{chosen.__name__} has no parameter {name!r} to set: it has {', '.join(known)}")
        usual = said.bits or (_FAST_BITS if self.fast else N_BITS)
        common = {"n_bits": usual if self.bits is None else self.bits, "random_state": self.seed, "verbose": verbose}
        parameters |= {name: value for name, value in common.items() if name in known}
        return chosen(**parameters)

    def encoder(self, items: Items, hasher: CrossModalHasher, verbose: bool) -> Encoder:
        """Return an unfitted encoder of the method and the features that the options name."""
        from dlfh.cli.settings import BuildSettings
        from dlfh.collection import Encoder

        settings = BuildSettings.read(self.settings)
        image = self.image_features or settings.image_features or "auto"
        text = self.text_features or settings.text_features or "auto"
        if self.fast:
            image, text = image.replace("auto", "gist"), text.replace("auto", "tfidf")
        return Encoder.for_items(items, hasher, image_features=image, text_features=text, verbose=verbose)


def with_options(**groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command take groups of options: a parameter that is named here gets an object of the group.

    Typer reads a function's signature; the fields of the groups take the place of these parameters in it.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name not in groups:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
                continue
            group = groups[parameter.name]
            types = get_type_hints(group, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
                )
                for field in fields(group)
            ]
        # Arguments first, then options: a signature has its required parameters first.
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

        @functools.wraps(command)
        def run(**given: Any) -> Any:
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            if not any(issubclass(group, ItemOptions) for group in groups.values()):
                return command(**given)
            from dlfh.features import cached

            with cached():  # images that were described before are not described again
                return command(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def method_named(name: str) -> str:
    """Return a method's name in the registry, however it is written.

    Examples
    --------
    >>> method_named("cca-itq")
    'CCAITQ'
    """
    from dlfh.errors import InputError
    from dlfh.methods.catalogue import METHODS

    by_name = {known.lower(): known for known in METHODS}
    found = by_name.get(name.lower().replace("-", ""))
    if found is None:
        raise InputError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}")
    return found


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Return NAME=VALUE pairs as a dict."""
    from dlfh.errors import InputError

    found: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} takes NAME=VALUE, got {pair!r}")
        if name in found:
            raise InputError(f"{option} names {name!r} twice")
        found[name] = value
    return found


def place_of(value: str) -> tuple[Path, str | None]:
    """Return what FILE or FILE:NAME says: a file or folder, and which part of it.

    Examples
    --------
    >>> place_of("codes.parquet:image")[1]
    'image'
    """
    file, _, part = value.rpartition(":")
    return (Path(file), part) if file and not Path(value).exists() else (Path(value), None)


def parse_filters(filters: list[str] | None) -> dict[str, Any] | None:
    """Return what `--where` says as a filter: NAME=VALUE and its like, or JSON.

    Examples
    --------
    >>> parse_filters(["brand=Acme", "price<=20"])
    {'and': [{'brand': {'=': 'Acme'}}, {'price': {'<=': 20}}]}
    """
    from dlfh.errors import InputError
    from dlfh.index.where import parse_where

    parts: list[Any] = []
    for text in filters or []:
        comparison = _COMPARISON.fullmatch(text)
        if text.lstrip().startswith("{"):
            try:
                parts.append(json.loads(text))
            except (ValueError, RecursionError):
                raise InputError(f"--where takes a filter as JSON, got {text!r}") from None
        elif comparison is None:
            raise InputError(f"--where takes NAME=VALUE, or another of <, <=, >, >= and !=, got {text!r}")
        else:
            name, operator, value = comparison.groups()
            wanted = _value(value)
            operator = {"=": "in", "!=": "not in"}.get(operator, operator) if isinstance(wanted, list) else operator
            parts.append({name: {operator: wanted}})
    if not parts:
        return None
    where = {"and": parts}
    parse_where(where)  # before anything is opened: a wrong filter is soon said
    return where


def _columns(given: list[str] | None, name: str) -> dict[str, str] | None:
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return {name: given[0]}
    return parse_pairs(given, f"--{name}")


def _value(text: str) -> Any:
    """Return what was written as a number, true, false or null, or else as the string it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def shows_progress(quiet: bool, as_json: bool) -> bool:
    """Return whether somebody is there to see progress bars."""
    return not quiet and not as_json and sys.stderr.isatty()
