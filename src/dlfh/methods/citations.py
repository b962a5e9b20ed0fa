"""BibTeX entries of the methods' papers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from dlfh._validation import check_choice
from dlfh.methods.catalogue import MODULES

#: Methods published in the paper of another method.
_IN_PAPER_OF = {"KDLFH": "DLFH"}


def citations(methods: Iterable[str] | None = None) -> str:
    """Return the BibTeX entries of the given methods, or of all; each paper appears once."""
    text = (files("dlfh.methods") / "citations.bib").read_text(encoding="utf-8")
    entries = {entry[1]: entry[0] for entry in re.finditer(r"^@\w+\{(\w+),\n.*?^\}", text, re.DOTALL | re.MULTILINE)}
    names = list(MODULES if methods is None else methods)
    for name in names:
        check_choice(name, "method", tuple(MODULES))
    papers = dict.fromkeys(_IN_PAPER_OF.get(name, name) for name in names)
    return "\n\n".join(entries[paper] for paper in papers)
