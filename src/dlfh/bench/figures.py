"""Figures: line plots and mean ranks, drawn reproducibly with Matplotlib."""

from __future__ import annotations

import abc
import base64
import functools
import importlib.util
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from dlfh._imports import missing
from dlfh.bench.tables import csv_text, markdown_text

#: The palette of Okabe and Ito, safe for colour-blind readers, without its yellow, which is too light for paper.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#8c564b")
STYLES = ("-", "--", ":")
_MARKERS = "os^Dv<>P"


@dataclass(frozen=True)
class Line:
    """A line: label, points, and its colour and style in the figure; colours repeat with another style."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: int = 0
    style: Literal["-", "--", ":", ""] = ""
    markers: bool = True


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False


@dataclass(frozen=True)
class Figure(abc.ABC):
    """A figure with its data; ``key`` is the base name of its files, ``remarks`` are sentences below it."""

    key: str
    title: str
    remarks: tuple[str, ...] = field(default=(), kw_only=True)

    @abc.abstractmethod
    def _csv_rows(self) -> Iterable[Sequence[str]]: ...

    @abc.abstractmethod
    def _draw(self, canvas: Any) -> None: ...

    def to_html(self) -> str:
        encoded = base64.b64encode(self._drawn["svg"]).decode()
        remarks = "".join(f'<p class="remark">{escape(remark)}</p>' for remark in self.remarks)
        return (
            f'<figure class="plot" id="{escape(self.key)}"><figcaption>{escape(self.title)}</figcaption>'
            f'<img alt="{escape(self.title)}" src="data:image/svg+xml;base64,{encoded}">{remarks}</figure>'
        )

    def to_markdown(self) -> str:
        title = markdown_text(self.title)
        link = f"![{title}](figures/{self.key}.svg)"
        return "\n\n".join([link, f"*{title}*", *map(markdown_text, self.remarks)])

    def files(self) -> dict[str, bytes]:
        contents = self._drawn | {"csv": csv_text(self._csv_rows()).encode()}
        return {f"figures/{self.key}.{suffix}": content for suffix, content in contents.items()}

    @functools.cached_property
    def _drawn(self) -> dict[str, bytes]:
        """The drawing as SVG and PNG; equal content gives equal bytes."""
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        options: Any = {
            **{"svg.hashsalt": self.key, "svg.fonttype": "path"},  # reproducible identifiers and letters
            **{"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True},
            **{"grid.color": "#dddddd", "grid.linewidth": 0.6, "lines.linewidth": 1.4, "lines.markersize": 3.5},
            **{"legend.frameon": False, "font.size": 9},
        }
        with matplotlib.rc_context(options):
            canvas = Canvas(layout="constrained")
            self._draw(canvas)
            canvas.draw_without_rendering()
            canvas.set_layout_engine("none")  # the same layout for both files
            drawn = {}
            for suffix, undated in (("svg", {"Date": None}), ("png", {"Software": None})):
                out = io.BytesIO()
                canvas.savefig(out, format=suffix, dpi=160, metadata=undated)
                drawn[suffix] = out.getvalue()
            return drawn


@dataclass(frozen=True)
class LineFigure(Figure):
    """Panels side by side with one legend."""

    panels: tuple[Panel, ...]
    per_row: int = 2

    def _csv_rows(self) -> Iterator[Sequence[str]]:
        yield "panel", "line", "x", "y"
        for panel in self.panels:
            for line in panel.lines:
                for x, y in zip(line.x, line.y, strict=True):
                    yield panel.title, line.label, f"{x:g}", f"{y:.6g}"

    def _draw(self, canvas: Any) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        n_columns = min(self.per_row, len(self.panels))
        n_rows = -(-len(self.panels) // n_columns)
        canvas.set_size_inches(3.9 * n_columns, 2.9 * n_rows + 0.5)
        axes = canvas.subplots(n_rows, n_columns, squeeze=False).ravel()
        for panel, axis in zip(self.panels, axes, strict=False):
            for line in panel.lines:
                style = line.style or STYLES[line.colour // len(_COLOURS) % len(STYLES)]
                colour = _COLOURS[line.colour % len(_COLOURS)]
                marker = _MARKERS[line.colour % len(_MARKERS)] if line.markers else None
                axis.plot(line.x, line.y, style, label=line.label, color=colour, marker=marker)
            axis.set_title(panel.title, fontsize=9.5)
            axis.set_xlabel(panel.x_label)
            axis.set_ylabel(panel.y_label)
            if panel.log_x:
                axis.set_xscale("log")
                axis.xaxis.set_major_locator(LogLocator(10))
                axis.xaxis.set_minor_locator(NullLocator())
        for axis in axes[len(self.panels) :]:
            axis.set_axis_off()
        found = [axis.get_legend_handles_labels() for axis in axes]
        handles = {label: handle for pairs in found for handle, label in zip(*pairs, strict=True)}
        longest = max(map(len, handles), default=1)
        n_legend = max(1, min(4, len(handles), 58 * n_columns // (longest + 8)))
        canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=n_legend)


@dataclass(frozen=True)
class RankFigure(Figure):
    """Mean ranks, best first, with bars as wide as the critical difference: rows whose bars do not overlap differ."""

    ranks: dict[str, float]
    difference: float

    def _csv_rows(self) -> Iterator[Sequence[str]]:
        yield "row", "rank", "low", "high"
        for label, rank in self.ranks.items():
            low, high = rank - self.difference / 2, rank + self.difference / 2
            yield label, f"{rank:.3f}", f"{low:.3f}", f"{high:.3f}"

    def _draw(self, canvas: Any) -> None:
        labels, ranks = list(self.ranks), list(self.ranks.values())
        canvas.set_size_inches(6.2, 0.9 + 0.2 * len(ranks))
        axis = canvas.subplots()
        half, edge = self.difference / 2, ranks[0] + self.difference / 2
        axis.axvspan(ranks[0] - half, edge, color=_COLOURS[0], alpha=0.08, linewidth=0)
        for place, rank in enumerate(ranks):
            colour = _COLOURS[0] if rank - half <= edge else _COLOURS[6]
            axis.plot((rank - half, rank + half), (place, place), color=colour, linewidth=2.2, solid_capstyle="butt")
            axis.plot(rank, place, "o", color=colour, markersize=5)
        axis.set_yticks(range(len(labels)), labels)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(labels) - 0.4, -0.6)
        axis.set_xticks([1, *range(5, len(labels) + 1, 5)])  # bars may extend beyond the possible ranks
        axis.set_xlabel("mean rank, 1 is best")


def check_can_draw() -> None:
    """Raise InputError if Matplotlib is not installed, before hours of computing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing("matplotlib", "drawing figures", "plots")
