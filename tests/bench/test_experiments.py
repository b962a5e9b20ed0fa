"""The sections that experiments make of results."""

from __future__ import annotations

from dataclasses import replace

from dlfh.bench.data import Source
from dlfh.bench.experiments import EXPERIMENTS
from dlfh.bench.experiments.paper_tables import published_map, published_seconds
from dlfh.bench.plan import Plan
from dlfh.bench.settings import Settings
from dlfh.bench.tables import ReportTable
from tests.bench.faked import faked

PUBLISHED_ROWS = [
    *("DLFH paper", "DLFH", "KDLFH paper", "KDLFH", "CCAITQ", "ACQ", "SCM", "CMFH paper", "CMFH", "SMFH paper"),
    *("SePH paper", "SePH", "MLBE paper"),
]


def test_published_values_appear_if_the_data_set_is_the_same(source: Source) -> None:
    plain = {"methods": PUBLISHED_ROWS, "bits": [16, 128], "seeds": 1, "queries": 20}
    settings = Settings.from_plain(plain | {"protocols": ["learned", "unified"]})
    real = replace(source, name="NUS-WIDE", like="nus-wide", as_published=True)
    sections = EXPERIMENTS["map"].sections(Plan(real, settings), faked(Plan(real, settings), "map"))
    table = next(section for section in sections if section.key == "map-learned").blocks[0]
    assert isinstance(table, ReportTable)
    published = {row.label: [entry.mean for entry in row.entries] for row in table.rows if row.published}
    # Beside the rows in the paper's setting, and no others.
    assert published == {
        "DLFH paper": [0.635, None, 0.769, None],
        "KDLFH paper": [0.684, None, 0.776, None],
        "CCAITQ": [0.396, None, 0.39, None],
        "SCM": [0.522, None, 0.492, None],
        "CMFH paper": [0.439, None, 0.427, None],
        "SMFH paper": [0.447, None, 0.413, None],
        "MLBE paper": [0.334, None, 0.345, None],
    }
    unified = next(section for section in sections if section.key == "map-unified").blocks[0]
    assert isinstance(unified, ReportTable)
    assert [row.label for row in unified.rows if row.published] == ["SePH paper"]
    assert not any(entry.is_best for row in table.rows if row.published for entry in row.entries)
    imitated = replace(real, as_published=False)
    assert published_map(imitated, "CCAITQ", "learned", "image → text", 16) is None
    assert published_seconds(imitated, "CCAITQ", 1000) == 0.56
    assert published_seconds(imitated, "CCAITQ", 184_711) == 4.25
    assert published_seconds(imitated, "CCAITQ", 2000) is None
    assert published_seconds(imitated, "MLBE paper", 5000) is None
    assert published_seconds(source, "CCAITQ", 1000) is None


def test_a_report_compares_accuracy_between_protocols(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH", "SCM"], "bits": [16, 32], "seeds": 1}))
    results = faked(plan, "map")
    for cell, result in list(results.items()):
        if cell.method == "SCM":
            scores = {name: dict(result.values["protocols"]["learned"]) for name in plan.settings.protocols}
            for name, value in {"learned": 0.7, "hashed": 0.3, "unseen": 0.1}.items():
                scores[name] = {way: {**score, "map": value} for way, score in scores[name].items()}
            results[cell] = replace(result, values={"protocols": scores})
    overview = EXPERIMENTS["map"].sections(plan, results)[0]
    assert overview.paragraphs == (
        "From unseen to hashed, the mean MAP of all methods goes from 0.300 to 0.400.",
        "From hashed to learned, the mean MAP of all methods goes from 0.400 to 0.600.",
    )
    table = overview.blocks[0]
    assert isinstance(table, ReportTable)
    assert {row.label: [entry.is_best for entry in row.entries] for row in table.rows} == {
        "DLFH": [True, True, False] * 3,
        "SCM": [False, False, True] * 3,
    }


def test_sensitivity_reports_the_good_range_of_a_parameter(source: Source) -> None:
    chosen = {"rows": ["DLFH"], "scales": [0.1, 1.0, 2.0, 4.0, 8.0], "samples": [2, 4]}
    plain = {"methods": ["DLFH"], "seeds": 1, "protocols": ["learned"], "sensitivity": chosen}
    plan = Plan(source, Settings.from_plain(plain))
    results = faked(plan, "sensitivity")
    maps = {0.1: 0.79, 1.0: 0.1, 2.0: 0.77, 4.0: 0.8, 8.0: 0.75}  # 0.1 is good, but not adjacent to the others
    for cell, result in results.items():
        samples = cell.parameters.get("sample_size")  # λ = 8 is the default, which cells omit
        value = maps[cell.parameters.get("scale", 8.0)] if samples is None else 0.1 * samples
        scores = {way: {**score, "map": value} for way, score in result.values["protocols"]["learned"].items()}
        results[cell] = replace(result, values={"protocols": {"learned": scores}})
    (section,) = EXPERIMENTS["sensitivity"].sections(plan, results)
    assert section.paragraphs[-1] == (
        "Database learned, mean over directions: DLFH is best at λ = 4 (MAP 0.800; within 5% of it from 2 to 4) and "
        "at m = 4 (MAP 0.400; within 5% of it nowhere else)."
    )


def test_a_small_database_limits_k(source: Source) -> None:
    plan = Plan(source, Settings.from_plain({"methods": ["DLFH"], "bits": [16], "protocols": ["learned"], "k": 50}))
    (section,) = EXPERIMENTS["map"].sections(plan, faked(plan, "map"))  # the invented results have nine items
    assert "A database has only 9 items, so k is 9 instead of 50." in section.paragraphs
    titles = ["MAP", "MAP@9", "Precision@9", "nDCG@9", "Precision@5 by all labels", "Asymmetric MAP"]
    assert [block.title.split(" on ")[0] for block in section.blocks] == titles
