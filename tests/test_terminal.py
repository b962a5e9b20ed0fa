"""What steers a terminal is spelled out, and all else stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dlfh._terminal import plain, plain_lines


def steers(text: str) -> bool:
    return any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\ud800" for c in text.replace("\n", ""))


@given(st.text())
def test_plain_texts_have_no_control_characters(text: str) -> None:
    assert not steers(plain(text))
    assert "\n" not in plain(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_letters_of_every_script_stay(text: str) -> None:
    assert plain(text) == text


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_lines_stay_lines(lines: list[str]) -> None:
    shown = plain_lines("\n".join(lines))
    assert not steers(shown)
    assert shown.count("\n") == max(len(lines) - 1, 0)
