"""Ways to damage things: bytes, texts, numbers, arrays and JSON values.

Each takes a random generator first and gives something else than it was given, most of the time.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

__all__ = ["damage", "damage_array", "damage_json", "damage_text", "extreme_number", "to_json"]

_WORDS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_LONG_WORDS = (*_WORDS, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 2_000_000_000, 1 << 40, 1 << 33)
_TEXTS = (
    "",
    "\0",
    "\n",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\ud800",
    "é",
    "\u202e",
    "\ufeff",
    "😀",
    "../../etc/passwd",
    "/dev/zero",
    "nan",
    "inf",
    "-1",
    "1e999",
    "A" * 300,
    "a b",
    "NaN",
    "none",
    "null",
    "__class__",
    "{}",
    "[]",
)
_NUMBERS = (0, -1, 1, 2, 3, 7, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32, 2**33, 2**63 - 1, 2**63, 2**64, 10**12)
_DTYPES = ("u1", "i1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "?", ">i4", ">f8", "<c16", "<U3")


def damage(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes with a few faults in them."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        content = rng.choice(_BYTE_FAULTS)(rng, content, others)
    return content


def _flip(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[_place(rng, len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_byte(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[_place(rng, len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _set_word(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Write an extreme number where a length, a count or an offset may be."""
    size, letter = rng.choice(((2, "H"), (4, "I"), (8, "Q")))
    if len(content) < size:
        return content
    place = _place(rng, len(content) - size + 1)
    if rng.random() < 0.7:
        place -= place % size
    order = rng.choice("<>")
    (old,) = struct.unpack_from(order + letter, content, place)
    near = (old + rng.choice((-8, -1, 1, 8)), old * 2, old // 2, len(content), len(content) - place)
    word = rng.choice((*_LONG_WORDS, *near)) % (1 << 8 * size)
    return content[:place] + struct.pack(order + letter, word) + content[place + size :]


def _cut(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[: _place(rng, len(content) + 1)]


def _drop(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    start, stop = _range(rng, len(content))
    return content[:start] + content[stop:]


def _repeat(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    start, stop = _range(rng, len(content))
    return content[:stop] + content[start:stop] * rng.choice((1, 1, 2, 20)) + content[stop:]


def _insert(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(rng, len(content) + 1)
    new = rng.choice((bytes(rng.choice((1, 4, 8, 64))), rng.randbytes(rng.choice((1, 4, 16)))))
    return content[:place] + new + content[place:]


def _scramble(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    start, stop = _range(rng, len(content))
    return content[:start] + rng.randbytes(stop - start) + content[stop:]


def _splice(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    if not others:
        return _repeat(rng, content, others)
    other = rng.choice(others)
    start, stop = _range(rng, len(other))
    place = _place(rng, len(content) + 1)
    end = place if rng.random() < 0.5 else min(len(content), place + stop - start)
    return content[:place] + other[start:stop] + content[end:]


def _renumber(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Put another number where one is written out in digits."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", content[:20000]))
    if not found:
        return _flip(rng, content, others)
    match = rng.choice(found)
    return content[: match.start()] + extreme_number(rng).encode() + content[match.end() :]


_BYTE_FAULTS = (
    *(_flip,) * 4,
    *(_set_byte,) * 3,
    *(_set_word,) * 5,
    _cut,
    _drop,
    _repeat,
    _insert,
    _scramble,
    _splice,
    *(_renumber,) * 2,
)


def _place(rng: Random, size: int) -> int:
    """Return a place in something of a size: most of what decides stands near the beginning or the end."""
    if size <= 1:
        return 0
    near = rng.random()
    if near < 0.3:
        return min(size - 1, int(rng.expovariate(1 / 40)))
    if near < 0.45:
        return max(0, size - 1 - int(rng.expovariate(1 / 40)))
    return rng.randrange(size)


def _range(rng: Random, size: int) -> tuple[int, int]:
    start = _place(rng, size + 1)
    return start, min(size, start + rng.choice((1, 2, 4, 8, 16, 64, 256)))


def extreme_number(rng: Random) -> str:
    """Return a number, written out, that programs get wrong."""
    kind = rng.random()
    if kind < 0.7:
        return str(rng.choice(_NUMBERS) * rng.choice((1, 1, 1, -1)))
    if kind < 0.8:
        return rng.choice(("1e999", "-1e999", "NaN", "1e308", "5e-324", "0.1", "-0.0"))
    return "9" * rng.choice((19, 40, 400, 5000))


def damage_text(rng: Random, text: str) -> str:
    """Return another text."""
    kind = rng.random()
    place = rng.randrange(len(text) + 1)
    if kind < 0.4:
        return text[:place] + rng.choice(_TEXTS) + text[place:]
    if kind < 0.6:
        return text[:place] + text[place + rng.choice((1, 2, 8)) :]
    if kind < 0.8:
        return rng.choice(_TEXTS)
    return text * rng.choice((0, 2, 3)) + chr(rng.choice((0x41, 0x300, 0xFFFD, 0x10FFFF, 0xAD, 0x2028)))


def damage_json(rng: Random, value: Any) -> Any:
    """Return a JSON value with something in it changed, somewhere."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(value, ()))
        value = _changed_at(rng, value, rng.choice(places))
    return value


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for row in range(min(len(value), 30)):
            yield from _places(value[row], (*path, row))


def _changed_at(rng: Random, value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return _other_value(rng, value)
    changed = dict(value) if isinstance(value, dict) else list(value)
    first, rest = path[0], path[1:]
    if not rest and rng.random() < 0.15:
        if isinstance(changed, dict):
            kept = changed.pop(first)
            if rng.random() < 0.5:
                changed[damage_text(rng, str(first))] = kept
        else:
            del changed[first]
        return changed
    changed[first] = _changed_at(rng, value[first], rest)
    return changed


def _other_value(rng: Random, value: Any) -> Any:
    if rng.random() < 0.3:
        return _any_value(rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(
            (value + 1, value - 1, -value, value * 2, rng.choice(_NUMBERS), value / 3 if value < 10**9 else 0)
        )
    if isinstance(value, float):
        return rng.choice((-value, value * 1e300, float("nan"), float("inf"), 0.0, 5e-324, 10**400))
    if isinstance(value, str):
        return damage_text(rng, value)
    if isinstance(value, list):
        return rng.choice((value[::-1], value * 2, value[:1], [*value, _any_value(rng)], [value], []))
    if isinstance(value, dict):
        return rng.choice((list(value), {}, {**value, damage_text(rng, "key"): _any_value(rng)}, [value]))
    return _any_value(rng)


def _any_value(rng: Random) -> Any:
    deep: Any = rng.choice(([], {}, 1))
    for _ in range(rng.choice((1, 5, 70, 300))):
        deep = [deep] if rng.random() < 0.5 else {"items": [["a", deep]]}
    plain: Any = (
        None,
        True,
        False,
        -1,
        0,
        1,
        0.5,
        10**30,
        10**400,
        float("nan"),
        float("-inf"),
        "",
        "x",
        [],
        {},
        [None],
    )
    return rng.choice(
        (*plain, deep, {"kind": "DLFH", "parameters": {}}, rng.choice(_NUMBERS), rng.choice(_TEXTS), [1] * 40)
    )


def to_json(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> bytes:
    """Return JSON text of a value, also where it holds half a pair of surrogates or a number without an end."""
    return json.dumps(value, indent=indent, sort_keys=sort_keys).encode("utf-8", "surrogatepass")


def damage_array(rng: Random, array: Any) -> Any:
    """Return an array with other values, another shape or another type."""
    array = np.asarray(array)
    kind = rng.random()
    if kind < 0.5 and array.size and array.dtype.kind in "biufc":
        changed = array.copy()
        flat = changed.reshape(-1)
        for _ in range(rng.choice((1, 1, 2, 5, flat.size))):
            flat[rng.randrange(flat.size)] = _extreme(rng, array.dtype)
        return changed
    if kind < 0.6 and array.dtype.kind in "biufc":
        with np.errstate(all="ignore"):
            return array.astype(_numeric_type(rng))
    if kind < 0.65 and array.nbytes and array.dtype.kind != "O":
        new = np.dtype(rng.choice(_DTYPES))
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return raw[: len(raw) - len(raw) % new.itemsize].view(new).copy()
    if kind < 0.75:
        return array[: rng.randrange(len(array) + 1)] if array.ndim else array.reshape(1)
    if kind < 0.85:
        return rng.choice((array.reshape(-1), array.T, array[None], array[..., None], array.reshape(-1, 1)))
    if kind < 0.92 and array.ndim:
        return np.concatenate([array, array])
    return np.zeros(rng.choice(((), (0,), (0, 3), (3, 0), (1,), (1, 1), (2, 2, 2))), _numeric_type(rng))


def _numeric_type(rng: Random) -> Any:
    return np.dtype(rng.choice([name for name in _DTYPES if "U" not in name and "c" not in name]))


def _extreme(rng: Random, dtype: Any) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        value = rng.choice(
            (0, 1, 2, -1, 7, 100, limits.max, limits.min, limits.max - 1, limits.max // 2, 2_000_000_000)
        )
        return dtype.type(min(max(value, int(limits.min)), int(limits.max)))
    if dtype.kind == "b":
        return rng.random() < 0.5
    top = np.finfo(dtype)
    return rng.choice((0.0, -1.0, 1.0, np.nan, np.inf, -np.inf, top.max, top.min, top.smallest_subnormal, -0.0))
