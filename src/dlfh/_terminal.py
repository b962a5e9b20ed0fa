"""Escape user data before it is printed to a terminal."""

from __future__ import annotations

import re
from typing import Any

#: C0 and C1 controls, bidirectional marks, line separators and lone surrogates.
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def plain(text: Any) -> str:
    r"""Return user data with control characters escaped.

    Control characters begin escape sequences, which can rewrite the screen; bidirectional marks disguise a text as
    another; lone surrogates cannot be encoded.
    """
    return CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], str(text))


def plain_lines(text: str) -> str:
    r"""Return a text with control characters other than newlines escaped."""
    return "\n".join(map(plain, text.split("\n")))
