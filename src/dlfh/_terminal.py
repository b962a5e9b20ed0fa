"""What a terminal may have of users' data: nothing that steers it."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["STEERING", "plain", "plain_lines"]

#: What steers a terminal: C0 and C1 controls, marks of direction, separators of lines, and what is no character at all.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def plain(text: Any) -> str:
    r"""Return a text of users' data as a terminal may have it: what would steer the terminal is spelled out.

    Control characters begin escape sequences, which can rewrite the screen or worse; marks of direction let a text read
    as another; lone surrogates cannot be encoded.

    Examples
    --------
    >>> print(plain("red \x1b[31mcar\x07, 3\u202e4"))
    red \x1b[31mcar\x07, 3\u202e4
    """
    return STEERING.sub(lambda found: ascii(found[0])[1:-1], str(text))


def plain_lines(text: str) -> str:
    r"""Return a text of several lines as a terminal may have it; its newlines stay.

    Examples
    --------
    >>> print(plain_lines("method\n\x1b[2JDLFH"))
    method
    \x1b[2JDLFH
    """
    return "\n".join(map(plain, text.split("\n")))
