"""How the defaults were chosen: MAP by code length, database protocol and ranking.

    DLFH_DATA=/path/to/folder python -m benchmarks.defaults_study --write benchmarks/defaults_before.md

The folder contains `wiki.mat` and `iapr_tc12.npz`. The grids that the defaults were chosen from use a
validation split of the training points; the final comparison uses the test queries of the data sets.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill
from dlfh import DLFH, datasets
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.datasets import Paired, read_arrays
from dlfh.hashing import LinearRidge
from dlfh.hashing.base import FitContext
from dlfh.metrics import mean_average_precision

BITS = (8, 16, 32, 64, 128)
MEASURES = tuple(product(("learned", "hashed"), ("Hamming", "asymmetric"), ("I→T", "T→I")))
Split = tuple[Paired, Paired]


def load_wiki(folder: Path) -> Split:
    split = datasets.load_dataset("wiki", folder / "wiki.mat")
    return split.train, split.queries


def load_iapr(folder: Path, n_labels: int | None = None, image: str = "image") -> Split:
    file = read_arrays(folder / "iapr_tc12.npz")
    labels, is_test = file["labels"], file["is_test"]
    keep = np.ones(len(is_test), bool)
    if n_labels is not None:
        frequent = np.argsort(-np.asarray(labels.sum(axis=0)).ravel(), kind="stable")[:n_labels]
        labels = sp.csr_array(labels[:, np.sort(frequent)])
        keep = np.diff(labels.indptr) > 0
    data = Paired({"image": file[image].astype(np.float32), "text": file["english"].astype(np.float32)}, labels)
    return data.take(np.flatnonzero(~is_test & keep)), data.take(np.flatnonzero(is_test & keep))


DATA: dict[str, Callable[[Path], Split]] = {
    "Wiki": load_wiki,
    "IAPR TC-12": load_iapr,
    "IAPR TC-12, 10 labels": lambda folder: load_iapr(folder, n_labels=10),
}


def paper_setting(n_bits: int) -> dict[str, Any]:
    setting: dict[str, Any] = DLFH.paper(n_bits).get_params()
    return {name: value for name, value in setting.items() if name not in ("n_bits", "random_state")}


def measure(split: Split, n_bits: int, setting: dict[str, Any], seed: int) -> list[float]:
    """Fit, and return MAP by protocol, ranking and direction."""
    train, _ = split
    return evaluate(DLFH(n_bits, random_state=seed, **setting).fit(train.modalities, train.labels), split)


def evaluate(model: DLFH, split: Split) -> list[float]:
    train, test = split
    values = []
    for protocol, ranking, direction in MEASURES:
        asked, answered = ("image", "text") if direction == "I→T" else ("text", "image")
        queries = (model.project if ranking == "asymmetric" else model.encode)(asked, test.modalities[asked])
        database = (
            model.codes_[answered] if protocol == "learned" else model.encode(answered, train.modalities[answered])
        )
        values.append(mean_average_precision(queries, database, test.labels, train.labels))
    return values


def run(split: Split, n_bits: int, setting: dict[str, Any], seeds: int, note: str) -> np.ndarray:
    began = time.perf_counter()
    values = np.array([measure(split, n_bits, setting, seed) for seed in range(seeds)])
    seconds = time.perf_counter() - began
    print(f"{note:60s} {seconds:6.1f} s  " + " ".join(f"{v:.3f}" for v in values.mean(axis=0)), file=sys.stderr)
    return values


def cells(values: np.ndarray, which: Iterable[int], spread: bool = True) -> str:
    mean, std = values.mean(axis=0), values.std(axis=0)
    return " | ".join(f"{mean[i]:.3f}±{std[i]:.3f}" if spread else f"{mean[i]:.3f}" for i in which)


def final_table(splits: dict[str, Split], seeds: int) -> tuple[str, dict[Any, np.ndarray]]:
    """Compare the paper's setting with the defaults, on test queries."""
    lines = [
        "| data | bits | setting | " + " | ".join(f"{d}, {p}, {r}" for p, r, d in MEASURES) + " |",
        "|---|---|---|" + "---|" * len(MEASURES),
    ]
    results = {}
    for name, split in splits.items():
        for n_bits in BITS:
            for label, setting in (("paper", paper_setting(n_bits)), ("default", {})):
                values = run(split, n_bits, setting, seeds, f"{name} {n_bits} {label}")
                results[name, n_bits, label] = values
                lines.append(f"| {name} | {n_bits} | {label} | {cells(values, range(len(MEASURES)))} |")
    return "\n".join(lines), results


def verdict(results: dict[Any, np.ndarray]) -> str:
    """Count the cells in which the defaults are better, level or worse, and average the difference."""
    lines = [
        "| protocol, ranking | better | level (within one std) | worse | mean difference |",
        "|---|---|---|---|---|",
    ]
    keys = sorted({key[:2] for key in results})
    for protocol, ranking in product(("learned", "hashed"), ("Hamming", "asymmetric")):
        columns = [i for i, key in enumerate(MEASURES) if key[:2] == (protocol, ranking)]
        better = level = worse = 0
        differences = []
        for key in keys:
            paper, ours = results[*key, "paper"][:, columns], results[*key, "default"][:, columns]
            difference = ours.mean(axis=0) - paper.mean(axis=0)
            spread = np.maximum(paper.std(axis=0), ours.std(axis=0))
            better += int((difference > spread).sum())
            worse += int((difference < -spread).sum())
            level += int((np.abs(difference) <= spread).sum())
            differences.extend(difference)
        lines.append(f"| {protocol}, {ranking} | {better} | {level} | {worse} | {np.mean(differences):+.3f} |")
    return "\n".join(lines)


def learning_grid(splits: dict[str, Split], seeds: int) -> str:
    """Compare iterations and sample sizes, on the validation split."""
    shown = [MEASURES.index((p, "Hamming", d)) for p, d in product(("learned", "hashed"), ("I→T", "T→I"))]
    lines = [
        "| data | bits | init | iterations | samples | "
        + " | ".join(f"{MEASURES[i][2]}, {MEASURES[i][0]}" for i in shown)
        + " |",
        "|---|---|---|---|---|" + "---|" * len(shown),
    ]
    for name, split in splits.items():
        for n_bits in (16, 64):
            grid = [("random", 30, 1)] + [("labels", t, m) for t in (30, 100) for m in (0.5, 1, 2, 4)]
            for init, max_iter, factor in grid:
                setting = {"init": init, "max_iter": max_iter, "sample_size": int(factor * n_bits)}
                values = run(split, n_bits, setting, seeds, f"grid {name} {n_bits} {init} {max_iter} {factor}")
                lines.append(
                    f"| {name} | {n_bits} | {init} | {max_iter} | {factor:g} × bits | {cells(values, shown, False)} |"
                )
            values = run(split, n_bits, {}, seeds, f"grid {name} {n_bits} default")
            lines.append(f"| {name} | {n_bits} | labels | 100 | default | {cells(values, shown, False)} |")
    return "\n".join(lines)


def ridge_grid(splits: dict[str, Split], seeds: int) -> str:
    """Compare ridges, with and without intercept, on the validation split, with the default codes."""
    shown = [MEASURES.index((p, "Hamming", d)) for p, d in product(("learned", "hashed"), ("I→T", "T→I"))]
    lines = [
        "| data | bits | intercept | ridge | "
        + " | ".join(f"{MEASURES[i][2]}, {MEASURES[i][0]}" for i in shown)
        + " |",
        "|---|---|---|---|" + "---|" * len(shown),
    ]
    grid = list(product((False, True), (None, 1e-3, 1e-2, 1e-1, 1.0)))
    for name, (train, test) in splits.items():
        for n_bits in (16, 64):
            values: dict[Any, list[list[float]]] = {cell: [] for cell in grid}
            for seed in range(seeds):
                model = DLFH(n_bits, random_state=seed, hash_function="linear").fit(train.modalities, train.labels)
                for intercept, factor in grid:
                    parameters: dict[str, Any] = {"ridge": 1e-6} if factor is None else {"shrinkage": factor}
                    learner = LinearRidge(**parameters, fit_intercept=intercept)
                    refit(model, learner, train)
                    values[intercept, factor].append(evaluate(model, (train, test)))
            for (intercept, factor), measured in values.items():
                ridge = "1e-6" if factor is None else f"{factor:g} × mean variance"
                shown_cells = cells(np.array(measured), shown, False)
                lines.append(f"| {name} | {n_bits} | {'yes' if intercept else 'no'} | {ridge} | {shown_cells} |")
            print(f"ridge {name} {n_bits}", file=sys.stderr)
    return "\n".join(lines)


def refit(model: DLFH, learner: Any, train: Paired) -> None:
    """Fit other hash functions to the learned codes of a model."""
    for modality in train.modalities:
        refit_one(model, learner, train, modality)


def refit_one(model: DLFH, learner: Any, train: Paired, modality: str) -> None:
    """Fit another hash function to one modality of a model."""
    targets = Targets(model.codes_[modality], np.arange(len(train)), model.n_bits)
    with Workers() as workers:
        context = FitContext(workers, seed=0)
        model.hash_functions_[modality] = learner.fit(train.modalities[modality], targets, modality, context)


def picture(results: dict[Any, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in dict.fromkeys(key[0] for key in results) if "10 labels" not in name]
    figure, axes = plt.subplots(len(names), 4, figsize=(11, 2.5 * len(names)), sharex=True, layout="constrained")
    for row, name in zip(np.atleast_2d(axes), names, strict=True):
        for axis, (protocol, direction) in zip(row, product(("learned", "hashed"), ("I→T", "T→I")), strict=True):
            for label, ranking, style, colour in (
                ("paper's setting", "Hamming", "o--", "tab:gray"),
                ("default", "Hamming", "o-", "tab:blue"),
                ("default, asymmetric", "asymmetric", "s-", "tab:orange"),
            ):
                column = MEASURES.index((protocol, ranking, direction))
                key = "paper" if label.startswith("paper") else "default"
                values = np.array([results[name, bits, key][:, column] for bits in BITS])
                axis.errorbar(BITS, values.mean(axis=1), values.std(axis=1), fmt=style, color=colour, ms=3, label=label)
            axis.set_xscale("log", base=2)
            axis.set_xticks(BITS, [str(bits) for bits in BITS])
            axis.set_title(f"{name}: {direction}, {protocol}", fontsize=9)
            axis.grid(alpha=0.3)
        row[0].set_ylabel("MAP")
    for axis in np.atleast_2d(axes)[-1]:
        axis.set_xlabel("bits")
    np.atleast_2d(axes)[0, 0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the final table (default 5)")
    parser.add_argument("--grid-seeds", type=int, default=2, help="seeds of the grids (default 2)")
    parser.add_argument("--only", choices=("final", "learning", "ridge"), help="make only this part")
    parser.add_argument("--write", type=Path, help="document to write the tables to, with the figure beside it")
    options = parser.parse_args()
    folder = Path(os.environ.get("DLFH_DATA", ""))
    if not (folder / "wiki.mat").is_file() or not (folder / "iapr_tc12.npz").is_file():
        raise SystemExit("set DLFH_DATA to a folder with wiki.mat and iapr_tc12.npz")
    splits = {name: load(folder) for name, load in DATA.items()}
    validation = {name: train.split(len(train) // 10, random_state=0) for name, (train, _) in splits.items()}
    tables = {}
    if options.only in (None, "final"):
        tables["final"], results = final_table(splits, options.seeds)
        tables["verdict"] = verdict(results)
        if options.write:
            picture(results, Path("docs/images/defaults.png"))
    if options.only in (None, "learning"):
        tables["learning"] = learning_grid(validation, options.grid_seeds)
    if options.only in (None, "ridge"):
        tables["ridge"] = ridge_grid(validation, options.grid_seeds)
    if options.write:
        fill(options.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
