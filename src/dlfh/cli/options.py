"""Options that several commands share, and functions that open the items, models and collections they name."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.collection import Collection, Encoder
    from dlfh.datasets import Items
    from dlfh.datasets.problem import Problem

_COMPARISON = re.compile(r"([^<>=!]+)(<=|>=|!=|=|<|>)([^<>=!].*|)", re.DOTALL)  # a filter condition such as "price<20"


def option(help: str, *names: str, default: Any = None, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option as the default of a parameter, or of a field of a group; ``...`` makes it required."""
    flag = {"metavar": ""} if isinstance(default, bool) else {}  # recent versions of Typer show the type of a flag
    return typer.Option(default, *names, help=help, rich_help_panel=panel, **flag | settings)


def argument(help: str, metavar: str | None = None, default: Any = ...) -> Any:
    """Declare a positional argument, like `option`."""
    return typer.Argument(default, help=help, metavar=metavar)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", metavar="")]
CollectionFolder = Annotated[Path, typer.Argument(help="Folder of a collection.", metavar="COLLECTION")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs, but never inputs.", metavar="")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not report progress.", metavar="")]
ItemsAt = Annotated[
    str | None,
    typer.Option(
        "--items",
        help="Database for the items: postgresql://HOST/DATABASE#TABLE, duckdb:FILE#TABLE or milvus://HOST:PORT#TABLE. "
        "Default: files in the output folder.",
    ),
]
_data = functools.partial(option, panel="Input data")


@dataclass(frozen=True)
class ItemOptions:
    """Options that select the items to read."""

    source: Path | None = argument(
        "Folder of images, table (.csv, .tsv, .jsonl, .parquet, .arrow, .feather, .xlsx) or array file (.npz, .npy, "
        ".mat).",
        "SOURCE",
        None,
    )
    table: Path | None = _data("Table of items; image paths are relative to SOURCE or to the table.")
    id: str | None = _data("Column with item ids. Default: image path or row number.")
    image: list[str] | None = _data("Column with image paths; if several, repeat NAME=COLUMN.", metavar="COLUMN")
    text: list[str] | None = _data("Column with texts; if several, repeat NAME=COLUMN.", metavar="COLUMN")
    vectors: list[str] | None = _data(
        "Vectors of modality NAME: variable of SOURCE, column, FILE or FILE:VARIABLE; repeatable.", metavar="NAME=..."
    )
    labels: str | None = _data("Column or variable with labels; words to learn from the words of texts instead.")
    separator: str | None = _data("Separator between labels in a cell. Default: the most frequent of ; | , and tab.")
    encoding: str = _data("Text encoding of the table.", default="utf-8")
    max_skipped: float = _data("Maximum share of items, or of images, that may be missing or unreadable.", default=0.5)

    def inputs(self) -> list[Path | None]:
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
        """Read the items for a model with the modalities ``known``; raise InputError if an output is an input image.

        The modalities guessed from a bare folder of images are restricted to the known ones.
        """
        from dlfh._persistence.outputs import check_not_input
        from dlfh.datasets import read_items
        from dlfh.datasets.problem import LABEL_WORDS

        names = ("table", "id", "labels", "separator", "encoding", "max_skipped")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"image": _columns(self.image, "image"), "text": _columns(self.text, "text")}
        items = read_items(self.source, vectors=parse_pairs(self.vectors, "--vectors"), part=part, **options)
        is_folder = self.table is None and self.source is not None and self.source.is_dir()
        if known is not None and is_folder and all(isinstance(values, list) for values in items.modalities.values()):
            items = _with_known_modalities(items, known)
        if known is not None and LABEL_WORDS in known:  # the model was trained on one modality and label words
            items = items.with_label_words()
        for output in outputs:
            if output is not None and output.exists():
                check_not_input(output, self.image_files(items))
        return items

    @staticmethod
    def image_files(items: Items) -> list[Path]:
        """Return the paths of all images."""
        lists = (values for values in items.modalities.values() if isinstance(values, list))
        return [value for values in lists for value in values if isinstance(value, Path)]


def _with_known_modalities(items: Items, known: Sequence[str]) -> Items:
    unknown = {name for name in items.modalities if name not in known}
    if unknown == {*items.modalities}:
        problem = f"a folder of images has the modalities image and text, but the model has {', '.join(known)}"
        raise InputError(f"{problem}: pass a --table and name its columns")
    modalities = {name: values for name, values in items.modalities.items() if name not in unknown}
    metadata = [{name: value for name, value in card.items() if name not in unknown} for card in items.metadata]
    return replace(items, modalities=modalities, metadata=metadata)


@dataclass(frozen=True)
class OutputOptions:
    """Options for reporting results, skipped input and progress."""

    problem_file: Path | None = option("Write skipped items and values to this file, as JSON lines.", "--problems")
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
        from dlfh._persistence.outputs import write_output
        from dlfh.cli.output import report, to_json

        if self.problem_file is not None:
            lines = [(to_json(asdict(problem)) + "\n").encode() for problem in problems]
            write_output(self.problem_file, lines, overwrite=self.overwrite)
        report(message, summary, problems, as_json=self.as_json)


#: Patterns of the values that these types convert as Pydantic does.
_PLAIN: dict[Any, str] = {str: ".*", Path: ".*", int: "[0-9]{1,9}", float: r"[0-9]{0,9}\.?[0-9]{1,9}"}


def convert_without_pydantic() -> None:
    """Let Typer convert plain values without Pydantic, which takes a tenth of a second to load.

    Typer itself converts all other values and reports invalid ones; versions without Pydantic convert all values.
    """
    parameter: Any = getattr(typer.core, "_TyperParameter", None)
    if hasattr(parameter, "get_runtime_param") and not hasattr(parameter, "convert_by_pydantic"):
        parameter.convert_by_pydantic = parameter.get_runtime_param
        parameter.get_runtime_param = lambda self: _Conversion(self)  # (as a method)


@dataclass(frozen=True)
class _Conversion:
    parameter: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = self.parameter.type_descriptor.annotation
        if value is None or value == ():
            return () if self.parameter.multiple or self.parameter.nargs == -1 else None
        if kind in _PLAIN and type(value) is kind:
            return value
        if kind in _PLAIN and isinstance(value, str) and re.fullmatch(_PLAIN[kind], value, re.DOTALL):
            return kind(value)
        if kind == list[str] and isinstance(value, (list, tuple)):
            return list(value)
        return self.parameter.convert_by_pydantic().coerce(value, param=param, ctx=ctx)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take dataclasses of options; the signature that Typer sees has their fields instead."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: group for name, group in hints.items() if is_dataclass(group)}
    parameters: dict[str, tuple[Any, Any]] = {}  # types and defaults
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            parameters |= {field.name: (types[field.name], field.default) for field in fields(groups[name])}
        else:
            parameters[name] = hints[name], parameter.default
    for name, (kind, declared) in parameters.items():
        if kind is bool and not declared.param_decls:
            declared.param_decls = (f"--{name.replace('_', '-')}",)  # without --no-NAME

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        if not any(isinstance(value, ItemOptions) for value in given.values()):
            return command(**given)
        from dlfh.features.cache import cached

        with cached():  # compute the features of each image once
            return command(**given)

    # Keyword-only parameters may mix required and optional ones.
    keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    declared = [keyword(name, default=default, annotation=kind) for name, (kind, default) in parameters.items()]
    run.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    run.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    return run


def stored_in(address: str | None) -> str:
    """Return the part of a message that names the database of the items; empty if there is none."""
    return "" if address is None else f", stored in {address}: set DLFH_ENGINES to this address to open them"


def load_encoder(path: Path, verbose: bool = False) -> Encoder:
    """Load the encoder of a model folder or a collection; wrap a model without featurizers in a vector encoder."""
    from dlfh.collection import Encoder, load
    from dlfh.collection.folder import is_collection, model_folder
    from dlfh.features import Vectors

    model = load(model_folder(path) if is_collection(path) else path)
    if not isinstance(model, Encoder):
        features = {name: Vectors() for name in model.modalities_}
        for name, featurizer in features.items():
            featurizer.n_features_ = model.n_features_[name]
        model = Encoder.from_fitted(features, model)
    set_verbosity(model, verbose)
    return model


def open_collection(path: Path, *, writable: bool = False, verbose: bool = False) -> Collection:
    """Open a collection, with progress reports only if ``verbose``."""
    from dlfh.collection import Collection

    collection = Collection.open(path, writable=writable)
    set_verbosity(collection.encoder, verbose)
    return collection


def set_verbosity(encoder: Encoder, verbose: bool) -> None:
    """Set whether the featurizers of an encoder report progress."""
    for featurizer in encoder.featurizers_.values():
        featurizer.verbose = verbose


def check_unset(options: Any, applicable: Container[str], reason: str) -> None:
    """Raise InputError if an option was set that is not applicable."""
    for field in fields(options):
        default = getattr(field.default, "default", field.default)
        if getattr(options, field.name) != default and field.name not in applicable:
            raise InputError(f"--{field.name.replace('_', '-')} {reason}")


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
            value = parse_value(right)
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


def parse_value(text: str) -> Any:
    """Parse a text as JSON; if it is invalid, return the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
