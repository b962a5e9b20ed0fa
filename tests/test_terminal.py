"""Control characters are escaped; other characters are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dlfh._terminal import plain, plain_lines


def has_controls(text: str) -> bool:
    return any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\ud800" for c in text.replace("\n", ""))


@given(st.text())
def test_plain_texts_have_no_control_characters(text: str) -> None:
    assert not has_controls(plain(text))
    assert "\n" not in plain(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_letters_of_every_script_are_kept(text: str) -> None:
    assert plain(text) == text


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_line_breaks_are_kept(lines: list[str]) -> None:
    shown = plain_lines("\n".join(lines))
    assert not has_controls(shown)
    assert shown.count("\n") == max(len(lines) - 1, 0)
