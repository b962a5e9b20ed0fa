"""Options that several commands share, and the objects made from them."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.collection import Encoder
    from dlfh.datasets import Items
    from dlfh.datasets.problem import Problem
    from dlfh.methods import CrossModalHasher

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CollectionFolder = Annotated[Path, typer.Argument(help="Folder of a collection.", metavar="COLLECTION")]
ItemsAt = Annotated[
    str | None,
    typer.Option(
        "--items",
        help="Database for the items: postgresql://HOST/DATABASE#TABLE, duckdb:FILE#TABLE or milvus://HOST:PORT#TABLE. "
        "Default: files in the output folder.",
    ),
]


def stored_in(address: str | None) -> str:
    """Return the part of a message that says in which database items are stored; empty if in none."""
    return "" if address is None else f", stored in {address}: name this address in DLFH_ENGINES to open them"


Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output files, but never inputs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not report progress.")]

#: Code length with --fast.
_FAST_BITS = 64

#: A filter condition such as "price<20".
_COMPARISON = re.compile(r"([^<>=!]+)(<=|>=|!=|=|<|>)([^<>=!].*|)", re.DOTALL)


def _data(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel="Input data")


def _training(help: str, *names: str, default: str | bool = True) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Training", show_default=default)


@dataclass(frozen=True)
class ItemOptions:
    """Options that select the items to read."""

    source: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of images, table (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .xlsx) or array file (.npz, "
            ".npy, .mat).",
            metavar="SOURCE",
        ),
    ] = None
    table: Annotated[Path | None, _data("Table of items; image paths are relative to SOURCE or to the table.")] = None
    id: Annotated[str | None, _data("Column with item ids. Default: image path or row number.")] = None
    image: Annotated[list[str] | None, _data("Column with image paths. For several columns, repeat NAME=COLUMN.")] = (
        None
    )
    text: Annotated[list[str] | None, _data("Column with text. For several columns, repeat NAME=COLUMN.")] = None
    vectors: Annotated[
        list[str] | None,
        _data("Vectors: NAME=VARIABLE of SOURCE, NAME=COLUMN, NAME=FILE or NAME=FILE:VARIABLE; repeatable."),
    ] = None
    labels: Annotated[str | None, _data("Column or variable with labels.")] = None
    separator: Annotated[
        str | None, _data("Separator between labels in a cell. Default: the most frequent of ; | , and tab.")
    ] = None
    encoding: Annotated[str, _data("Text encoding of the table.")] = "utf-8"
    max_skipped: Annotated[
        float, _data("Largest share of the items, or of their images, that may be skipped as unreadable or missing.")
    ] = 0.5

    def inputs(self) -> list[Path | None]:
        """Return the input files and folders."""
        values = parse_pairs(self.vectors, "--vectors").values()
        files = [part for value in values for part in (value, value.rpartition(":")[0]) if part]
        return [self.source, self.table, *map(Path, files)]

    def names_columns(self) -> bool:
        """Return whether any option besides SOURCE selects data."""
        return any((self.table, self.id, self.image, self.text, self.vectors, self.labels, self.separator))

    def read(
        self,
        known: Sequence[str] | None = None,
        *,
        outputs: Sequence[Path | None] = (),
        part: Literal["train", "queries"] | None = None,
    ) -> Items:
        """Read the items.

        known: Modalities of the model that will encode the items. The modalities guessed from a bare folder of images
            are restricted to these.
        part: The part of a split data set of vectors.
        outputs: Output files; InputError is raised if one of them is an image that the items refer to.
        """
        from dlfh._persistence.outputs import check_not_input
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
            max_skipped=self.max_skipped,
            part=part,
        )
        is_folder = self.table is None and self.source is not None and self.source.is_dir()
        if known is not None and is_folder and all(isinstance(values, list) for values in items.modalities.values()):
            items = _with_known_modalities(items, known)
        if known is not None and LABEL_WORDS in known:  # the model was trained on one modality and label words
            items = items.with_label_words()
        for output in outputs:
            if output is not None and output.exists():
                files = (value for values in items.modalities.values() if isinstance(values, list) for value in values)
                check_not_input(output, (value for value in files if isinstance(value, Path)))
        return items


def _with_known_modalities(items: Items, known: Sequence[str]) -> Items:
    unknown = {name for name in items.modalities if name not in known}
    if unknown == {*items.modalities}:
        raise InputError(
            f"a folder of images has the modalities image and text, but the model has {', '.join(known)}: "
            "name the columns of a --table"
        )
    return replace(
        items,
        modalities={name: values for name, values in items.modalities.items() if name not in unknown},
        metadata=[{name: value for name, value in card.items() if name not in unknown} for card in items.metadata],
    )


@dataclass(frozen=True)
class TrainingOptions:
    """Options for training a model."""

    settings: Annotated[
        Path | None, _training("TOML file written by `dlfh tune`. Command-line options take precedence.")
    ] = None
    method: Annotated[
        str | None, _training("Hashing method (see `dlfh methods`), or your own as module:Class.", default="DLFH")
    ] = None
    bits: Annotated[int | None, _training("Code length in bits.", "--bits", "-b", default="128, or 64 with --fast")] = (
        None
    )
    set: Annotated[
        list[str] | None,
        _training("Parameter of the method, as NAME=VALUE (for example hash_function=kernel); repeatable."),
    ] = None
    image_features: Annotated[
        str | None,
        _training(
            "gist, hog, thumbnail, combined (these three together), cnn (requires dlfh\\[cnn]) or clip:FOLDER. auto "
            "tries combined, gist, thumbnail and, if installed, cnn on a sample and keeps the best.",
            default="auto",
        ),
    ] = None
    text_features: Annotated[
        str | None,
        _training(
            "tfidf, pieces (words and parts of words), count, binary or clip:FOLDER. auto tries tfidf and pieces.",
            default="auto",
        ),
    ] = None
    fast: Annotated[
        bool,
        _training(
            "Skip all trials: use gist, tfidf, linear hash functions and 64 bits unless set otherwise.", "--fast"
        ),
    ] = False
    seed: Annotated[int, _training("Random seed.")] = 0
    hold_out: Annotated[
        int | None,
        _training(
            "Number of labelled items to hold out of training, to measure quality.",
            default="a tenth, if at least 200 are labelled",
        ),
    ] = None

    def make_hasher(self, verbose: bool) -> CrossModalHasher:
        """Return the untrained method with its parameters."""
        from dlfh.cli.settings import BuildSettings
        from dlfh.collection.choosing import N_BITS
        from dlfh.methods.catalogue import METHODS

        saved = BuildSettings.read(self.settings)
        method = METHODS[method_named(self.method or saved.method or "DLFH")]
        if saved.method is not None and method is not METHODS[method_named(saved.method)]:
            raise InputError(f"{self.settings} is for {saved.method} but --method is {self.method}: omit one of them")
        given = {name: _parse_value(text) for name, text in parse_pairs(self.set, "--set").items()}
        parameters = {**saved.parameters, **given}
        known = method.parameter_names()
        if self.fast and "hash_function" in known:
            parameters = {"hash_function": "linear", **parameters}
        for name in parameters:
            if name not in known or name in ("n_bits", "random_state", "verbose"):
                raise InputError(f"{method.__name__} has no parameter {name!r} to set; it has {', '.join(known)}")
        default_bits = saved.bits or (_FAST_BITS if self.fast else N_BITS)
        n_bits = default_bits if self.bits is None else self.bits
        common = {"n_bits": n_bits, "random_state": self.seed, "verbose": verbose}
        parameters |= {name: value for name, value in common.items() if name in known}
        return method(**parameters)

    def make_encoder(self, items: Items, hasher: CrossModalHasher, verbose: bool) -> Encoder:
        """Return an untrained encoder with the method and the selected features."""
        from dlfh.cli.settings import BuildSettings
        from dlfh.collection import Encoder

        saved = BuildSettings.read(self.settings)
        image = self.image_features or saved.image_features or "auto"
        text = self.text_features or saved.text_features or "auto"
        if self.fast:
            image, text = image.replace("auto", "gist"), text.replace("auto", "tfidf")
        return Encoder.for_items(items, hasher, image_features=image, text_features=text, verbose=verbose)


@dataclass(frozen=True)
class OutputOptions:
    """Options for reporting results, skipped input and progress."""

    problem_file: Annotated[
        Path | None, typer.Option("--problems", help="Write skipped items and values to this file, as JSON lines.")
    ] = None
    overwrite: Overwrite = False
    as_json: AsJson = False
    quiet: Quiet = False

    @property
    def verbose(self) -> bool:
        """Whether to report progress on standard error."""
        return not self.quiet and not self.as_json

    def check(self, inputs: Iterable[Path | None], *others: Path) -> None:
        """Raise InputError if the list of problems, or another output file, cannot be written."""
        from dlfh._persistence import outputs

        outputs.check_outputs([*others, self.problem_file], inputs, overwrite=self.overwrite)

    def report(self, message: str, summary: Mapping[str, Any], problems: Sequence[Problem] = ()) -> None:
        """Print the outcome of a command, and write the list of problems."""
        from dlfh.cli.output import report, write_problems

        if self.problem_file is not None:
            write_problems(problems, self.problem_file, overwrite=self.overwrite)
        report(message, summary, problems, as_json=self.as_json)


def with_options(**groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command take groups of options: each named parameter receives an instance of its group.

    Typer reads a function's signature, in which the fields of each group replace the parameter.
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
        # Keyword-only parameters may mix required and optional ones.
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

        @functools.wraps(command)
        def run(**given: Any) -> Any:
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            if not any(issubclass(group, ItemOptions) for group in groups.values()):
                return command(**given)
            from dlfh.features.cache import cached

            with cached():  # compute the features of each image once
                return command(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def changed_options(options: Any) -> list[str]:
    """Return the names of the options in a group that differ from their defaults."""
    return [field.name for field in fields(options) if getattr(options, field.name) != field.default]


def flag(name: str) -> str:
    """Return the option with a field's name, such as --hold-out."""
    return f"--{name.replace('_', '-')}"


def method_named(name: str) -> str:
    """Return the registered name of a method; case and hyphens are ignored, and "module:Class" is unchanged."""
    from dlfh.methods.catalogue import METHODS

    if ":" in name:
        return name
    by_name = {known.lower(): known for known in METHODS}
    method = by_name.get(name.lower().replace("-", ""))
    if method is None:
        raise InputError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}")
    return method


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Return NAME=VALUE pairs as a dict."""
    parsed: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} takes NAME=VALUE, got {pair!r}")
        if name in parsed:
            raise InputError(f"{option} names {name!r} twice")
        parsed[name] = value
    return parsed


def place_of(value: str) -> tuple[Path, str | None]:
    """Split FILE:NAME into the file or folder and the variable or column; NAME is optional."""
    file, _, part = value.rpartition(":")
    return (Path(file), part) if file and not Path(value).exists() else (Path(value), None)


def parse_filters(filters: list[str] | None) -> dict[str, Any] | None:
    """Parse `--where` conditions, such as NAME=VALUE or JSON, into one filter."""
    from dlfh.index.where import parse_where

    conditions: list[Any] = []
    for text in filters or []:
        comparison = _COMPARISON.fullmatch(text)
        if text.lstrip().startswith("{"):
            try:
                conditions.append(json.loads(text))
            except (ValueError, RecursionError):
                raise InputError(f"--where: invalid JSON filter {text!r}") from None
        elif comparison is None:
            raise InputError(f"--where takes NAME=VALUE, or one of <, <=, >, >= and != instead of =, got {text!r}")
        else:
            name, operator, right = comparison.groups()
            value = _parse_value(right)
            operator = {"=": "in", "!=": "not in"}.get(operator, operator) if isinstance(value, list) else operator
            conditions.append({name: {operator: value}})
    if not conditions:
        return None
    where = {"and": conditions}
    parse_where(where)  # reject an invalid filter before opening the collection
    return where


def _columns(given: list[str] | None, name: str) -> dict[str, str] | None:
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return {name: given[0]}
    return parse_pairs(given, f"--{name}")


def _parse_value(text: str) -> Any:
    """Return the JSON value that a text spells, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
