"""More than two modalities, and incomplete data, on IAPR TC-12: tables and a plot.

    DLFH_DATA=/path/to/folder python -m benchmarks.holes_study --write docs/holes.md

The folder contains `iapr_tc12.npz`: images (GIST), English and German captions, labels.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import fill, machine
from dlfh import DLFH
from dlfh.datasets import Paired, read_arrays
from dlfh.metrics import mean_average_precision

N_BITS = 32
HIDDEN = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
NAMES = ("image", "english", "german")


def load(folder: Path) -> tuple[Paired, Paired]:
    file = read_arrays(folder / "iapr_tc12.npz")
    modalities = {name: file[name].astype(np.float32) for name in NAMES}
    data = Paired(modalities, file["labels"])
    is_test = file["is_test"]
    return data.take(np.flatnonzero(~is_test)), data.take(np.flatnonzero(is_test))


def directions(model: DLFH, train: Paired, test: Paired) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return MAP in every direction, with learned and with hashed codes of the training points."""
    queries = {name: model.encode(name, test.modalities[name]) for name in model.modalities_}
    hashed = {name: model.encode(name, train.modalities[name]) for name in model.modalities_}
    return {
        (asked, answered): tuple(
            mean_average_precision(queries[asked], codes[answered], test.labels, train.labels)
            for codes in (model.codes_, hashed)
        )
        for asked, answered in permutations(model.modalities_, 2)
    }


def some(data: Paired, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: data.modalities[name] for name in names}


def together_table(train: Paired, test: Paired, seeds: int) -> str:
    """Compare one model of three modalities with three models of two modalities."""
    together: dict[Any, list[Any]] = {}
    apart: dict[Any, list[Any]] = {}
    for seed in range(seeds):
        model = DLFH(N_BITS, random_state=seed).fit(some(train, NAMES), train.labels)
        for direction, values in directions(model, train, test).items():
            together.setdefault(direction, []).append(values)
        for pair in combinations(NAMES, 2):
            model = DLFH(N_BITS, random_state=seed).fit(some(train, pair), train.labels)
            for direction, values in directions(model, train, test).items():
                apart.setdefault(direction, []).append(values)
    lines = [
        "| query → database | together, learned | pair by pair, learned | together, hashed | pair by pair, hashed |",
        "|---|---|---|---|---|",
    ]
    for direction in permutations(NAMES, 2):
        cells = [
            f"{np.mean(values[direction], axis=0)[protocol]:.3f}±{np.std(values[direction], axis=0)[protocol]:.3f}"
            for protocol in (0, 1)
            for values in (together, apart)
        ]
        lines.append(f"| {direction[0]} → {direction[1]} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def hide(n: int, share: float, seed: int) -> np.ndarray:
    """Return a mask of n points that is False for a random share of them."""
    return np.random.default_rng(1000 + seed).permutation(n) >= round(share * n)


PAIR = ("image", "english")


def fit_with_holes(kind: str, train: Paired, share: float, seed: int) -> DLFH:
    model = DLFH(N_BITS, random_state=seed)
    kept, modalities = hide(len(train), share, seed), some(train, PAIR)
    if kind == "English captions hidden":
        return model.fit(modalities, train.labels, present={"english": kept})
    if kind == "labels hidden":
        return model.fit(modalities, train.labels, labelled=kept)
    if kind == "labels hidden, one round of self-training":
        return model.set_params(self_training=1).fit(modalities, train.labels, labelled=kept)
    left = train.take(np.flatnonzero(kept))
    return model.fit(some(left, PAIR), left.labels)


KINDS = (
    "English captions hidden",
    "labels hidden",
    "labels hidden, one round of self-training",
    "points left out instead",
)


def hidden_curves(train: Paired, test: Paired, seeds: int) -> dict[str, np.ndarray]:
    """Return MAP by hidden part, shape (shares, seeds, directions), with a database hashed from complete features."""
    curves = {}
    for kind in KINDS:
        values = np.empty((len(HIDDEN), seeds, 2))
        for i, share in enumerate(HIDDEN):
            for seed in range(seeds):
                model = fit_with_holes(kind, train, share, seed)
                for d, (asked, answered) in enumerate((PAIR, PAIR[::-1])):
                    values[i, seed, d] = mean_average_precision(
                        model.encode(asked, test.modalities[asked]),
                        model.encode(answered, train.modalities[answered]),
                        test.labels,
                        train.labels,
                    )
            print(f"{kind} {share:.0%}: {values[i].mean(axis=0).round(3)}", file=sys.stderr, flush=True)
        curves[kind] = values
    return curves


def hidden_table(curves: dict[str, np.ndarray]) -> str:
    heads = " | ".join(f"{share:.0%}" for share in HIDDEN)
    lines = [f"| missing | query | {heads} |", "|---|---|" + "---|" * len(HIDDEN)]
    for kind, values in curves.items():
        for d, asked in enumerate(PAIR):
            cells = " | ".join(
                f"{m:.3f}±{s:.3f}" for m, s in zip(values[..., d].mean(1), values[..., d].std(1), strict=True)
            )
            lines.append(f"| {kind} | {asked} | {cells} |")
    return "\n".join(lines)


def plot(curves: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, constrained_layout=True)
    for d, (axis, title) in enumerate(
        zip(axes, ("an image asks for captions", "a caption asks for images"), strict=True)
    ):
        for kind, style in zip(curves, ("o-", "s-", "^--", "x:"), strict=True):
            mean, std = curves[kind][..., d].mean(axis=1), curves[kind][..., d].std(axis=1)
            axis.errorbar(
                100 * np.array(HIDDEN), mean, std, fmt=style, label=kind, capsize=2, markersize=4, linewidth=1.3
            )
        axis.set(xlabel="missing (% of the training points)", title=title)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("MAP, hashed database")
    axes[0].legend(fontsize=8, loc="lower left")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to, with the plot beside it")
    parser.add_argument("--seeds", type=int, default=3, help="seeds (default 3)")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("DLFH_DATA", ""))
    if not (folder / "iapr_tc12.npz").exists():
        parser.error("DLFH_DATA must name a folder that holds iapr_tc12.npz")
    train, test = load(folder)
    tables = {"machine": machine(), "together": together_table(train, test, arguments.seeds)}
    curves = hidden_curves(train, test, arguments.seeds)
    tables["hidden"] = hidden_table(curves)
    if arguments.write:
        fill(arguments.write, tables)
        plot(curves, arguments.write.parent / "images" / "holes.png")
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
