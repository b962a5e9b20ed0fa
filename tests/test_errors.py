"""Error messages are printable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dlfh.errors import DLFHError, InputError, ModelError


@given(st.text())
def test_a_message_is_one_printable_line(quoted: str) -> None:
    error = InputError(f"no column named {quoted}")
    assert str(error).isprintable()
    assert str(ModelError(str(error))) == str(error)


def test_a_printable_message_is_unchanged() -> None:
    message = r"no column named 'é 猫' in C:\data\new.csv"
    assert str(DLFHError(message)) == message
    assert DLFHError(message).args == (message,)
