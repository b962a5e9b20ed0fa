"""Tables of docs/methods.md: properties of all methods, and agreement with reference codes.

    DLFH_DATA=/path/to/folder python -m benchmarks.methods_study registry reference --write docs/methods.md

The folder must contain `wiki.mat`. `dlfh bench` compares the methods with each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults_study import Split, load_wiki
from benchmarks.report import fill, machine
from benchmarks.wiki_reference import ROWS
from dlfh.methods import CrossModalHasher, available
from dlfh.methods.catalogue import METHODS
from dlfh.metrics import mean_average_precision

DIRECTIONS = (("image", "text"), ("text", "image"))


def log(text: str) -> None:
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
            mean_average_precision(queries[query], database[item], test.labels, train.labels)
            for query, item in DIRECTIONS
        ]
        for protocol, database in databases.items()
    }


def reference_table(folder: Path) -> str:
    """Compare our mean MAP with that of the reference codes, on Wiki."""
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
                values = np.array([by_protocol[protocol] for by_protocol in measured])
                entry = [row.name, protocol, str(n_bits)]
                for (expected, spread), mean, std in zip(
                    cells[n_bits], values.mean(axis=0), values.std(axis=0), strict=True
                ):
                    within = abs(mean - expected) <= row.tolerance(protocol, spread)
                    outside += not within
                    ours = f"{mean:.3f}±{std:.3f}" if row.seeds > 1 else f"{mean:.3f}"
                    reference = f"{expected:.3f}±{spread:.3f}" if row.seeds > 1 else f"{expected:.3f}"
                    entry += [ours + ("" if within else " (outside)"), reference]
                lines.append("| " + " | ".join([*entry, str(row.seeds)]) + " |")
                log(lines[-1])
    n_cells = sum(2 * len(cells) for row in ROWS for cells in row.values.values())
    lines += ["", f"{n_cells - outside} of {n_cells} within the tolerance."]
    return "\n".join(lines)


def make(name: str, n_bits: int, seed: int, **parameters: Any) -> CrossModalHasher:
    seeded = {} if available()[name].is_deterministic else {"random_state": seed}
    method: Any = METHODS[name]
    return method(n_bits, **seeded, **parameters)


def seph_seconds(folder: Path) -> str:
    """Time SePH on Wiki with 64 bits, like the reference code was timed."""
    split = load_wiki(folder)
    lines = ["| SePH on Wiki, 64 bits | seconds | beside 82 s of the reference code |", "|---|---|---|"]
    for title, init in (("a start per label set", "labels"), ("a start per point", "random")):
        spent = []
        for seed in range(3):
            began = time.perf_counter()
            make("SePH", 64, seed, init=init).fit(split[0].modalities, split[0].labels)
            spent.append(time.perf_counter() - began)
        lines.append(f"| {title} | {np.median(spent):.2f} | {82 / np.median(spent):.0f} × faster |")
        log(lines[-1])
    return "\n".join(lines)


def registry_table() -> str:
    """Return the table of methods in docs/methods.md."""
    lines = [
        "| name | method | learns from | codes | database codes | more bits than feature directions | modalities "
        "| training costs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, info in available().items():
        lowest, highest = info.n_modalities
        modalities = str(lowest) if lowest == highest else f"{lowest} or more"
        modalities += ", incomplete data" if info.takes_incomplete else ""
        modalities += ", in blocks" if info.takes_blocks else ""
        cells = (
            f"`{name}`",
            f"{info.title} ({info.paper})",
            "labels" if info.supervised else "pairs",
            "discrete" if info.discrete else "relaxed",
            ", ".join(info.protocols),
            info.surplus_bits,
            modalities,
            info.complexity,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("registry", "reference"))
    parser.add_argument("--write", type=Path, help="document whose tables to replace")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("DLFH_DATA", ""))
    if "reference" in arguments.parts and not (folder / "wiki.mat").exists():
        parser.error("DLFH_DATA must name a folder that contains wiki.mat")
    tables: dict[str, str] = {}
    for part in arguments.parts:
        if part == "registry":
            tables["registry"] = registry_table()
        else:
            tables["machine"], tables["reference"] = machine(), reference_table(folder)
            tables["seph"] = seph_seconds(folder)
        if arguments.write:
            fill(arguments.write, tables)
    if not arguments.write:
        print("\n\n".join(f"{name}\n{table}" for name, table in tables.items()))


if __name__ == "__main__":
    main()
