"""Tables, figures, settings, the report, and the commands' errors."""

from __future__ import annotations

import base64
import csv
import io
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.beside import published_map, published_seconds
from dlfh.bench.cache import Cache, Result
from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.figures import Figure, Line, Panel
from dlfh.bench.page import to_page
from dlfh.bench.plan import Plan, Section
from dlfh.bench.runner import Limits, Results, Runner
from dlfh.bench.settings import Settings
from dlfh.bench.sources import load_source
from dlfh.bench.tables import Entry, Table, TableRow, mark_best, summarize
from dlfh.bench.toml import to_toml
from dlfh.bench.tune import Search, Trial, parse_grid
from dlfh.cli import main
from dlfh.datasets import make_paired, write_paired
from dlfh.errors import InputError

NOTES = ["", "needs more than 8 GB of memory", "n_pairs = 5 & 50% <of> it"]
entries = st.builds(
    Entry,
    mean=st.none() | st.floats(0, 999),
    std=st.none() | st.floats(0, 9),
    runs=st.integers(0, 9),
    is_best=st.booleans(),
    note=st.sampled_from(NOTES),
)
rows = st.builds(TableRow, st.sampled_from(["DLFH", "A_B & C"]), st.tuples(entries, entries), st.sampled_from(NOTES))
tables = st.builds(
    Table,
    st.just("key"),
    st.just("MAP"),
    st.just((("image → text", "16 bits"), ("text → image", "16 bits"))),
    st.lists(rows, min_size=1, max_size=4).map(tuple),
    digits=st.sampled_from([2, 3]),
)


def in_csv(table: Table) -> list[tuple[str, str, bool]]:
    found = csv.DictReader(io.StringIO(table.to_csv()))
    return [(row["mean"] or "–", row["std"], row["best"] == "yes") for row in found]


def in_html(table: Table) -> list[tuple[str, str, bool]]:
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table.to_html())
    plain = [re.sub(r"<sup>\d+</sup>", "", cell) for cell in cells]
    parts = [re.fullmatch(r"(<strong>)?([\d.–]+)(?:</strong>)?(?:<small>±([\d.]+)</small>)?", cell) for cell in plain]
    return [(part[2], part[3] or "", bool(part[1])) for part in parts if part]


def in_latex(table: Table) -> list[tuple[str, str, bool]]:
    body = table.to_latex().split(r"\midrule")[1].split(r"\bottomrule")[0]
    found = []
    for line in body.strip().splitlines():
        for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))[1:]:
            plain = re.sub(r"\$\^\{\d+\}\$", "", cell).strip()
            part = re.fullmatch(r"(\\textbf\{)?([\d.]+|--)\}?(?:\{\\scriptsize\$\\pm\$([\d.]+)\})?", plain)
            assert part
            found.append((part[2].replace("--", "–"), part[3] or "", bool(part[1])))
    return found


def in_markdown(table: Table) -> list[tuple[str, str, bool]]:
    found = []
    for line in table.to_markdown().splitlines()[2 : 2 + len(table.rows)]:
        for cell in line.strip("| ").split(" | ")[1:]:
            part = re.fullmatch(r"(\*\*)?([\d.–]+)(?:\*\*)?(?: ±([\d.]+))?", re.sub(r"<sup>\d+</sup>", "", cell))
            assert part
            found.append((part[2], part[3] or "", bool(part[1])))
    return found


@given(tables)
def test_csv_html_latex_and_markdown_hold_the_same_numbers(table: Table) -> None:
    assert in_csv(table) == in_html(table) == in_latex(table) == in_markdown(table)
    assert len(in_csv(table)) == 2 * len(table.rows)


def unlatex(text: str) -> str:
    return text.replace(r"\textless{}", "<").replace(r"\textgreater{}", ">").replace("\\", "")


@given(tables)
def test_every_footnote_is_there_in_every_form(table: Table) -> None:
    for note in table.notes():
        assert note in unescape(table.to_html())
        assert note in table.to_csv()
        assert note in table.to_text()
        assert note in unlatex(table.to_latex())
        assert note in table.to_markdown().replace("\\", "")


def test_markdown_shows_odd_text_as_it_is_and_published_rows_in_italics() -> None:
    rows = TableRow("A|B*<i>", (Entry(0.25),)), TableRow("A", (Entry(0.5),), published=True)
    table = Table("key", "MAP", (("", "a_b"),), rows, digits=2, remarks=("Published: elsewhere.",))
    assert table.to_markdown().splitlines() == [
        r"| method | a\_b |",
        "| --- | ---: |",
        r"| A\|B\*\<i\> | 0.25 |",
        "| *published* | *0.50* |",
        "",
        "<sub>Published: elsewhere.</sub>",
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_best_is_what_looks_best(means: list[float]) -> None:
    marked = mark_best([TableRow(str(i), (Entry(mean),)) for i, mean in enumerate(means)])
    shown = [row.entries[0].numbers(3)[0] for row in marked]
    assert [row.entries[0].is_best for row in marked] == [text == max(shown) for text in shown]


def test_what_some_seeds_could_not_do_is_said() -> None:
    entry = summarize([0.5, None, 0.7], ["", "not finished in 5 minutes", ""])
    assert (entry.mean, entry.runs, entry.note) == (pytest.approx(0.6), 2, "2 of 3 runs: not finished in 5 minutes")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "methods": st.lists(st.sampled_from(["DLFH", "SCM", "DLFH paper"]), min_size=1, unique=True),
            "bits": st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True),
            "seeds": st.integers(1, 9),
            "resplit": st.booleans(),
            "held_out": st.sampled_from([0.0, 0.25]),
            "queries": st.integers(1, 99),
            "cell_minutes": st.floats(0.1, 99),
            "time": st.fixed_dictionaries({"sizes": st.lists(st.integers(1, 99), unique=True)}),
            "parameters": st.fixed_dictionaries({"SCM": st.just({"ridge": 0.5}), "CRH": st.just({})}),
        },
    )
)
def test_settings_come_back_from_toml(plain: dict[str, object]) -> None:
    settings = Settings.from_plain(plain)
    assert Settings.from_plain(tomllib.loads(settings.to_toml())) == settings


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        ({"bit": [8]}, "unknown setting 'bit': there are at, bits,"),
        ({"time": {"size": [8]}}, r"unknown setting time\.'size': there are bits, sizes"),
        ({"bits": 8}, "bits must be a list, got 8"),
        ({"bits": [0]}, "bits must be code lengths from 1 to 512"),
        ({"bits": ["8"]}, "bits must be a whole number, got '8'"),
        ({"seeds": 0}, "seeds must be positive, got 0"),
        ({"seeds": True}, "seeds must be a whole number, got True"),
        ({"held_out": 1.5}, "held_out must be at least 0 and less than 1"),
        ({"methods": ["DLHF"]}, "unknown method 'DLHF': there are ACQ, CCAITQ"),
        ({"methods": ["DLFH", "DLFH"]}, "methods has DLFH twice"),
        ({"methods": []}, "methods must not be empty"),
        ({"bits": [16, 16]}, "bits has 16 twice"),
        ({"protocols": ["learned", "learned"]}, "protocols has learned twice"),
        ({"memory_gb": float("nan")}, "memory_gb must be finite"),
        ({"time": {"sizes": [-5]}}, r"time\.sizes must be positive, got -5"),
        ({"convergence": {"size": -3}}, r"convergence\.size must be positive"),
        ({"convergence": {"iterations": 0}}, r"convergence\.iterations must be positive"),
        ({"convergence": {"bits": []}}, r"convergence\.bits must not be empty"),
        ({"curves": {"methods": 0}}, r"curves\.methods must be positive"),
        ({"sensitivity": {"rows": []}}, r"sensitivity\.rows must not be empty"),
        ({"sensitivity": {"rows": ["SCM"]}}, r"sensitivity\.rows must be rows of DLFH or KDLFH"),
        ({"sensitivity": {"scales": [-1.0]}}, r"sensitivity\.scales must be positive"),
        ({"sensitivity": {"scales": [float("nan")]}}, r"sensitivity\.scales must be finite"),
        ({"parameters": {"DLFH": {"scale": float("inf")}}}, "scale of DLFH must be finite"),
        ({"parameters": {"DLFH": {"scale": [1]}}}, "scale of DLFH must be a number, a string"),
        ({"parameters": {"SePH": {"train_points": "x"}}}, "train_points of SePH must be a whole number"),
        ({"parameters": {"SePH": {"train_points": 0}}}, "train_points of SePH must be a whole number of at least 1"),
        ({"protocols": ["seen"]}, "unknown protocol 'seen': there are learned, hashed, unseen, unified"),
        ({"parameters": {"DLFH": {"lambda": 1}}}, "DLFH has no parameter 'lambda': it has "),
        ({"parameters": 1}, "parameters must be tables by row"),
        ({"time": 1}, r"time must be a table, \[time\], got 1"),
        ({"curves": {"bits": 7}}, r"curves\.bits is 7, which is none of the bits"),
    ],
)
def test_wrong_settings_are_one_sentence(plain: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Settings.from_plain(plain)


def test_toml_of_odd_keys_and_empty_tables_is_read_back() -> None:
    values = {"a": [1, 2.5, 'x"y'], "b": True, "parameters": {"DLFH paper": {"init": "random"}, "CRH": {}}}
    assert tomllib.loads(to_toml(values)) == values


def figure() -> Figure:
    lines = (Line("DLFH", (1, 10, 100), (0.5, 0.6, 0.7)), Line("SCM", (1, 10, 100), (0.4, 0.5, 0.6), 9))
    return Figure("sweep", "MAP against λ", (Panel("a", "λ", "MAP", lines, log_x=True), Panel("b", "m", "MAP", lines)))


def test_a_figure_is_the_same_bytes_every_time() -> None:
    assert figure().svg == figure().svg
    assert figure().png == figure().png
    assert figure().png.startswith(b"\x89PNG")
    assert figure().to_csv().splitlines()[:2] == ["panel,line,x,y", "a,DLFH,1,0.5"]


def page() -> str:
    table = Table("map", "MAP <&>", (("image → text", "16"),), (TableRow("DLFH", (Entry(0.5, 0.1, 2, True),)),))
    sections = [Section("one", "One", ("A <paragraph>.",), (table, replace(table, key="more"), figure()))]
    return to_page("Report", ["lead"], sections, {"processor": "a <machine>"}, 'methods = ["DLFH"]\n')


def test_the_report_refers_to_nothing_outside_itself() -> None:
    html = page()
    assert "<script" not in html
    for target in re.findall(r'(?:href|src|url)\s*[=(]\s*"?([^"\s>)]+)', html):
        assert target.startswith(("#", "data:image/svg+xml;base64,")), target
    assert "http" not in html
    for anchor in re.findall(r'href="#([^"]+)"', html):
        assert f'id="{anchor}"' in html
    for encoded in re.findall(r"base64,([A-Za-z0-9+/=]+)", html):
        svg = base64.b64decode(encoded).decode()
        assert not re.findall(r'href="(?!#)', svg)
    assert "A &lt;paragraph&gt;." in html
    assert "a &lt;machine&gt;" in html


def test_the_report_opens_in_a_browser_without_errors(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium to open the report in")
    (tmp_path / "report.html").write_text(page(), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{tmp_path / 'report.html'}"]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<strong>0.500</strong>" in seen
    assert seen.count("<figure") == 3


@pytest.fixture(scope="module")
def source() -> Source:
    return Source.of("generated", {"all": make_paired(120, n_labels=4, random_state=0)})


def faked(plan: Plan, experiment: str) -> Results:
    """Return results that say how their cells were, without computing anything."""
    score = {"map": 0.5, "map_at": 0.6, "precision_at": 0.7, "ranks": [1, 9], "precision": [1, 0.1], "recall": [0, 1]}
    protocols = {name: dict.fromkeys(plan.directions, score) for name in plan.settings.protocols}
    result = Result({"protocols": protocols}, {"fit": 2.0, "total": 3.0, "processor": 1.0, "peak_bytes": 10**9})
    return Results(dict.fromkeys(EXPERIMENTS[experiment].cells(plan), result))


def test_published_values_stand_beside_ours_where_the_data_set_is_the_same(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["DLFH paper", "DLFH", "CCAITQ", "ACQ"], "bits": [16, 128], "seeds": 1})
    real = replace(source, name="NUS-WIDE", like="nus-wide", as_published=True)
    sections = EXPERIMENTS["map"].sections(Plan(real, settings), faked(Plan(real, settings), "map"))
    table = next(section for section in sections if section.key == "map-learned").blocks[0]
    assert isinstance(table, Table)
    published = {row.label: [entry.mean for entry in row.entries] for row in table.rows if row.published}
    assert published == {"DLFH paper": [0.635, None, 0.769, None], "CCAITQ": [0.396, None, 0.39, None]}
    assert not any(entry.is_best for row in table.rows if row.published for entry in row.entries)
    imitated = replace(real, as_published=False)
    assert published_map(imitated, settings, "CCAITQ", "image → text", 16) is None
    assert published_seconds(imitated, settings, "CCAITQ", 1000) == 0.56
    assert published_seconds(imitated, settings, "CCAITQ", 184_711) == 4.25
    assert published_seconds(imitated, settings, "CCAITQ", 2000) is None
    assert published_seconds(imitated, settings, "MLBE", 5000) is None
    assert published_seconds(source, settings, "CCAITQ", 1000) is None


def test_a_report_says_what_becomes_of_accuracy_from_protocol_to_protocol(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16, 32], "seeds": 1}))
    results = faked(plan, "map")
    for cell, result in results.items():
        if cell.method == "SCM":
            scores = {name: dict(result.values["protocols"]["learned"]) for name in plan.settings.protocols}
            for name, value in {"learned": 0.7, "hashed": 0.3, "unseen": 0.1}.items():
                scores[name] = {way: {**score, "map": value} for way, score in scores[name].items()}
            results._found[cell] = replace(result, values={"protocols": scores})
    overview = EXPERIMENTS["map"].sections(plan, results)[0]
    assert overview.paragraphs == (
        "From learned to hashed, the methods' mean MAP goes from 0.600 to 0.400.",
        "From hashed to unseen, the methods' mean MAP goes from 0.400 to 0.300.",
    )
    table = overview.blocks[0]
    assert isinstance(table, Table)
    assert {row.label: [entry.is_best for entry in row.entries] for row in table.rows} == {
        "DLFH": [False, True, True] * 3,
        "SCM": [True, False, False] * 3,
    }


def test_sensitivity_says_where_a_parameter_is_good(source: Source) -> None:
    chosen = {"rows": ["DLFH"], "scales": [0.1, 1.0, 2.0, 4.0, 8.0], "samples": [2, 4]}
    plain = {"methods": ["DLFH"], "seeds": 1, "protocols": ["learned"], "sensitivity": chosen}
    plan = Plan(source, Settings.from_plain(plain))
    results = faked(plan, "sensitivity")
    maps = {0.1: 0.79, 1.0: 0.1, 2.0: 0.77, 4.0: 0.8, 8.0: 0.75}  # 0.1 is good as well, but not next to the others
    for cell, result in results.items():
        samples = cell.values.get("sample_size")  # λ = 8 is the default, and so not named
        value = maps[cell.values.get("scale", 8.0)] if samples is None else 0.1 * samples
        scores = {way: {**score, "map": value} for way, score in result.values["protocols"]["learned"].items()}
        results._found[cell] = replace(result, values={"protocols": {"learned": scores}})
    (section,) = EXPERIMENTS["sensitivity"].sections(plan, results)
    assert section.paragraphs[-1] == (
        "Database learned, mean over directions: DLFH is best at λ = 4 (MAP 0.800; within 5% of it from 2 to 4) and "
        "at m = 4 (MAP 0.400; within 5% of it nowhere else)."
    )


def test_a_small_databases_own_size_is_the_k_of_the_measures(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH"], "bits": [16], "protocols": ["learned"], "at": 50}))
    (section,) = EXPERIMENTS["map"].sections(plan, faked(plan, "map"))  # the fakes have nine items
    assert "There are only 9 items to a database, so k is 9 instead of 50." in section.paragraphs
    assert [block.title.split(" on ")[0] for block in section.blocks] == ["MAP", "MAP@9", "Precision@9"]


def test_tuned_settings_keep_the_queries_apart_that_tuning_never_saw(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["SCM"], "queries": 10, "held_out": 0.25, "resplit": False})
    search = Search(Plan(source, settings), "SCM", {"ridge": [0.1, 1.0]}, bits=16)
    tuned = Settings.from_plain(tomllib.loads(search.to_toml(Trial({"ridge": 1.0}, Entry(0.5)))))
    (cell, *_) = search._cells({"ridge": 1.0}, None)
    asked = Plan(source, tuned).cell(tuned.row("SCM"), 16, seed=3)
    assert (asked.deal.seed, asked.deal.queries, asked.deal.held_out) == (0, 10, 0.25)
    assert replace(cell.deal, validation=0.0) == asked.deal


def test_the_number_of_points_to_learn_from_can_be_tuned(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH"], "resplit": False}))
    search = Search(plan, "DLFH", {"train_points": [20, 30]}, bits=16)
    assert [search._cells(each, None)[0].train_points for each in search.candidates()] == [20, 30]


def test_what_is_as_by_default_makes_no_other_cell(source: Source) -> None:
    plan = Plan(source, Settings())
    row = plan.settings.row("DLFH")
    usual = plan.cell(row, 16, 0)
    assert plan.cell(row, 16, 0, changed={"scale": 8.0, "solver": "stochastic"}) == usual
    assert plan.cell(row, 16, 0, changed={"scale": 4.0}) != usual
    assert plan.cell(row, 16, 0, changed={"early_stopping": 1}) != usual  # which the method will refuse


def test_a_run_on_split_data_repeats_only_what_is_random(source: Source) -> None:
    settings = Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16], "seeds": 4})
    split = load_source("generated:wiki", n_points=60)
    assert len(set(EXPERIMENTS["map"].cells(Plan(split, settings)))) == 4 + 1
    assert len(set(EXPERIMENTS["map"].cells(Plan(source, settings)))) == 4 + 4
    fixed = settings.changed(resplit=False)
    assert len(set(EXPERIMENTS["map"].cells(Plan(source, fixed)))) == 4 + 1


def test_a_grid_is_read_as_it_is_written() -> None:
    assert parse_grid(["a=1,2.5,x", "b=true"]) == {"a": [1, 2.5, "x"], "b": [True]}
    for wrong in ("a", "=1", "a=", "a=1,,2"):
        with pytest.raises(InputError, match="a grid is NAME=VALUE,VALUE"):
            parse_grid([wrong])
    with pytest.raises(InputError, match="the grid has a twice"):
        parse_grid(["a=1", "a=2"])


def test_halving_finds_what_the_grid_finds_and_its_settings_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_paired(tmp_path / "own.npz", make_paired(120, n_labels=4, random_state=0))
    # Codes that were never updated are random: any iterations at all are better.
    command = f"tune DLFH {tmp_path / 'own.npz'} --grid max_iter=0,20,1 --grid scale=8 --bits 16 --protocol learned"
    assert main([*command.split(), "--jobs", "1", "--out", str(tmp_path / "run")]) == 0
    assert "best: max_iter = 20, scale = 8" in capsys.readouterr().out
    tuned = tmp_path / "run" / "tuned-DLFH.toml"
    settings = Settings.read(tuned)
    assert settings.row("DLFH").at(16) == {"max_iter": 20, "scale": 8}
    assert (settings.methods, settings.bits, settings.resplit) == (("DLFH",), (16,), False)

    plan = Plan(load_source(str(tmp_path / "own.npz")), Settings.from_plain({"seeds": 3, "resplit": False}))
    whole = Search(plan, "DLFH", {"max_iter": [0, 20, 1], "scale": [8]}, bits=16, protocol="learned")
    runner = Runner(Cache(tmp_path / "run"), Limits(jobs=1))
    n_computed = len(list((tmp_path / "run" / "cells").iterdir()))
    trials = whole.run(runner)
    assert [trial.parameters["max_iter"] for trial in trials] == [20, 1, 0]
    halved = replace(whole, halving="seeds")
    kept = halved.run(runner)
    assert len(list((tmp_path / "run" / "cells").iterdir())) == n_computed == 9
    assert (kept[0].parameters, kept[0].score) == (trials[0].parameters, trials[0].score)
    assert [trial.resource for trial in kept] == [3, 1, 1]
    assert "left behind at seeds = 1" in halved.table(kept).to_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        *([f"bench {name} no-such-data", "there is no data set and no file 'no-such-data'"] for name in EXPERIMENTS),
        ("bench map wiki", "wiki does not come with dlfh: name its file with --data, or try generated:wiki"),
        ("bench map wiki --data no-such-file.mat", "no-such-file.mat"),
        ("bench map generated:nothing", "there is no data set 'nothing'"),
        ("bench map icons --points 9", "only generated data can have any number of points"),
        ("bench map generated:wiki --bits 8,x", "--bits must be whole numbers with commas between them"),
        ("bench map generated:wiki --bits 9999", "bits must be code lengths from 1 to 512"),
        ("bench map generated:wiki --methods DLHF", "unknown method 'DLHF'"),
        ("bench map generated:wiki --protocols seen", "unknown protocol 'seen'"),
        ("bench map generated:wiki --settings no.toml", "cannot read the settings no.toml"),
        ("bench map generated:wiki --settings broken.toml", "the settings broken.toml are not valid TOML"),
        ("bench map generated:wiki --settings wrong.toml", "settings wrong.toml: unknown setting 'bit'"),
        ("bench map generated:wiki --points 60 --out broken.toml", "broken.toml is a file; a run needs a folder"),
        (
            "tune SCM generated:wiki --points 60 --grid ridge=1 --protocol unified",
            "SCM has no rule for one code from several modalities: choose by another protocol",
        ),
        ("bench map generated:wiki --points 60 --out x --report own.npz", "own.npz is a file; a run needs a folder"),
        ("bench map generated:wiki --points 60 --threads 9999", "threads is 9999 but there are only"),
        ("bench map own.npz --queries 999", "own has 40 points: 999 queries leave none to learn from"),
        ("bench map generated:wiki --points 60 --queries 9", "comes with queries of its own: leave out queries"),
        ("bench map generated:wiki --points 60 --memory-gb nan", "memory_gb must be finite, got nan"),
        ("bench map generated:wiki --points 60 --cell-minutes inf", "cell_minutes must be finite, got inf"),
        ("bench map own.npz --held-out 0.999", "held_out is 0.999, which leaves 0 of 32 points to learn from"),
        ("bench map own.npz --settings refused.toml", "DLFH: scale must be a positive finite number, got 'abc'"),
        ("tune DLFH own.npz --grid scale=1,nan", "scale of DLFH must be finite, got nan"),
        ("tune DLFH own.npz --grid scale=2020-01-01,4", "scale of DLFH must be a number, a string, true or false"),
        ("tune DLFH own.npz --grid scale=1 --validation 0.999", "validation is 0.999, which leaves 0 of 32 points"),
        ("tune DLFH own.npz --grid scale=1 --write .", "cannot write .: it is a folder"),
        ("tune DLFH generated:wiki", "there is nothing to choose from"),
        ("tune DLHF generated:wiki --grid scale=1", "unknown method 'DLHF'"),
        ("tune DLFH generated:wiki --grid lambda=1", "DLFH has no parameter 'lambda'"),
        ("tune DLFH generated:wiki --grid scale", "a grid is NAME=VALUE,VALUE"),
        ("tune DLFH generated:wiki --grid scale=1 --halving luck", "--halving must be one of"),
        ("tune DLFH generated:wiki --grid scale=1 --protocol seen", "--protocol must be one of"),
        ("tune DLFH generated:wiki --points 60 --grid scale=1 --validation 2", "validation must be a share"),
        (
            "tune SCM generated:wiki --points 60 --grid ridge=1,2,3 --halving max_iter",
            "SCM cannot be halved by max_iter",
        ),
    ],
    ids=lambda value: value if value.startswith(("bench", "tune")) else "",
)
def test_wrong_input_is_one_sentence(
    arguments: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.toml").write_text("bits = [")
    (tmp_path / "wrong.toml").write_text("bit = 1")
    (tmp_path / "refused.toml").write_text('[parameters.DLFH]\nscale = "abc"\n')
    write_paired(tmp_path / "own.npz", make_paired(40, n_labels=3, random_state=0))
    assert main(arguments.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dlfh: ")
    assert sentence in line
    assert {path.name for path in tmp_path.iterdir()} == {
        "broken.toml",
        "wrong.toml",
        "refused.toml",
        "own.npz",
    }  # nothing is left behind


def test_a_report_goes_where_it_is_wanted_and_results_stay(tmp_path: Path) -> None:
    command = "bench map generated:wiki --points 60 --methods SCM --bits 8 --jobs 1 --quiet"
    shown = tmp_path / "docs" / "wiki"
    assert main([*command.split(), "--out", str(tmp_path / "run"), "--report", str(shown)]) == 0
    assert {path.name for path in shown.iterdir()} == {"map.html", "map.md", "map.toml", "tables"}
    assert len(list((tmp_path / "run" / "cells").iterdir())) == 1
    assert not list((tmp_path / "run").glob("map.*"))


def test_settings_are_printed_as_they_hold_and_flags_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text("bits = [8]\nseeds = 7\n[parameters.SCM]\nridge = 0.5\n")
    command = ["bench", "paper", "icons", "--settings", str(file), "--bits", "16,24", "--print-settings"]
    assert main(command) == 0
    settings = Settings.from_plain(tomllib.loads(capsys.readouterr().out))
    assert (settings.bits, settings.seeds, settings.row("SCM").parameters) == ((16, 24), 7, {"ridge": 0.5})
    assert settings.row("CRH").parameters["n_pairs"] == 500  # as is usual for the icons


def test_every_command_shows_an_example_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in EXPERIMENTS:
        assert main(["bench", name, "--help"]) == 0
        assert f"dlfh bench {name} " in capsys.readouterr().out
    assert main(["tune", "--help"]) == 0
    assert "dlfh tune DLFH icons" in capsys.readouterr().out


def test_the_commands_import_nothing_heavy_until_they_run() -> None:
    path = Path(sys.modules["dlfh.bench.commands"].__file__ or "")
    outside = re.findall(r"^(?:from|import) (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(outside) == {"__future__", "collections.abc", "contextlib", "pathlib", "typing", "typer"}
