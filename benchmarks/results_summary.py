"""Short tables of what `dlfh bench` wrote into docs/results, for the pages that explain it.

    python -m benchmarks.results_summary --write

`make results` ends with it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from collections import defaultdict
from pathlib import Path

from benchmarks.report import fill

RESULTS = Path(__file__).parent.parent / "docs" / "results"
DATA = {"icons": "icons", "wiki": "Wiki", "iapr-tc12": "IAPR TC-12"}
PROTOCOLS = ("learned", "hashed", "unseen")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _means(reports: dict[str, str]) -> dict[tuple[str, str], float]:
    """Return MAP with the longest codes, mean over directions, by method and by data set and protocol."""
    return {
        (row["row"], f"{DATA[name]}, {row['column']}"): float(row["mean"])
        for name, report in reports.items()
        for row in _rows(RESULTS / report / "tables" / "map-overview.csv")
        if row["group"] == "mean"
    }


def _best_first(means: dict[tuple[str, str], float], columns: list[str], deciding: list[str]) -> str:
    """Return a table of methods, the best in the deciding columns first, the best of each column in bold."""
    methods = dict.fromkeys(method for method, _ in means)
    order = sorted(methods, key=lambda method: -sum(means[method, column] for column in deciding))
    best = {column: max(means[method, column] for method in methods) for column in columns}
    lines = ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for method in order:
        cells = []
        for column in columns:
            text = f"{means[method, column]:.3f}".lstrip("0")
            cells.append(f"**{text}**" if means[method, column] == best[column] else text)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def accuracy() -> str:
    """Return MAP by data set and protocol as the paper's experiments gave it."""
    columns = [f"{title}, {protocol}" for title in DATA.values() for protocol in PROTOCOLS]
    return _best_first(_means({name: name for name in DATA}), columns, columns)


def unseen_first() -> str:
    """Return MAP of every method that there is on Wiki and the icons, by what unseen databases say."""
    names = ("wiki", "icons")
    columns = [f"{DATA[name]}, {protocol}" for name in names for protocol in reversed(PROTOCOLS)]
    means = _means({name: f"{name}-methods" for name in names})
    return _best_first(means, columns, [column for column in columns if "unseen" in column])


def seconds() -> str:
    """Return training times, ours / the paper's, on data of NUS-WIDE's shape."""
    ours: dict[str, dict[str, str]] = defaultdict(dict)
    theirs: dict[str, dict[str, str]] = defaultdict(dict)
    for row in _rows(RESULTS / "nus-wide-time" / "tables" / "time.csv"):
        published = row["row"].endswith(" (published)")
        (theirs if published else ours)[row["row"].removesuffix(" (published)")][row["column"]] = row["mean"]
    sizes = list(next(iter(ours.values())))
    lines = ["| method | " + " | ".join(sizes) + " |", "|---|" + "---|" * len(sizes)]
    for method, row in ours.items():
        cells = []
        for size in sizes:
            beside = theirs.get(method, {}).get(size)
            own = row[size] or "–"
            cells.append(own if beside is None else f"{own} / {beside or '–'}")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def unified() -> str:
    """Return MAP of unified codes beside that of hashed ones, with the longest codes, image → text / text → image."""
    heads = [f"{DATA[name]}, {protocol}" for name in ("wiki", "iapr-tc12") for protocol in ("hashed", "unified")]
    lines = ["| method | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    cells: dict[str, list[str]] = defaultdict(list)
    for name in ("wiki", "iapr-tc12"):
        rows = {
            "hashed": _rows(RESULTS / name / "tables" / "map-hashed.csv"),
            "unified": _rows(RESULTS / f"{name}-unified" / "tables" / "map-unified.csv"),
        }
        methods = dict.fromkeys(row["row"] for row in rows["unified"])
        longest = rows["unified"][-1]["column"]
        for each in rows.values():
            for method in methods:
                means = [row["mean"] for row in each if (row["row"], row["column"]) == (method, longest)]
                cells[method].append(" / ".join(mean.lstrip("0") for mean in means))
    lines += [f"| {method} | {' | '.join(each)} |" for method, each in cells.items()]
    return "\n".join(lines)


#: How a database is ranked: the measure's name in the reports, and what rows say of it.
RANKINGS = {"map": "", "asymmetric-map": ", asymmetric"}


def codes() -> str:
    """Return what balance and exact steps bring: MAP unseen / hashed / learned, mean over directions."""
    return _steps((16, 32, 64), RANKINGS)


def _steps(lengths: tuple[int, ...], rankings: dict[str, str]) -> str:
    """Return the settings of benchmarks/codes.toml by data set and code length, each ranking in a row of its own."""
    data = {name: title for name, title in DATA.items() if (RESULTS / f"{name}-codes").exists()}
    means: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (name, title), (measure, ranking) in itertools.product(data.items(), rankings.items()):
        for protocol in ("unseen", "hashed", "learned"):
            values: dict[tuple[str, str], list[float]] = defaultdict(list)
            table = RESULTS / f"{name}-codes" / "tables" / f"{measure}-{protocol}.csv"
            for row in _rows(table) if table.exists() else ():
                values[row["row"] + ranking, f"{title}, {row['column']}"].append(float(row["mean"]))
            for place, each in values.items():
                means[place].append(f"{sum(each) / len(each):.3f}".lstrip("0"))
    settings = [row for row in dict.fromkeys(row for row, _ in means) if not row.endswith(", asymmetric")]
    rows = [setting + ranking for setting in settings for ranking in rankings.values()]
    columns = [f"{title}, {bits} bits" for title in data.values() for bits in lengths]
    lines = ["| setting | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {row} | {' | '.join(' / '.join(means.get((row, column), ['–'])) for column in columns)} |" for row in rows
    ]
    return "\n".join(lines)


def headline() -> str:
    """Return the paper's setting, linear functions and the defaults from the table of all steps."""
    table = _steps((16, 64), {"map": ""}).split("\n")
    rows = [line for name in ("DLFH paper", "DLFH linear", "DLFH") for line in table if line.startswith(f"| {name} |")]
    return "\n".join([*table[:2], *rows])


def scales() -> str:
    """Return MAP on unseen databases by the scale, mean over directions: as it was before / now."""
    data = {name: title for name, title in DATA.items() if (RESULTS / f"{name}-scale").exists()}
    means: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for name, title in data.items():
        for row in _rows(RESULTS / f"{name}-scale" / "tables" / "map-unseen.csv"):
            setting, scale = row["row"].removeprefix("DLFH ").split(", scale ")
            means[setting, scale, f"{title}, {row['column']}"].append(float(row["mean"]))
    columns = dict.fromkeys(column for _, _, column in means)
    lines = ["| λ | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for scale in dict.fromkeys(scale for _, scale, _ in means):
        cells = [[means[setting, scale, column] for setting in ("before", "linear")] for column in columns]
        shown = [" / ".join(f"{sum(each) / len(each):.3f}".lstrip("0") for each in pair) for pair in cells]
        lines.append(f"| {scale} | {' | '.join(shown)} |")
    return "\n".join(lines)


#: The tables of each document, by the name of their place in it.
DOCUMENTS = {
    "../README.md": {"readme": headline},
    "defaults.md": {"codes": codes, "scales": scales},
    "experiments.md": {"unseen-first": unseen_first, "accuracy": accuracy, "seconds": seconds},
    "methods.md": {"unified": unified},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the documents")
    arguments = parser.parse_args()
    for name, tables in DOCUMENTS.items():
        made = {place: table() for place, table in tables.items()}
        if arguments.write:
            fill(RESULTS.parent / name, made)
        else:
            print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
