"""Settings of a run: defaults, then a TOML file, then command-line options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from dlfh._validation import check_choice
from dlfh.bench.toml import read_toml, to_toml
from dlfh.datasets.descriptions import canonical_name
from dlfh.errors import InputError
from dlfh.methods import DLFH, DOCH, KDLFH, LEMON
from dlfh.methods.catalogue import METHODS, MODULES

PROTOCOLS = ("unseen", "hashed", "learned", "unified")
_MAY_BE_EMPTY = ("time.sizes", "sensitivity.scales", "sensitivity.samples")
_ROW_SETTINGS = ("train_points", "seeds")  # settings of a row besides the parameters of its method
_EXPECTED = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _paper(method: Any) -> dict[str, Any]:
    """Return the parameters of the paper that differ from the defaults; "n_bits" stands for the code length."""
    defaults, paper = method().get_params(), method.paper().get_params()
    changed = {name: value for name, value in paper.items() if value != defaults[name]}
    return {name: "n_bits" if name == "sample_size" else value for name, value in changed.items() if name != "n_bits"}


#: Parameters of rows that differ from the method's defaults; footnotes list them.
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
#: Settings for the paper's data sets: its eight methods with its parameters come first. SePH used the last protocol.
_PAPER_METHODS = ("DLFH", "SMFH", "SCM", "CMFH", "CCAITQ", "MLBE", "KDLFH", "SePH")
_PAPER_DATA: dict[str, Any] = {
    "methods": [
        *(f"{name} paper" if f"{name} paper" in DEFAULT_PARAMETERS else name for name in _PAPER_METHODS),
        *("DLFH", "KDLFH", *(name for name in MODULES if name not in _PAPER_METHODS)),
    ],
    "protocols": PROTOCOLS,
    # The authors' advice for high-dimensional features and many points.
    "parameters": {"SMFH paper": {**DEFAULT_PARAMETERS["SMFH paper"], "mu": 100.0, "alpha": 10.0, "sample_size": 5000}},
}
#: Settings by data set. The icons get short runs, for a quick look. CRH is fast with the few features of Wiki; with the
#: 2,912 features of IAPR TC-12, CRH, MLBE and SePH take minutes.
DATA_SETTINGS: dict[str, dict[str, Any]] = {
    "icons": {"seeds": 2, "parameters": {"CRH": {"n_pairs": 500, "n_restarts": 1, "max_iter": 2}}},
    "wiki": {"parameters": {"CRH": {}}},
    "mirflickr-25k": _PAPER_DATA,
    "nus-wide": _PAPER_DATA,
    "iapr-tc12": {
        "parameters": {
            "CRH": {"n_pairs": 2000, "n_restarts": 1, "max_iter": 3, "seeds": 1},
            **{row: {**DEFAULT_PARAMETERS[row], "seeds": 1} for row in ("MLBE", "MLBE paper", "SePH", "SePH paper")},
        }
    },
}


@dataclass(frozen=True)
class Row:
    """A row of a table: a method with parameters."""

    label: str  # the method's name, followed by other words if a method has several rows: "DLFH paper"
    method: str
    parameters: dict[str, Any]  # "n_bits" as a value stands for the code length
    #: Number of training points that the method learns from (None for all); it encodes the others.
    train_points: int | None = None
    seeds: int | None = None  # number of runs, if fewer than for the other rows
    #: Folder of codes that were computed elsewhere; the method is then the label, and nothing is fitted.
    codes: Path | None = None

    @property
    def title(self) -> str:
        """The label in tables; for a method given as "module:Class", without the module."""
        return self.label.rpartition(":")[2]

    def at(self, bits: int, changed: Mapping[str, Any] = {}) -> dict[str, Any]:
        return {name: bits if value == "n_bits" else value for name, value in {**self.parameters, **changed}.items()}

    def footnote(self, n_train: int) -> str:
        """Describe the differences from the method's defaults; empty if there are none."""
        if self.codes is not None:
            return f"codes computed elsewhere, from {self.codes}"
        differences = [f"{name} = {value}" for name, value in self.parameters.items()]
        if self.train_points is not None and self.train_points < n_train:
            differences.insert(0, f"learns from {self.train_points:,} points and encodes the others")
        if self.seeds is not None:
            differences.append("one run" if self.seeds == 1 else f"{self.seeds} runs")
        return "; ".join(differences)


@dataclass(frozen=True)
class TimeSettings:
    """Training time: training set sizes (by default the paper's) and code length."""

    sizes: tuple[int, ...] = ()
    bits: int = 16


@dataclass(frozen=True)
class ConvergenceSettings:
    """Objective and MAP by iteration: code lengths, iterations and training points (by default the paper's)."""

    bits: tuple[int, ...] = (32, 64)
    iterations: int = 30
    size: int = 3000


@dataclass(frozen=True)
class SensitivitySettings:
    """MAP against the scale and the sample size; rows with the full solver learn from ``convergence.size`` points."""

    rows: tuple[str, ...] = ("DLFH", "DLFH paper", "DLFH full")
    bits: int = 16
    scales: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    samples: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class CurveSettings:
    """Precision-recall and top-N precision: code length (by default the longest) and number of methods drawn."""

    bits: int | None = None
    methods: int = 8


@dataclass(frozen=True)
class Settings:
    """Settings of a run, including its limits.

    Examples
    --------
    >>> settings = Settings.from_plain({"methods": ["DLFH"], "parameters": {"DLFH": {"scale": 4.0}}})
    >>> settings.row("DLFH").at(32)
    {'scale': 4.0}
    """

    #: Labels of the rows.
    methods: tuple[str, ...] = ("DLFH", "DLFH paper", *(name for name in MODULES if name != "DLFH"))
    bits: tuple[int, ...] = (16, 32, 64)
    seeds: int = 5  # number of runs of each cell whose split or method is random
    protocols: tuple[str, ...] = ("unseen", "hashed", "learned")
    k: int = 50  # cut-off of MAP@k and precision@k
    #: Number of queries, if the data set does not define them; by default a fifth of the points, at most 2,000.
    queries: int | None = None
    resplit: bool = True  # whether each run draws new queries, if the data set does not define them
    unseen_share: float = 0.0  # see `dlfh.bench.cells.SplitSpec`
    #: Number of worker processes (None for one per core) and of threads per process, which may change the last digits.
    jobs: int | None = None
    threads: int = 1
    memory_gb: float = 8.0  # limit of one cell, data included
    cell_minutes: float = 60.0  # limit of one cell
    layout: str = "columns"  # of LaTeX tables of accuracy, see `dlfh.bench.tables.ReportTable`
    interval: str = "deviation"  # likewise
    time: TimeSettings = field(default_factory=TimeSettings)
    convergence: ConvergenceSettings = field(default_factory=ConvergenceSettings)
    sensitivity: SensitivitySettings = field(default_factory=SensitivitySettings)
    curves: CurveSettings = field(default_factory=CurveSettings)
    #: Further rows: folders of codes that were computed elsewhere, by label.
    codes: dict[str, str] = field(default_factory=dict)
    #: Parameters by row, which replace the row's default parameters.
    parameters: dict[str, dict[str, Any]] = field(default_factory=lambda: dict(DEFAULT_PARAMETERS))

    @classmethod
    def for_data(cls, data: str) -> Settings:
        return cls.from_plain(DATA_SETTINGS.get(canonical_name(data).removeprefix("generated:"), {}))

    @classmethod
    def read(cls, path: Path, defaults: Settings | None = None) -> Settings:
        """Read a TOML file; settings that it omits come from ``defaults``."""
        plain = read_toml(path)
        try:
            return cls.from_plain(plain, defaults)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], defaults: Settings | None = None) -> Settings:
        """Return settings from the content of a TOML file; omitted ones come from ``defaults``."""
        given, settings = dict(plain), defaults or cls()
        merged: dict[str, Any] = {}
        tables: list[tuple[str, type, str]] = [
            ("parameters", dict, "one table per row, such as [parameters.DLFH]"),
            ("codes", str, "a table of folders by label, such as [codes]"),
        ]
        for name, kind, expected in tables:
            table = given.pop(name, {})
            if not isinstance(table, dict) or not all(isinstance(each, kind) for each in table.values()):
                raise InputError(f"{name} must be {expected}")
            merged[name] = {**getattr(settings, name), **table}
        settings = _replaced(replace(settings, **merged), given, "")
        settings._check()
        return settings

    def changed(self, **given: Any) -> Settings:
        """Return settings with the given values, ignoring None."""
        return self.from_plain({name: value for name, value in given.items() if value is not None}, self)

    def to_toml(self) -> str:
        return to_toml(asdict(self))

    def row(self, label: str) -> Row:
        if label in self.codes:
            return Row(label, label, {}, codes=Path(self.codes[label]))
        parameters = dict(self.parameters.get(label, {}))
        points, seeds = (parameters.pop(name, None) for name in _ROW_SETTINGS)
        return Row(label, label.split()[0], parameters, points, seeds)

    def rows(self) -> list[Row]:
        return [self.row(label) for label in (*self.methods, *self.codes)]

    def _check(self) -> None:
        for label in (*self.methods, *self.sensitivity.rows, *self.parameters):
            _check_row(label, self.parameters.get(label, {}))
        for label, folder in self.codes.items():
            if label in self.methods or label in METHODS:
                raise InputError(f"the codes {label!r} have the name of a method: choose another name")
            if not Path(folder).is_dir():
                raise InputError(f"the codes {label!r} must be in a folder, but {folder} is not a folder")
        for label in self.sensitivity.rows:
            if self.row(label).method not in ("DLFH", "KDLFH"):
                raise InputError(f"sensitivity.rows must be DLFH or KDLFH rows, which have λ and m, got {label!r}")
        _check_values(self)
        if not 0 <= self.unseen_share < 1:
            raise InputError(f"unseen_share must be at least 0 and less than 1, got {self.unseen_share}")
        unknown = set(self.protocols) - set(PROTOCOLS)
        if unknown:
            raise InputError(f"unknown protocol {sorted(unknown)[0]!r}; protocols are {', '.join(PROTOCOLS)}")
        for name, choices in (("layout", ("columns", "paper")), ("interval", ("deviation", "confidence"))):
            check_choice(getattr(self, name), name, choices)
        if self.curves.bits is not None and self.curves.bits not in self.bits:
            raise InputError(f"curves.bits is {self.curves.bits} but must be one of bits, {list(self.bits)}")


def _check_values(settings: Any, path: str = "") -> None:
    """Check that numbers are in range, and that lists have no duplicates."""
    for name, value in ((path + each.name, getattr(settings, each.name)) for each in fields(settings)):
        values = value if isinstance(value, tuple) else (value,)
        if not values and name not in _MAY_BE_EMPTY:
            raise InputError(f"{name} must not be empty")
        for i, each in enumerate(values):
            is_number = isinstance(each, (int, float)) and not isinstance(each, bool)
            if is_dataclass(each):
                _check_values(each, f"{name}.")
            elif is_number and name.endswith("bits") and not 1 <= each <= 512:
                raise InputError(f"{name} must be code lengths from 1 to 512, got {each}")
            elif is_number and each <= 0 and name != "unseen_share":
                raise InputError(f"{name} must be positive, got {each}")
            elif each in values[:i]:
                raise InputError(f"{name} has {each} twice")


def _check_row(label: str, parameters: Mapping[str, Any]) -> None:
    name = label.split()[0] if label.split() else label
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; methods are {', '.join(METHODS)}, or your own as module:Class")
    method: Any = METHODS[name]
    known = {*method().get_params(deep=False), *_ROW_SETTINGS} - {"n_bits", "random_state", "n_jobs", "verbose"}
    for parameter, value in parameters.items():
        if parameter not in known:
            raise InputError(f"{name} has no parameter {parameter!r}; it has {', '.join(sorted(known))}")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{parameter} of {label} must be finite, got {value}")
        if not isinstance(value, (str, bool, int, float)):
            raise InputError(f"{parameter} of {label} must be a number, a string, true or false, got {value!r}")
    for setting in _ROW_SETTINGS:
        number = parameters.get(setting, 1)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{setting} of {label} must be a positive whole number, got {number!r}")


def _replaced(settings: Any, given: Mapping[str, Any], path: str) -> Any:
    """Return settings with the given values, after checking their types."""
    types = {each.name: str(each.type) for each in fields(settings) if each.name not in ("parameters", "codes")}
    unknown = sorted(set(given) - set(types))
    if unknown:
        raise InputError(f"unknown setting {path}{unknown[0]!r}; settings are {', '.join(sorted(types))}")
    changed = {
        name: _converted(value, getattr(settings, name), types[name], path + name) for name, value in given.items()
    }
    return replace(settings, **changed)


def _converted(value: Any, default: Any, annotation: str, name: str) -> Any:
    """Convert a value to the annotated type of its field."""
    if is_dataclass(default):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table, [{name}], got {value!r}")
        return _replaced(default, value, f"{name}.")
    kind = next(kind for kind in _EXPECTED if kind.__name__ in annotation)
    if not isinstance(default, tuple):
        return _scalar(value, kind, name)
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{name} must be a list, got {value!r}")
    return tuple(_scalar(each, kind, name) for each in value)


def _scalar(value: Any, kind: type, name: str) -> Any:
    accepted = (int, float) if kind is float else (kind,)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted):
        raise InputError(f"{name} must be {_EXPECTED[kind]}, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} must be finite, got {value}")
    return kind(value)
