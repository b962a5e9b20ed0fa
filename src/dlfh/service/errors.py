"""What a request is refused with: a status, and one sentence."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - an answer, too
    """A request that is not answered.

    Parameters
    ----------
    status : int
    sentence : str
    headers : dict, optional

    Examples
    --------
    >>> Refusal(404, "there is no item 'a'").status
    404
    """

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


def busy() -> Refusal:
    """Return what a request gets that nobody has time for."""
    return Refusal(503, "too many requests are waiting: try again in a second", {"retry-after": "1"})


def too_slow(seconds: float) -> Refusal:
    """Return what a request gets whose answer takes too long."""
    return Refusal(503, f"no answer was found within {seconds:g} seconds: try again later", {"retry-after": "5"})
