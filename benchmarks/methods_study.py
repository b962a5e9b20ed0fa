"""All methods side by side: agreement with reference codes, accuracy, training time.

    python benchmarks/methods_study.py time --write docs/methods.md
    DLFH_DATA=/path/to/folder python benchmarks/methods_study.py reference wiki iapr --write docs/methods.md

The folder holds `wiki.mat` and `iapr_tc12.npz`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from defaults_study import Split, load_iapr, load_wiki
from dlfh.methods import METHODS, CrossModalHasher, MethodInfo, available
from dlfh.metrics import mean_average_precision
from report import fill, machine, table_in
from wiki_reference import ROWS

DIRECTIONS = (("image", "text"), ("text", "image"))
PROTOCOLS = ("learned", "hashed", "unified")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def evaluate(model: CrossModalHasher, split: Split, protocols: tuple[str, ...]) -> dict[str, list[float]]:
    """Return MAP of I→T and T→I by protocol."""
    train, test = split
    queries = {name: model.encode(name, test.modalities[name]) for name in model.modalities_}
    databases: dict[str, Any] = {}
    for protocol in protocols:
        if protocol == "unified":
            databases[protocol] = dict.fromkeys(model.modalities_, model.encode_unified(train.modalities))
        elif protocol == "hashed":
            databases[protocol] = {name: model.encode(name, train.modalities[name]) for name in model.modalities_}
        else:
            databases[protocol] = model.codes_
    return {
        protocol: [
            mean_average_precision(queries[asked], database[answered], test.labels, train.labels)
            for asked, answered in DIRECTIONS
        ]
        for protocol, database in databases.items()
    }


def reference_table(folder: Path) -> str:
    """Set our means beside those of the reference codes, on Wiki."""
    split = load_wiki(folder)
    lines = [
        "| method | database | bits | I→T, ours | reference | T→I, ours | reference | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    outside = 0
    for row in ROWS:
        lengths = sorted({n_bits for cells in row.values.values() for n_bits in cells})
        for n_bits in lengths:
            models = [row.make(n_bits, seed).fit(split[0].modalities, split[0].labels) for seed in range(row.seeds)]
            measured = [evaluate(model, split, tuple(row.values)) for model in models]
            for protocol, cells in row.values.items():
                values = np.array([each[protocol] for each in measured])
                entry = [row.name, protocol, str(n_bits)]
                for (expected, spread), mean, std in zip(
                    cells[n_bits], values.mean(axis=0), values.std(axis=0), strict=True
                ):
                    within = abs(mean - expected) <= row.tolerance(protocol, spread)
                    outside += not within
                    ours = f"{mean:.3f}±{std:.3f}" if row.seeds > 1 else f"{mean:.3f}"
                    theirs = f"{expected:.3f}±{spread:.3f}" if row.seeds > 1 else f"{expected:.3f}"
                    entry += [ours + ("" if within else " (outside)"), theirs]
                lines.append("| " + " | ".join([*entry, str(row.seeds)]) + " |")
                say(lines[-1])
    n_cells = sum(2 * len(cells) for row in ROWS for cells in row.values.values())
    lines += ["", f"{n_cells - outside} of {n_cells} within the tolerance."]
    return "\n".join(lines)


def make(name: str, n_bits: int, seed: int, **parameters: Any) -> CrossModalHasher:
    seeded = {} if available()[name].is_deterministic else {"random_state": seed}
    method: Any = METHODS[name]
    return method(n_bits, **seeded, **parameters)


def comparison(
    split: Split, n_bits: int, seeds: int, parameters: dict[str, dict[str, Any]], methods: list[str], before: str
) -> str:
    """Compare methods with their default parameters; rows of others are kept as they were ``before``."""
    heads = [f"{direction}, {protocol}" for protocol in PROTOCOLS for direction in ("I→T", "T→I")]
    lines = [f"| method | learns from | {' | '.join(heads)} | seconds |", "|---|---|" + "---|" * (len(heads) + 1)]
    rows = {line.split(" | ")[0][2:]: line for line in before.splitlines()[2:]}
    for name, info in available().items():
        if name in methods:
            rows[name] = _row(name, info, split, n_bits, seeds, dict(parameters.get(name, {})))
            say(rows[name])
    return "\n".join([*lines, *sorted(rows.values(), key=_mean_hashed, reverse=True)])


def _mean_hashed(row: str) -> float:
    """Return the mean of a row's hashed columns, by which the table is sorted."""
    cells = [cell.strip().split("±")[0] for cell in row.split("|")]
    return float(cells[5]) + float(cells[6])


def _row(name: str, info: MethodInfo, split: Split, n_bits: int, seeds: int, parameters: dict[str, Any]) -> str:
    runs = 1 if info.is_deterministic else min(seeds, parameters.pop("seeds", seeds))
    values, spent = [], []
    for seed in range(runs):
        model = make(name, n_bits, seed, **parameters).fit(split[0].modalities, split[0].labels)
        spent.append(model.fit_seconds_)
        values.append(evaluate(model, split, info.protocols))
    cells = []
    for protocol in PROTOCOLS:
        if protocol in info.protocols:
            mean = np.mean([each[protocol] for each in values], axis=0)
            std = np.std([each[protocol] for each in values], axis=0)
            cells += [f"{m:.3f}±{s:.3f}" if runs > 1 else f"{m:.3f}" for m, s in zip(mean, std, strict=True)]
        else:
            cells += ["", ""]
    source = "labels" if info.supervised else "pairs"
    return f"| {name} | {source} | {' | '.join(cells)} | {np.median(spent):.2f} |"


#: What would take hours on IAPR TC-12: similarities between all points, and pairs of points with 2,912 words each.
SMALLER: dict[str, dict[str, Any]] = {
    "MLBE": {"n_train": 3000},
    "CRH": {"n_pairs": 5000, "n_restarts": 1, "max_iter": 5, "seeds": 1},
}

#: Rows of the table of training times: name, method, parameters, the paper's seconds by number of points, and the
#: largest number that is timed.
TIMED: tuple[tuple[str, str, dict[str, Any], dict[int, float], int], ...] = (
    ("DLFH", "DLFH", {}, {1000: 1.26, 5000: 3.84, 10000: 6.61, 50000: 34.88}, 50_000),
    ("KDLFH", "KDLFH", {}, {1000: 56.58, 5000: 214.65, 10000: 479.46, 50000: 2097.52}, 50_000),
    ("SMFH", "SMFH", {}, {1000: 1.60, 5000: 9.84, 10000: 14.15, 50000: 46.94}, 50_000),
    ("SCM", "SCM", {}, {1000: 10.41, 5000: 11.13, 10000: 11.09, 50000: 11.34}, 50_000),
    ("CMFH", "CMFH", {}, {1000: 4.20, 5000: 12.01, 10000: 20.65, 50000: 84.00}, 50_000),
    ("CCA-ITQ", "CCAITQ", {}, {1000: 0.56, 5000: 0.59, 10000: 0.69, 50000: 1.51}, 50_000),
    ("MLBE", "MLBE", {"memory": 8 << 30}, {1000: 998.98}, 50_000),
    ("SePH", "SePH", {}, {1000: 80.54, 5000: 606.18}, 50_000),
    ("SePH, a start per point", "SePH", {"init": "random"}, {}, 10_000),
    ("ACQ", "ACQ", {}, {}, 50_000),
    ("CMSSH", "CMSSH", {}, {}, 50_000),
    ("CRH", "CRH", {}, {}, 50_000),
    ("CVH", "CVH", {}, {}, 50_000),
    ("LFH", "LFH", {}, {}, 50_000),
    ("PDH", "PDH", {}, {}, 50_000),
)
SIZES = (1000, 5000, 10000, 50000)

# In a process of its own, so that its peak memory is its own: fit once on little data, to compile, then measure.
TIME_ONE = """
import json, sys
from dlfh.datasets import make_paired
from dlfh.errors import InputError
from dlfh.methods import METHODS
name, parameters, n_points = json.loads(sys.argv[1])
shape = {"n_labels": 10, "n_label_sets": 700, "image_features": 500, "text_features": 1000, "random_state": 0}
def fit(data):
    seeded = {} if METHODS[name].info.is_deterministic else {"random_state": 0}
    return METHODS[name](16, **seeded, **parameters).fit(data.modalities, data.labels)
fit(make_paired(300, **shape))
data = make_paired(n_points, **shape)
open("/proc/self/clear_refs", "w").write("5")  # peak memory starts anew
try:
    seconds = fit(data).fit_seconds_
except InputError:
    seconds = None
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1e6
print(json.dumps([seconds, peak]))
"""


def time_table(titles: list[str], before: str) -> str:
    """Time training at several sizes, on data of NUS-WIDE's shape, each in a process of its own.

    Rows with other titles are kept as they were ``before``.
    """
    kept = {line.split(" | ")[0][2:]: line for line in before.splitlines()[2:]}
    heads = [f"{size // 1000}k" for size in SIZES]
    lines = [f"| method | {' | '.join(heads)} | peak at 5k, 10k, 50k (GB) |", "|---|" + "---|" * (len(heads) + 1)]
    for title, name, parameters, published, largest in TIMED:
        if title not in titles and title in kept:
            lines.append(kept[title])
            continue
        cells, peaks = [], []
        for size in SIZES:
            if size > largest:
                cells.append("not run")
                peaks.append("not run")
                continue
            arguments = [sys.executable, "-c", TIME_ONE, json.dumps([name, parameters, size])]
            printed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            spent, peak = json.loads(printed)
            ours = "–" if spent is None else f"{spent:.2f}"
            cells.append(ours + (f" / {published[size]:.2f}" if size in published else ""))
            peaks.append("–" if spent is None else f"{peak:.1f}")
            say(f"{title} {size}: {ours} s, {peak:.2f} GB")
        lines.append(f"| {title} | {' | '.join(cells)} | {', '.join(peaks[1:])} |")
    return "\n".join(lines)


def seph_seconds(folder: Path) -> str:
    """Time SePH on Wiki at 64 bits, as its reference code was timed."""
    split = load_wiki(folder)
    lines = ["| SePH on Wiki, 64 bits | seconds | beside 82 s of the reference code |", "|---|---|---|"]
    for title, init in (("a start per label set", "labels"), ("a start per point", "random")):
        spent = []
        for seed in range(3):
            began = time.perf_counter()
            make("SePH", 64, seed, init=init).fit(split[0].modalities, split[0].labels)
            spent.append(time.perf_counter() - began)
        lines.append(f"| {title} | {np.median(spent):.2f} | {82 / np.median(spent):.0f} × faster |")
        say(lines[-1])
    return "\n".join(lines)


def registry_table() -> str:
    """Return the registry as the docs show it."""
    lines = [
        "| name | method | learns from | codes | database codes | bits beyond the features' directions | modalities "
        "| training costs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, info in available().items():
        least, most = info.n_modalities
        number = str(least) if least == most else f"{least} or more"
        number += ", holes" if info.takes_holes else ""
        cells = (
            f"`{name}`",
            f"{info.title} ({info.paper})",
            "labels" if info.supervised else "pairs",
            "discrete" if info.discrete else "relaxed",
            ", ".join(info.protocols),
            info.surplus_bits,
            number,
            info.complexity,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("registry", "reference", "wiki", "iapr", "time"))
    parser.add_argument("--write", type=Path, help="document to write the tables into")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), help="rows of the comparison to measure (default all)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the comparison (default 3)")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("DLFH_DATA", ""))
    if {"reference", "wiki", "iapr"} & set(arguments.parts) and not (folder / "wiki.mat").exists():
        parser.error("DLFH_DATA must name a folder that holds wiki.mat and iapr_tc12.npz")
    tables: dict[str, str] = {"machine": machine()}
    for part in arguments.parts:
        if part == "registry":
            tables["registry"] = registry_table()
        elif part == "reference":
            tables["reference"] = reference_table(folder)
            tables["seph"] = seph_seconds(folder)
        elif part == "wiki":
            before = table_in(arguments.write, "wiki") if arguments.write else ""
            tables["wiki"] = comparison(load_wiki(folder), 32, arguments.seeds, {}, arguments.methods, before)
        elif part == "iapr":
            before = table_in(arguments.write, "iapr") if arguments.write else ""
            tables["iapr"] = comparison(load_iapr(folder), 32, arguments.seeds, SMALLER, arguments.methods, before)
        else:
            before = table_in(arguments.write, "time") if arguments.write else ""
            tables["time"] = time_table(arguments.methods, before)
        if arguments.write:
            fill(arguments.write, tables)
    if not arguments.write:
        print("\n\n".join(f"{name}\n{table}" for name, table in tables.items()))


if __name__ == "__main__":
    main()
