"""Settings of a run: from a TOML file, from flags, with defaults; nothing that is computed hides elsewhere."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dlfh.bench.toml import to_toml
from dlfh.datasets.descriptions import canonical_name
from dlfh.errors import InputError
from dlfh.methods import DLFH, DOCH, KDLFH, LEMON
from dlfh.methods.catalogue import METHODS

__all__ = [
    "PROTOCOLS",
    "ConvergenceSettings",
    "CurveSettings",
    "Row",
    "SensitivitySettings",
    "Settings",
    "TimeSettings",
]

PROTOCOLS = ("unseen", "hashed", "learned", "unified")


def _paper(method: Any) -> dict[str, Any]:
    """Return the paper's setting of a method; "n_bits" stands for the code length."""
    usual, paper = method().get_params(), method.paper().get_params()
    changed = {name: value for name, value in paper.items() if value != usual[name]}
    return {name: "n_bits" if name == "sample_size" else value for name, value in changed.items() if name != "n_bits"}


#: Parameters that differ from the methods' own defaults, by row of a table; footnotes say so.
DEFAULT_PARAMETERS: dict[str, dict[str, Any]] = {
    "CMFH paper": {"updates": "code-as-is", "init": "uniform", "max_iter": 25, "tol": 0.0},
    "CMSSH paper": {"step": "unit"},
    "CRH": {"n_pairs": 5000, "n_restarts": 1, "max_iter": 5},
    "DLFH full": {name: value for name, value in _paper(DLFH).items() if name != "sample_size"} | {"solver": "full"},
    "DLFH paper": _paper(DLFH),
    "DOCH paper": _paper(DOCH),
    "KDLFH paper": _paper(KDLFH),
    "LEMON paper": _paper(LEMON),
    "MLBE": {"train_points": 1000},
    "MLBE paper": {"train_points": 1000, "init": "random", "encoding": "sweep"},
    "SMFH paper": {"stop": "code", "max_iter": 50},
    "SePH": {"train_points": 5000},
    "SePH paper": {"train_points": 5000, "init": "random"},
}

#: What differs from these for a data set: the icons are for a quick look; CRH is quick on Wiki's few features, and slow
#: on the 2,912 of IAPR TC-12, where MLBE and SePH take minutes, too.
USUAL: dict[str, dict[str, Any]] = {
    "icons": {"seeds": 2, "parameters": {"CRH": {"n_pairs": 500, "n_restarts": 1, "max_iter": 2}}},
    "wiki": {"parameters": {"CRH": {}}},
    "iapr-tc12": {
        "parameters": {
            "CRH": {"n_pairs": 2000, "n_restarts": 1, "max_iter": 3, "seeds": 1},
            "MLBE": {**DEFAULT_PARAMETERS["MLBE"], "seeds": 1},
            "MLBE paper": {**DEFAULT_PARAMETERS["MLBE paper"], "seeds": 1},
            "SePH": {**DEFAULT_PARAMETERS["SePH"], "seeds": 1},
            "SePH paper": {**DEFAULT_PARAMETERS["SePH paper"], "seeds": 1},
        }
    },
}


@dataclass(frozen=True)
class Row:
    """A row of a table: a method with parameters of its own.

    Attributes
    ----------
    label : str
        A method's name, and further words if there are several rows of one method: ``"DLFH paper"``.
    method : str
    parameters : dict
        ``"n_bits"`` as a value stands for the code length.
    train_points : int or None
        How many of the training points the method learns from; it encodes the others.
    seeds : int or None
        How many runs it has, where a cell takes long; by default as many as the others.
    """

    label: str
    method: str
    parameters: dict[str, Any]
    train_points: int | None = None
    seeds: int | None = None

    def at(self, bits: int, **changed: Any) -> dict[str, Any]:
        """Return the parameters for a code length."""
        given = {**self.parameters, **changed}
        return {name: bits if value == "n_bits" else value for name, value in given.items()}

    def footnote(self, n_train: int) -> str:
        """Return what differs from the method's own defaults on so many points, in words; empty if nothing does."""
        said = [f"{name} = {value}" for name, value in self.parameters.items()]
        if self.train_points is not None and self.train_points < n_train:
            said.insert(0, f"learns from {self.train_points:,} points and encodes the others")
        if self.seeds is not None:
            said.append("one run" if self.seeds == 1 else f"{self.seeds} runs")
        return "; ".join(said)


@dataclass(frozen=True)
class TimeSettings:
    """Training time by size: numbers of training points (by default those of the paper), and code length."""

    sizes: tuple[int, ...] = ()
    bits: int = 16


@dataclass(frozen=True)
class ConvergenceSettings:
    """Objective and MAP by iteration: code lengths, iterations, training points (as in the paper)."""

    bits: tuple[int, ...] = (32, 64)
    iterations: int = 30
    size: int = 3000


@dataclass(frozen=True)
class SensitivitySettings:
    """MAP against the scale and the sample size, for some rows; full solvers learn from ``convergence.size`` points."""

    rows: tuple[str, ...] = ("DLFH", "DLFH paper", "DLFH full")
    bits: int = 16
    scales: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    samples: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class CurveSettings:
    """Precision-recall and top-N precision: code length (by default the longest), and how many methods are drawn."""

    bits: int | None = None
    methods: int = 8


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a run computes, and what it may use.

    Attributes
    ----------
    methods : tuple of str
        Rows of the tables: methods by name, perhaps with further words (see `Row`).
    bits : tuple of int
    seeds : int
        Runs of each cell that has anything random in it.
    protocols : tuple of str
        Of "unseen", "hashed", "learned" and, for the methods that have it, "unified".
    k : int
        The k of MAP@k and precision@k.
    queries : int or None
        Number of queries where data has none of its own; by default a fifth of the points, at most 2,000.
    resplit : bool
        Whether each run draws its own queries, where data has none of its own.
    unseen_share : float
        Share of the training points that are held out as the *unseen* database. With 0, queries are dealt into
        two halves, each of which is the other's unseen database.
    jobs, threads, memory_gb, cell_minutes
        See `dlfh.bench.runner.Limits`. They change no result but, by ``threads``, its last digits.
    time, convergence, sensitivity, curves
        Of single experiments.
    parameters : dict of str to dict
        Parameters by row; what is given for a row replaces what is there by default.

    Examples
    --------
    >>> settings = Settings.from_plain({"methods": ["DLFH"], "parameters": {"DLFH": {"scale": 4.0}}})
    >>> settings.row("DLFH").at(32)
    {'scale': 4.0}
    """

    methods: tuple[str, ...] = ("DLFH", "DLFH paper", *(name for name in METHODS if name != "DLFH"))
    bits: tuple[int, ...] = (16, 32, 64)
    seeds: int = 5
    protocols: tuple[str, ...] = ("unseen", "hashed", "learned")
    k: int = 50
    queries: int | None = None
    resplit: bool = True
    unseen_share: float = 0.0
    jobs: int | None = None
    threads: int = 1
    memory_gb: float = 8.0
    cell_minutes: float = 60.0
    time: TimeSettings = field(default_factory=TimeSettings)
    convergence: ConvergenceSettings = field(default_factory=ConvergenceSettings)
    sensitivity: SensitivitySettings = field(default_factory=SensitivitySettings)
    curves: CurveSettings = field(default_factory=CurveSettings)
    parameters: dict[str, dict[str, Any]] = field(default_factory=lambda: dict(DEFAULT_PARAMETERS))

    @classmethod
    def usual(cls, data: str) -> Settings:
        """Return the settings that a data set has without a file."""
        return cls.from_plain(USUAL.get(canonical_name(data).removeprefix("generated:"), {}))

    @classmethod
    def read(cls, path: Path, usual: Settings | None = None) -> Settings:
        """Read a TOML file; what it does not say is as ``usual``."""
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read the settings {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the settings {path} are not valid TOML: {error}") from None
        try:
            return cls.from_plain(plain, usual)
        except InputError as error:
            raise InputError(f"settings {path}: {error}") from None

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], usual: Settings | None = None) -> Settings:
        """Make settings of what a TOML file holds; what is not there is as ``usual``, by default the defaults."""
        given = dict(plain)
        parameters = given.pop("parameters", {})
        if not isinstance(parameters, dict) or not all(isinstance(each, dict) for each in parameters.values()):
            raise InputError("parameters must be tables by row, such as [parameters.DLFH]")
        settings: Settings = _fill(usual or cls(), given, "")
        return replace(settings, parameters={**settings.parameters, **parameters}).checked()

    def changed(self, **given: Any) -> Settings:
        """Return settings with what is given, unless it is None."""
        return _fill(self, {name: value for name, value in given.items() if value is not None}, "").checked()

    def with_parameters(self, label: str, parameters: Mapping[str, Any]) -> Settings:
        """Return settings in which a row has these parameters beside its own."""
        merged = {**self.parameters.get(label, {}), **parameters}
        return replace(self, parameters={**self.parameters, label: merged}).checked()

    def to_toml(self) -> str:
        """Return the settings as `read` takes them."""
        return to_toml(asdict(self))

    def row(self, label: str) -> Row:
        """Return a row of the tables by its label."""
        parameters = dict(self.parameters.get(label, {}))
        points, seeds = (parameters.pop(name, None) for name in _OF_ROWS)
        return Row(label, label.split()[0], parameters, points, seeds)

    def rows(self) -> list[Row]:
        return [self.row(label) for label in self.methods]

    def checked(self) -> Settings:
        """Return the settings, or raise InputError for what is wrong with them."""
        for label in (*self.methods, *self.sensitivity.rows, *self.parameters):
            _check_row(label, self.parameters.get(label, {}))
        for label in self.sensitivity.rows:
            if self.row(label).method not in ("DLFH", "KDLFH"):
                raise InputError(f"sensitivity.rows must be rows of DLFH or KDLFH, which have λ and m, got {label!r}")
        _check_numbers(self)
        _check_lists(self)
        if not 0 <= self.unseen_share < 1:
            raise InputError(f"unseen_share must be at least 0 and less than 1, got {self.unseen_share}")
        unknown = set(self.protocols) - set(PROTOCOLS)
        if unknown:
            raise InputError(f"unknown protocol {sorted(unknown)[0]!r}: there are {', '.join(PROTOCOLS)}")
        if self.curves.bits is not None and self.curves.bits not in self.bits:
            raise InputError(f"curves.bits is {self.curves.bits}, which is none of the bits {list(self.bits)}")
        return self


#: Numbers of which only those above 0 make sense.
_POSITIVE = (
    *("seeds", "k", "queries", "jobs", "threads", "memory_gb", "cell_minutes", "time.sizes", "convergence.size"),
    *("convergence.iterations", "sensitivity.scales", "sensitivity.samples", "curves.methods"),
)
_CODE_LENGTHS = ("bits", "time.bits", "convergence.bits", "sensitivity.bits")
_NEVER_EMPTY = ("methods", "bits", "protocols", "convergence.bits", "sensitivity.rows")


def _listed(settings: Settings, name: str) -> tuple[Any, ...]:
    """Return the values of a setting by its name, such as "time.sizes"."""
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _check_numbers(settings: Settings) -> None:
    for name in _POSITIVE:
        for value in _listed(settings, name):
            if value <= 0:
                raise InputError(f"{name} must be positive, got {value}")
    for name in _CODE_LENGTHS:
        for value in _listed(settings, name):
            if not 1 <= value <= 512:
                raise InputError(f"{name} must be code lengths from 1 to 512, got {value}")


def _check_lists(settings: Settings) -> None:
    for name in _NEVER_EMPTY:
        if not _listed(settings, name):
            raise InputError(f"{name} must not be empty")
    for name in (*_NEVER_EMPTY, "time.sizes", "sensitivity.scales", "sensitivity.samples"):
        values = _listed(settings, name)
        twice = [value for i, value in enumerate(values) if value in values[:i]]
        if twice:
            raise InputError(f"{name} has {twice[0]} twice")


#: What a row has beside the parameters of its method.
_OF_ROWS = ("train_points", "seeds")


def _check_row(label: str, parameters: Mapping[str, Any]) -> None:
    name = label.split()[0] if label.split() else label
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}: there are {', '.join(METHODS)}")
    method: Any = METHODS[name]
    known = {*method().get_params(deep=False), *_OF_ROWS} - {"n_bits", "random_state", "n_jobs", "verbose"}
    for parameter, value in parameters.items():
        if parameter not in known:
            raise InputError(f"{name} has no parameter {parameter!r}: it has {', '.join(sorted(known))}")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{parameter} of {label} must be finite, got {value}")
        if not isinstance(value, (str, bool, int, float)):
            raise InputError(f"{parameter} of {label} must be a number, a string, true or false, got {value!r}")
    for name in _OF_ROWS:
        number = parameters.get(name, 1)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{name} of {label} must be a whole number of at least 1, got {number!r}")


def _fill(settings: Any, given: Mapping[str, Any], place: str) -> Any:
    """Return settings with the given values, each of the type that it has by default."""
    known = {each.name for each in fields(settings)} - {"parameters"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"unknown setting {place}{unknown[0]!r}: there are {', '.join(sorted(known))}")
    changed = {name: _value(value, getattr(settings, name), place + name) for name, value in given.items()}
    return replace(settings, **changed)


_OPTIONAL_INTEGERS = ("queries", "jobs", "curves.bits")


def _value(value: Any, default: Any, name: str) -> Any:
    if hasattr(default, "__dataclass_fields__"):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table, [{name}], got {value!r}")
        return _fill(default, value, f"{name}.")
    if isinstance(default, tuple):
        kind = (
            str if name in ("methods", "protocols", "sensitivity.rows") else float if name.endswith("scales") else int
        )
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{name} must be a list, got {value!r}")
        return tuple(_scalar(each, kind, name) for each in value)
    return _scalar(value, int if name in _OPTIONAL_INTEGERS else type(default), name)


def _scalar(value: Any, kind: type, name: str) -> Any:
    accepted = (int, float) if kind is float else (kind,)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted):
        words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[kind]
        raise InputError(f"{name} must be {words}, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} must be finite, got {value}")
    return kind(value)
