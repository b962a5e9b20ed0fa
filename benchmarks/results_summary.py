"""Summary tables of the reports in docs/results, for the pages that discuss them.

    python -m benchmarks.results_summary --write

`make results` runs this last.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
import tomllib
from collections import defaultdict
from pathlib import Path

from benchmarks.report import fill
from dlfh.bench.tune import default_grid
from dlfh.methods.catalogue import METHODS

RESULTS = Path(__file__).parent.parent / "docs" / "results"
DATA = {"icons": "icons", "wiki": "Wiki", "iapr-tc12": "IAPR TC-12"}
PROTOCOLS = ("unseen", "hashed", "learned")

#: Methods with a default that was first chosen by MAP of queries.
_ONCE_ON_QUERIES = ("CMFH", "CMSSH", "CRH", "CVH", "MLBE", "SMFH")

#: Where all methods were compared, as published and tuned.
COMPARED = ("wiki", "icons", "iapr-tc12")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _columns() -> list[str]:
    return [f"{DATA[name]}, {protocol}" for name in COMPARED for protocol in PROTOCOLS]


def _best_first(setting: str) -> str:
    """Return MAP with 64 bits ± standard deviation of every row, sorted by unseen databases.

    The best of each column is in bold.
    """
    means: dict[str, dict[str, float]] = defaultdict(dict)
    spread: dict[str, dict[str, str]] = defaultdict(dict)
    for name in COMPARED:
        for row in _rows(RESULTS / f"{name}-{setting}" / "tables" / "map-overview.csv"):
            if row["group"] == "mean" and row["mean"]:
                column = f"{DATA[name]}, {row['column']}"
                means[row["row"]][column] = float(row["mean"])
                spread[row["row"]][column] = f" ±{_short(row['std'])}" if row["std"] else ""
    columns = _columns()
    deciding = [column for column in columns if column.endswith("unseen")]
    order = sorted(means, key=lambda label: -sum(means[label].get(column, 0) for column in deciding))
    best = {column: max(row[column] for row in means.values() if column in row) for column in columns}
    lines = ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for label in order:
        cells = []
        for column in columns:
            value = means[label].get(column)
            text = "–" if value is None else _short(f"{value:.3f}")
            cells.append(f"**{text}**" if value == best[column] else text)
            cells[-1] += spread[label].get(column, "")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(number: str) -> str:
    return number.removeprefix("0") or number


def published() -> str:
    """Return MAP of every method with its authors' settings."""
    return _best_first("published")


def tuned() -> str:
    """Return MAP of every method with the parameters chosen on validation points."""
    return _best_first("tuned")


def chosen() -> str:
    """Return the parameters chosen on validation points, by method and data set."""
    files = {name: tomllib.loads((RESULTS / f"{name}-tuned" / "tuned.toml").read_text()) for name in COMPARED}
    columns = [DATA[name] for name in COMPARED]
    lines = ["| method | values tried | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for method in sorted({method for each in files.values() for method in each["methods"]}):
        grid = default_grid(method)
        tried = "; ".join(f"`{name}` {', '.join(map(str, values))}" for name, values in grid.items())
        cells = [
            ", ".join(str(each["parameters"][method][name]) for name in grid) if method in each["methods"] else "–"
            for each in files.values()
        ]
        lines.append(f"| {method} | {tried} | {' | '.join(cells)} |")
    return "\n".join(lines)


def again() -> str:
    """Return validation MAP of the defaults originally chosen on queries, and of the best alternative on average."""
    scores: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for name in COMPARED:
        for row in _rows(RESULTS / f"{name}-tuned" / "tuned-candidates.csv"):
            if row["mean"]:
                scores[row["method"]][row["parameters"]][name] = float(row["mean"])
    lines = ["| method | parameters | " + " | ".join(DATA[name] for name in COMPARED) + " |", "|---|---|---|---|---|"]
    for method in _ONCE_ON_QUERIES:
        known = METHODS[method]().get_params(deep=False)
        usual = ", ".join(f"{name} = {known[name]}" for name in default_grid(method))
        others = [each for each in scores[method] if each != usual]
        best = max(others, key=lambda each: sum(scores[method][each].values()))
        for parameters, said in ((usual, " (default)"), (best, "")):
            cells = [scores[method][parameters].get(name) for name in COMPARED]
            shown = ["–" if cell is None else _short(f"{cell:.3f}") for cell in cells]
            lines.append(f"| {method} | {parameters}{said} | {' | '.join(shown)} |")
    return "\n".join(lines)


def leading() -> str:
    """Compare DLFH, with defaults and tuned, with the best other tuned method.

    Level is within one standard error of the difference of two means over runs.
    """
    lines = [
        "| database | DLFH, defaults | DLFH, tuned | best other, tuned | DLFH with defaults is |",
        "|---|" + "---|" * 4,
    ]
    for name, protocol in itertools.product(COMPARED, PROTOCOLS):
        tuned = _runs(name, "tuned", protocol)
        ours = _runs(name, "published", protocol)["DLFH"]
        best = max(tuned.keys() - {"DLFH"}, key=lambda row: statistics.fmean(tuned[row]))
        behind = statistics.fmean(tuned[best]) - statistics.fmean(ours)
        error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (ours, tuned[best]) if len(each) > 1))
        verdict = "first" if behind <= 0 else "level" if behind <= error else f"behind by {_short(f'{behind:.3f}')}"
        cells = [_with_error(ours), _with_error(tuned["DLFH"]), f"{best} {_with_error(tuned[best])}", verdict]
        lines.append(f"| {DATA[name]}, {protocol} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _runs(name: str, setting: str, protocol: str) -> dict[str, list[float]]:
    """Return MAP with 64 bits of every run, mean over directions, by row."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in _rows(RESULTS / f"{name}-{setting}" / "tables" / "map-runs.csv"):
        if row["protocol"] == protocol and row["bits"] == "64" and row["map"]:
            found[row["row"], row["seed"]].append(float(row["map"]))
    runs: dict[str, list[float]] = defaultdict(list)
    for (label, _), directions in found.items():
        runs[label].append(statistics.fmean(directions))
    return runs


def _with_error(runs: list[float]) -> str:
    error = f" ±{_short(f'{statistics.stdev(runs) / math.sqrt(len(runs)):.3f}')}" if len(runs) > 1 else ""
    return _short(f"{statistics.fmean(runs):.3f}") + error


def ranks() -> str:
    """Return mean ranks of the tuned methods by protocol, and the number of significant differences of each."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for protocol in PROTOCOLS:
        for row in _rows(RESULTS / "rank-tuned" / "tables" / f"rank-{protocol}.csv"):
            found[row["row"]][f"{protocol} {row['column']}"] = row["mean"]
    heads = [f"{protocol}{what}" for protocol in PROTOCOLS for what in ("", ", ahead of", ", behind")]
    lines = ["| method | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for label, row in sorted(found.items(), key=lambda item: float(item[1]["unseen all"])):
        cells = [row[f"{protocol} {what}"] for protocol in PROTOCOLS for what in ("all", "ahead of", "behind")]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return our training times and the paper's, by method and number of points."""
    ours: dict[str, dict[str, str]] = defaultdict(dict)
    theirs: dict[str, dict[str, str]] = defaultdict(dict)
    for row in _rows(RESULTS / "nus-wide-time" / "tables" / "time.csv"):
        published = row["row"].endswith(" (published)")
        (theirs if published else ours)[row["row"].removesuffix(" (published)")][row["column"]] = row["mean"]
    return ours, theirs


def seconds() -> str:
    """Return training times, ours / the paper's, on data of NUS-WIDE's shape."""
    ours, theirs = _seconds()
    sizes = list(next(iter(ours.values())))
    lines = ["| method | " + " | ".join(sizes) + " |", "|---|" + "---|" * len(sizes)]
    for method, row in ours.items():
        cells = []
        for size in sizes:
            beside = theirs.get(method, {}).get(size)
            value = row[size] or "–"
            cells.append(value if beside is None else f"{value} / {beside or '–'}")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


#: Seconds that these took on 184,710 points before products were left sparse, in their own precision, and made once.
_BEFORE = {"SMFH": 130.55, "LFH": 44.82, "PDH": 43.82, "CMSSH": 34.25, "SCM": 7.45, "CCAITQ": 7.20}


def seconds_in_words() -> str:
    """Return a summary of the training times on all points: DLFH, slower methods, and the paper."""
    ours, theirs = _seconds()
    most = list(next(iter(ours.values())))[-1]
    default, paper, kernel = (ours[row][most] for row in ("DLFH", "DLFH paper", "KDLFH"))
    said = [
        f"From all {most} points DLFH learns in {default} s with its defaults, in {paper} s in the paper's setting "
        "(the paper: "
        f"{theirs['DLFH paper'][most]} s on twelve cores), KDLFH in {kernel} s ({theirs['KDLFH'][most]} s)."
    ]
    slower = [
        f"{method} ({ours[method][most]} s against {row[most]} s)"
        for method, row in theirs.items()
        if row.get(most) and ours[method].get(most) and float(ours[method][most]) > float(row[most])
    ]
    said.append(f"Slower than in the paper: {', '.join(slower) or 'none'}.")
    faster = [
        f"{method} {before} s, now {ours[method][most]} s"
        for method, before in _BEFORE.items()
        if ours[method][most] and float(ours[method][most]) < 0.9 * before
    ]
    if faster:
        said.append(f"Before sparse features stayed sparse and products were made once: {'; '.join(faster)}.")
    return " ".join(said)


def unified() -> str:
    """Return MAP of unified and of hashed codes, with the longest codes, image → text / text → image."""
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


#: Rankings: the measure's name in the reports, and its label in the rows.
RANKINGS = {"map": "", "asymmetric-map": ", asymmetric"}


def codes() -> str:
    """Return the effect of balance and exact steps: MAP unseen / hashed / learned, mean over directions."""
    return _steps((16, 32, 64), RANKINGS)


def _steps(lengths: tuple[int, ...], rankings: dict[str, str]) -> str:
    """Return the settings of benchmarks/codes.toml by data set and code length, with a row per ranking."""
    data = {name: title for name, title in DATA.items() if (RESULTS / f"{name}-codes").exists()}
    means: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (name, title), (measure, ranking) in itertools.product(data.items(), rankings.items()):
        for protocol in PROTOCOLS:
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
    """Return MAP on unseen databases by scale, mean over directions: before / now."""
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
    "defaults.md": {"summary": headline, "codes": codes, "scales": scales},
    "experiments.md": {
        "published": published,
        "tuned": tuned,
        "leading": leading,
        "chosen": chosen,
        "ranks": ranks,
        "seconds": seconds,
        "seconds-in-words": seconds_in_words,
    },
    "methods.md": {"again": again, "unified": unified},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables to the documents")
    arguments = parser.parse_args()
    for name, tables in DOCUMENTS.items():
        made = {place: table() for place, table in tables.items()}
        if arguments.write:
            fill(RESULTS.parent / name, made)
        else:
            print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
