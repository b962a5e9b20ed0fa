"""Draw the figures of docs/how-it-works.md from a model of the icons (`make figures`).

Colours are names (see theme/site.css), so that a drawing follows the colour scheme of the page or of the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from dlfh import DLFH, Encoder
from dlfh.codes import hamming_distances, unpack
from dlfh.datasets import load_dataset
from dlfh.features import BagOfWords, CombinedImage
from dlfh.metrics import mean_average_precision
from website.sources import ROOT

FOLDER = ROOT / "docs" / "images" / "figures"
STYLE = ROOT / "website" / "theme" / "site.css"
INK, SOFT, LINE, PANEL = "#1f2430", "#5b6270", "#c4cad4", "#f3f5f8"
ONE, ZERO, ACCENT, GOOD, PAPER = "#2b5fb3", "#e4e8ef", "#b4470f", "#1d7a4d", "#ffffff"
NAMES = {
    INK: "ink", SOFT: "soft", LINE: "line", PANEL: "panel", ONE: "one", ZERO: "zero", ACCENT: "accent", GOOD: "good",
    PAPER: "paper",
}  # fmt: skip
QUESTION = "football"
#: Two pictures that training learned codes of.
LEARNED = ("basketball", "cat")
Signs = npt.NDArray[np.int8]


class Trained(NamedTuple):
    """Icons, and a model trained on most of them."""

    encoder: Encoder
    train: Any
    unseen: Any
    queries: Any


@cache
def trained(n_bits: int) -> Trained:
    """Train on 957 icons; 200 are queries, and 289 are an unseen database."""
    rest, queries = load_dataset("icons").labelled().split(200, 0)
    train, unseen = rest.split(289, 0)
    features = {"image": CombinedImage(), "text": BagOfWords(analyzer="word+char", min_df=2)}
    encoder = Encoder(features, DLFH(n_bits=n_bits, hash_function="linear", random_state=0))
    encoder.fit({"image": list(train.images), "text": train.texts}, train.labels)
    return Trained(encoder, train, unseen, queries)


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty drawing whose unit is a hundredth of its width."""
    figure = plt.figure(figsize=(width, height))
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, 100), ylim=(0, 100 * height / width), aspect="equal")
    sheet.axis("off")
    return figure, sheet


def bits(sheet: Axes, x: float, y: float, signs: Signs, size: float, marked: Any = ()) -> None:
    """Draw a code with a square per bit, filled for +1."""
    for place, sign in enumerate(signs):
        left = x + place * size
        sheet.add_patch(Rectangle((left, y), size * 0.86, size * 0.86, color=ONE if sign > 0 else ZERO, lw=0))
        if place in marked:
            edge = Rectangle((left - size * 0.05, y - size * 0.05), size * 0.96, size * 0.96, fill=False)
            edge.set(edgecolor=ACCENT, linewidth=1.6)
            sheet.add_patch(edge)


def icon(sheet: Axes, picture: npt.NDArray[np.uint8], x: float, y: float, size: float) -> None:
    """Draw an icon as an outline in the text colour."""
    dark = 1 - np.asarray(picture, float)[::-1] / 255
    grid = np.linspace(0, size, dark.shape[0])
    sheet.contourf(x + grid, y + grid, dark, levels=[0.5, 1.5], colors=[INK])


def arrow(sheet: Axes, start: tuple[float, float], end: tuple[float, float], color: str = SOFT) -> None:
    """Draw an arrow."""
    sheet.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, lw=1.1, color=color))


def panel(sheet: Axes, x: float, y: float, width: float, height: float) -> None:
    """Draw a background panel."""
    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1", color=PANEL, lw=0)
    sheet.add_patch(shape)


def signs_of(encoder: Encoder, modality: str, value: Any) -> Signs:
    """Return the hashed code of a value as signs."""
    return unpack(encoder.encode(modality, [value]), encoder.n_bits)[0]


def code() -> Figure:
    """Draw a text and two pictures as codes of 32 bits, with their Hamming distances."""
    encoder, train, *_ = trained(32)
    figure, sheet = blank(8.6, 3.55)
    text = signs_of(encoder, "text", QUESTION)
    learned_codes = unpack(encoder.codes_["image"], 32)
    rows = [(QUESTION, None, text)]
    for name in LEARNED:
        row = train.ids.index(name)
        rows.append((name, train.images[row], learned_codes[row]))
    size, left = 1.62, 27.0
    for place, (name, picture, signs) in enumerate(rows):
        y = 32.2 - place * 12.4
        if picture is None:
            sheet.text(22.8, y + 2, f"“{name}”", ha="right", va="center", size=11, color=INK, style="italic")
            sheet.text(22.8, y - 1.1, "a text", ha="right", va="center", size=8.5, color=SOFT)
        else:
            icon(sheet, picture, 16.6, y - 2.1, 6.2)
            sheet.text(15.2, y + 2, name.replace("-", " "), ha="right", va="center", size=10, color=INK)
            sheet.text(15.2, y - 1.1, "a picture", ha="right", va="center", size=8.5, color=SOFT)
        arrow(sheet, (23.6, y + 0.8), (26.4, y + 0.8))
        differing = np.flatnonzero(signs != text)
        bits(sheet, left, y, signs, size, differing)
        if picture is not None:
            alike = len(differing) <= 8
            colour = GOOD if alike else ACCENT
            sheet.text(80.5, y + 2, f"{len(differing)} of 32 bits differ", va="center", size=10.5, color=colour)
            sheet.text(
                80.5, y - 1.1, "near: it is found" if alike else "far: it is not", va="center", size=8.5, color=SOFT
            )
        else:
            sheet.text(80.5, y + 2, "4 bytes", va="center", size=10.5, color=INK)
            sheet.text(80.5, y - 1.1, "full: +1, pale: −1", va="center", size=8.5, color=SOFT)
    return figure


def _grid(axes: Axes, values: npt.NDArray[Any], colours: dict[float, str], title: str, below: str) -> None:
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            axes.add_patch(Rectangle((column, -row), 0.88, 0.88, color=colours[float(value)], lw=0))
    axes.set(xlim=(-0.2, values.shape[1] + 0.1), ylim=(-len(values) + 0.8, 1.1), aspect="equal")
    axes.axis("off")
    axes.set_title(title, size=10.5, color=INK, pad=8)
    axes.text(values.shape[1] / 2, -len(values) + 0.35, below, size=8.5, color=SOFT, ha="center", va="top")


SHOWN = ["Weather", "Animals", "Food", "Sports"]


def _shown_points() -> tuple[npt.NDArray[np.int8], list[str]]:
    """Return the labels of twelve points, some of which have two."""
    sets = [[0], [0], [0], [0, 3], [1], [1], [1, 2], [2], [2], [2], [3], [3]]
    labels = np.zeros((len(sets), len(SHOWN)), np.int8)
    for row, chosen in enumerate(sets):
        labels[row, chosen] = 1
    return labels, SHOWN


def labels() -> Figure:
    """Draw labels, similarities, codes and the resulting distances."""
    given, names = _shown_points()
    rng = np.random.default_rng(0)
    points = {name: given @ rng.normal(size=(len(names), 6)) + rng.normal(0, 0.1, (len(given), 6)) for name in "xy"}
    model = DLFH(n_bits=16, hash_function="linear", random_state=1).fit(points, given)
    codes = {name: unpack(model.codes_[name], 16) for name in "xy"}
    distances = hamming_distances(model.codes_["x"], model.codes_["y"])
    figure, parts = plt.subplots(1, 4, figsize=(8.6, 3.1), width_ratios=[4, 12, 16, 12])
    figure.subplots_adjust(left=0.045, right=0.98, top=0.84, bottom=0.1, wspace=0.22)
    pale = {0.0: ZERO, 1.0: ONE}
    _grid(parts[0], given, pale, "labels", "4 labels")
    _grid(parts[1], (given @ given.T > 0).astype(int), {0.0: ZERO, 1.0: GOOD}, "similarities S", "12 texts")
    _grid(parts[2], codes["x"], {-1.0: ZERO, 1.0: ONE}, "codes of the images", "16 bits")
    for row, line in enumerate(distances):
        for column, value in enumerate(line):
            parts[3].add_patch(
                Rectangle((column, -row), 0.88, 0.88, color=GOOD, lw=0, alpha=0.06 + 0.94 * (1 - value / 16) ** 2)
            )
            parts[3].text(column + 0.44, 0.4 - row, str(value), size=5.6, ha="center", va="center", color=INK)
    parts[3].set(xlim=(-0.2, 12.1), ylim=(-11.2, 1.1), aspect="equal")
    parts[3].axis("off")
    parts[3].set_title("bits apart", size=10.5, color=INK, pad=8)
    parts[3].text(6, -11.65, "12 texts", size=8.5, color=SOFT, ha="center", va="top")
    parts[0].text(-0.9, -5, "12 images", size=8.5, color=SOFT, rotation=90, va="center", ha="center")
    for left, right in pairwise(parts):
        ends = [left.get_position().x1, right.get_position().x0]
        figure.text(sum(ends) / 2, 0.47, "→", size=13, color=SOFT, ha="center", va="center")
    return figure


def _log_likelihood(distances: npt.NDArray[Any], similar: npt.NDArray[Any], scale: float, c: int) -> npt.NDArray[Any]:
    """Return the log-likelihood of each pair, eq. (1)."""
    theta = scale / c * (c - 2 * distances)
    return similar * theta - np.logaddexp(0, theta)


def flip() -> Figure:
    """Draw the effect of one flip on the pairs of a row, and of all flips on the objective."""
    c, scale = 16, 8.0
    given, _ = _shown_points()
    similar = (given @ given.T > 0).astype(float)
    rng = np.random.default_rng(4)
    U, V = (rng.choice([-1, 1], (len(given), c)) for _ in range(2))

    def objective() -> float:
        return float(_log_likelihood((c - U @ V.T) / 2, similar, scale, c).sum())

    trace, first = [objective()], None
    for _ in range(4):
        for own, other, S in ((U, V, similar), (V, U, similar.T)):
            for row in range(len(own)):
                for bit in range(c):
                    before = (c - other @ own[row]) / 2
                    after = before + own[row, bit] * other[:, bit]
                    gain = (_log_likelihood(after, S[row], scale, c) - _log_likelihood(before, S[row], scale, c)).sum()
                    if gain > 1e-12:
                        if first is None and gain > 4:
                            first = before, after, S[row], gain
                        own[row, bit] *= -1
                        trace.append(objective())
    assert first is not None
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.3), width_ratios=[1.25, 1])
    figure.subplots_adjust(left=0.075, right=0.985, top=0.86, bottom=0.15, wspace=0.24)
    grid = np.linspace(0, c, 100)
    for value, colour, name in ((1, GOOD, "a pair that shares a label"), (0, ACCENT, "one that does not")):
        left.plot(grid, _log_likelihood(grid, np.full(100, value), scale, c), color=colour, lw=1.4, label=name)
    before, after, S, gain = first
    for start, end, kind in zip(before, after, S, strict=True):
        colour = GOOD if kind else ACCENT
        ys = [float(_log_likelihood(np.array(d), np.array(kind), scale, c)) for d in (start, end)]
        left.annotate(
            "", (end, ys[1]), (start, ys[0]),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2, "mutation_scale": 8, "shrinkA": 0},
        )  # fmt: skip
        left.plot(start, ys[0], "o", color=colour, ms=4)
    left.set_title(f"one bit flips: twelve pairs move by one, the sum rises by {gain:.1f}", size=9.5, color=INK)
    left.set_xlabel("bits apart")
    left.set_ylabel("log-likelihood of the pair")
    left.legend(frameon=False, fontsize=8.5, labelcolor=SOFT, loc="lower center")
    right.step(range(len(trace)), trace, color=ONE, lw=1.4, where="post")
    right.set_title(f"{len(trace) - 1} flips: it never falls", size=9.5, color=INK)
    right.set_xlabel("flips")
    right.set_ylabel("objective")
    for axes in (left, right):
        _plain_axes(axes)
    return figure


def _plain_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(LINE)
    axes.tick_params(colors=SOFT, labelsize=8, length=3)
    axes.xaxis.label.set(color=SOFT, size=8.5)
    axes.yaxis.label.set(color=SOFT, size=8.5)


def learned() -> Figure:
    """Draw the distances of right and wrong answers in learned, hashed and unseen databases."""
    encoder, train, unseen, queries = trained(64)
    asked = encoder.encode("text", queries.texts)
    seen = encoder.encode("image", train.images)
    new = encoder.encode("image", unseen.images)
    databases = {
        "learned": (
            encoder.codes_["image"],
            train,
            "training items, by their learned codes:\nthe codes know the labels",
        ),
        "hashed": (seen, train, "the same items, by the hash function:\nit has seen them, and remembers"),
        "unseen": (new, unseen, "items that training never saw:\nwhat yours will be"),
    }
    figure, parts = plt.subplots(1, 3, figsize=(8.6, 3.2), sharey=True)
    figure.subplots_adjust(left=0.03, right=0.985, top=0.8, bottom=0.3, wspace=0.1)
    for axes, (name, (codes, items, said)) in zip(parts, databases.items(), strict=True):
        distances = hamming_distances(asked, codes)
        right = np.array([[bool(set(a) & set(b)) for b in items.labels] for a in queries.labels])
        score = mean_average_precision(asked, codes, queries.labels, items.labels)
        for chosen, colour, label in ((~right, ACCENT, "shares no label"), (right, GOOD, "shares a label")):
            counts = np.bincount(distances[chosen], minlength=65)[:65] / chosen.sum()
            axes.fill_between(range(65), counts, step="mid", color=colour, alpha=0.35, lw=0)
            axes.step(range(65), counts, where="mid", color=colour, lw=1.2, label=label)
        axes.set_title(f"{name}: MAP {score:.2f}".replace("0.", "."), size=11, color=INK)
        axes.set(xlim=(0, 60), ylim=(0, 0.1), yticks=[])
        axes.set_xlabel("bits apart, of 64")
        _plain_axes(axes)
        axes.spines["left"].set_visible(False)
        axes.text(0.5, -0.36, said, transform=axes.transAxes, ha="center", va="top", size=8.5, color=SOFT)
    parts[0].legend(frameon=False, fontsize=8.5, labelcolor=SOFT, loc="upper right")
    return figure


def journey() -> Figure:
    """Draw the steps of a query: words, projection, signs, distances, answers."""
    encoder, train, *_ = trained(64)
    figure, sheet = blank(8.6, 3.9)
    vector = encoder.featurize("text", [QUESTION])
    values = encoder.project("text", [QUESTION])[0]
    signs = signs_of(encoder, "text", QUESTION)
    distances = hamming_distances(encoder.encode("text", [QUESTION]), encoder.codes_["image"])[0]
    nearest = np.argsort(distances, kind="stable")[:8]
    steps = [
        ("1  the question", "as a person asks it"),
        ("2  a vector", f"{vector.nnz} words and pieces of words of {vector.shape[1]:,}"),
        ("3  64 values", "each a weighted sum of the vector"),
        ("4  their signs", "the code: 8 bytes"),
        ("5  bits apart", f"from the codes of {len(train):,} pictures, {distances.min()} to {distances.max()}"),
        ("6  the nearest", "are the answers"),
    ]
    for place, (name, said) in enumerate(steps):
        x, y = 1.5 + 33 * (place % 3), 24.0 if place < 3 else 1.2
        panel(sheet, x, y, 30.5, 19.8)
        sheet.text(x + 1.4, y + 17.2, name, size=10, color=INK, va="center", weight="bold")
        sheet.text(x + 1.4, y + 14.6, said, size=7.8, color=SOFT, va="center")
        if place % 3 < 2:
            arrow(sheet, (x + 30.6, y + 9), (x + 32.9, y + 9))
    sheet.plot([82.8, 82.8, 16.8, 16.8], [23.8, 22.5, 22.5, 22.3], color=SOFT, lw=1.1)
    arrow(sheet, (16.8, 22.6), (16.8, 20.9))
    sheet.text(1.5 + 15.2, 31, f"“{QUESTION}”", size=13, color=INK, style="italic", ha="center", va="center")
    heights = np.zeros(120)
    heights[(vector.indices * 120) // vector.shape[1]] = vector.data / vector.data.max()
    for place, height in enumerate(heights):
        sheet.add_patch(
            Rectangle((35.9 + place * 0.23, 26), 0.17, max(height * 9, 0.18), color=ONE if height else LINE, lw=0)
        )
    scaled = values / np.abs(values).max()
    for place, value in enumerate(scaled):
        sheet.add_patch(
            Rectangle((69 + place * 0.43, 31.2), 0.34, value * 5.4, color=ONE if value > 0 else ACCENT, lw=0)
        )
    for row in range(4):
        bits(sheet, 4.2, 11.2 - row * 2.5, signs[row * 16 : row * 16 + 16], 1.62)
    counts = np.bincount(distances, minlength=65)
    for distance, count in enumerate(counts):
        colour = GOOD if distance <= distances[nearest[-1]] else LINE
        sheet.add_patch(Rectangle((36 + distance * 0.43, 3.2), 0.34, count / counts.max() * 10, color=colour, lw=0))
    for place, item in enumerate(nearest):
        icon(sheet, train.images[item], 69.2 + place % 4 * 6.8, 8.9 - place // 4 * 6.4, 5.2)
    return figure


FIGURES: dict[str, tuple[Callable[[], Figure], str]] = {
    "code": (code, "A text and two pictures as codes of 32 bits: few differ for a basketball, many for a cat"),
    "labels": (
        labels,
        "Labels of twelve points, the similarities that follow, the codes, and the distances between them",
    ),
    "flip": (flip, "A flipped bit moves each pair of a row along its log-likelihood; the objective never falls"),
    "learned": (learned, "Distances of right and wrong answers for learned, hashed and unseen items: they part less"),
    "journey": (journey, "A question becomes a vector, 64 values, 64 signs, distances to pictures, and the nearest"),
}


def write(name: str, folder: Path = FOLDER) -> Path:
    """Write one figure to a folder."""
    draw, said = FIGURES[name]
    settings: Any = {"svg.hashsalt": f"dlfh-{name}", "font.family": "DejaVu Sans", "svg.fonttype": "path"}
    with mpl.rc_context(settings):
        figure = draw()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.svg"
        figure.savefig(file, transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    file.write_text(_finished(file.read_text(encoding="utf-8"), name, said), encoding="utf-8")
    return file


def _finished(drawing: str, name: str, said: str) -> str:
    """Add colour names, an alternative text and unique ids to a drawing."""
    for colour, called in NAMES.items():
        drawing = drawing.replace(colour, f"var(--drawing-{called})")
    schemes = re.findall(r"\{\n(\s*--drawing.*?)\}", STYLE.read_text(encoding="utf-8"), re.DOTALL)
    light, dark = (" ".join(scheme.split()) for scheme in schemes)
    style = f"<style>:root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}</style>"
    drawing = re.sub(r'\bid="', f'id="{name}-', drawing)
    drawing = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<!--.*?-->", "", drawing, flags=re.DOTALL)
    opening = f'<svg role="img" aria-label="{said}" '
    head, body = drawing[drawing.index("<svg ") :].split(">", 1)
    return f"{head.replace('<svg ', opening, 1)}>{style}{body}"


if __name__ == "__main__":
    for each in FIGURES:
        print(write(each).relative_to(ROOT))
