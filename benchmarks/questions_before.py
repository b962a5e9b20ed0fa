"""Ask the questions of benchmarks/questions_study.py in an earlier version of the library.

Nothing here but the names below may be newer than commit 7965bea: the module runs with that version's packages.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Collection as Sized
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: Number of first results that count, and of results in which the first right one is looked for.
SHOWN, LOOKED_AT = 5, 100


def cells(right: Sequence[Sized[str]], results: Sequence[Sequence[tuple[str, float]]]) -> list[str]:
    """Return the cells of a row: accuracy, probabilities, and the share of questions without results.

    If fewer than five answers are right, only as many results count.

    right: By question, the ids of right answers. results: By question, ids and probabilities.
    """
    hits = [[row in ids for row, _ in result] for ids, result in zip(right, results, strict=True)]
    n_places = [min(SHOWN, max(len(ids), 1)) for ids in right]
    first = [sum(each[:n]) / n for each, n in zip(hits, n_places, strict=True)]
    ranks = [1 / (each.index(True) + 1) if True in each else 0.0 for each in hits]
    best = np.array([result[0][1] if result else 0.0 for result in results])
    shares = [f"{np.mean(values):.3f}" if any(map(len, right)) else "–" for values in (first, ranks)]
    nothing = np.mean([not result for result in results])
    return [*shares, f"{np.median(best):.3f}", f"{np.mean(best > 0.9):.2f}", f"{nothing:.2f}"]


def main(questions: Path, output: Path) -> None:
    from benchmarks.answers_data import Setting, iapr, icons, photographs  # of the earlier version
    from dlfh import Collection
    from dlfh.datasets import Items, read_arrays

    warnings.simplefilter("ignore")
    data, work = Path(os.environ["DLFH_DATA"]), Path(tempfile.mkdtemp())
    before = json.loads(output.read_text()) if output.exists() else {}
    for name, kinds in json.loads(questions.read_text()).items():
        if name in before:
            continue
        if name == "IAPR TC-12":
            items, names = iapr(data), read_arrays(data / "iapr_tc12.npz")["label_names"]
            labels = [[str(names[int(label[1:])]) for label in given] for given in items.labels or []]
            items = Items.of(items.modalities, labels, items.ids)
        else:
            items = icons(work) if name == "icons" else photographs(data, work)
        encoder = Setting(name, items, items, items).encoder()
        with Collection.build(work / f"built-{len(before)}", items, encoder).collection as collection:
            before[name] = {}
            for kind, asked in kinds.items():
                found = [collection.search("text", text, LOOKED_AT) for text, _ in asked]
                results = [[(item.id, item.probability or 0.0) for item in result] for result in found]
                before[name][kind] = [*cells([right for _, right in asked], results), "0.00"]
        output.write_text(json.dumps(before))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
