"""Sends damaged requests to a running service: none may cause a failure, a delay or a memory leak.

python -m tests.service.fuzzing --cases 10000 [--first 0]

The case number is the random seed. The body, form, picture or head of a valid request is damaged: values are replaced,
parts removed, duplicated or moved, and bytes flipped, removed or inserted. One search in ten is large: a filter of many
conditions, levels or values, or many and long vectors, texts or ids, often beyond a limit.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
import random
import re
import socket
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.conftest import draw_photos
from tests.service.conftest import TOKEN, Running, address, build, memory_of, serving

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
READ_SECONDS, ANSWER_SECONDS = 2.0, 10.0
SETTINGS = (
    f"Settings(token={TOKEN!r}, writable=True, "
    f"limits=Limits(read_seconds={READ_SECONDS}, answer_seconds={ANSWER_SECONDS}))"
)
#: Growth that counts as a leak; bounded caches and memory that Python has not returned stay below it.
MAX_GROWTH = 64 << 20

SEARCHES: list[dict[str, Any]] = [
    {"text": "level stripes", "k": 5},
    {"text": "upright", "modalities": "image", "min_probability": 0.5, "where": {"labels": ["level"], "parity": 1}},
    {"id": "8.png", "modalities": "text", "hashed_only": True},
    {"code": "9f3c00", "k": 3},
    {"vector": [0.5] * 20, "modality": "text"},
    {"queries": [{"text": "level"}, {"id": "a/b"}, {"code": "000000"}], "k": 3},
    {"text": "stripes", "match": "both", "ranking": "any", "modalities": ["image", "text"]},
    {"text": "level", "radius": 4, "ids": ["8.png", "9.png"]},
    {"text": "level", "start": 2, "facets": True, "relevant": ["8.png"], "irrelevant": ["9.png"]},
    {"image": "0" * 32, "text": "level"},
]
SUGGEST: dict[str, Any] = {"ids": ["8.png", "a/b"], "where": {"half": "first"}, "precision": 0.8, "k": 3, "start": 2}
#: Bodies of the other endpoints.
OTHERS: dict[bytes, dict[str, Any]] = {
    b"/v1/suggest": SUGGEST,
    b"/v1/remove": {"ids": ["n0", "n1"]},
    b"/v1/label": {"ids": ["8.png", "9.png"], "add": ["level", "new"], "remove": ["upright"]},
    b"/v1/undo": {"undo": "0" * 32},
}
ITEM: dict[str, Any] = {
    "text": "level lines",
    "texts": {"text": "more lines"},
    "labels": ["level"],
    "columns": {"parity": 1, "colour": "red"},
}
#: Values that often cause bugs.
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**400,
    -0.0,
    1e308,
    1e-320,
    "",
    " ",
    "\0",
    "\ud800",
    "\u202e",
    "ﷺ" * 50,
    "../" * 10,
    "8.png",
    "a" * 20_000,
    "'; DROP TABLE words; --",
    '"* OR NEAR(',
    "<script>",
    [],
    {},
    [[]],
    [None],
    [1e308] * 20,
    {"": ""},
    {"$ne": 1},
    [{}] * 200,
    ["x"] * 2000,
]


@dataclass
class Report:
    """Outcomes of the requests."""

    cases: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    growth: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = ", ".join(f"{status}: {n:,}" for status, n in sorted(self.statuses.items()))
        return (
            f"{self.cases:,} cases ({shown}), {len(self.findings)} findings, the slowest {self.slowest:.2f} s, "
            f"memory {self.growth / (1 << 20):+.1f} MB"
        )


# ------------------------------------------------------------------------------------------------- damage


def damaged(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one random change."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        places: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = rng.choice(places)
        copy = dict(value) if isinstance(value, dict) else list(value)
        kind = rng.randrange(5)
        if kind == 0:
            del copy[place]
        elif kind == 1 and isinstance(copy, dict):
            copy[rng.choice(["", "k", "modalities", "text", "id", "__proto__", "ü", "a" * 5000])] = copy.pop(place)
        elif kind == 2:
            copy[place] = [copy[place]] * rng.choice([0, 2, 150])
        else:
            copy[place] = damaged(copy[place], rng)
        return copy
    if isinstance(value, str) and rng.random() < 0.5:
        at = rng.randrange(len(value) + 1)
        return value[:at] + rng.choice(["\0", "\ud83d", "é", '"', "\\", "%00", "\n", "𝔘" * 9]) + value[at:]
    return rng.choice(ODD)


def dented(content: bytes, rng: random.Random) -> bytes:
    """Return bytes with some flipped, removed, duplicated or inserted."""
    copy = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(copy) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(copy):
            copy[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del copy[at : at + rng.choice([1, 4, 100])]
        elif kind == 2:
            copy[at:at] = rng.randbytes(rng.choice([1, 4, 50]))
        elif kind == 3:
            copy[at:at] = copy[at : at + 50]
        else:
            copy[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\r\n\r\n"])
    return bytes(copy)


def as_json(value: Any, rng: random.Random) -> bytes:
    """Return a value as JSON, mostly valid."""
    text = json.dumps(value).encode()
    kind = rng.randrange(12)
    if kind == 0:
        return dented(text, rng)
    if kind == 1:
        return text.replace(b"1", rng.choice([b"NaN", b"Infinity", b"1e999", b"01", b"9" * 5000]), 1)
    if kind == 2:
        return b"[" * rng.choice([10, 5000]) + text
    if kind == 3:
        return text[:1] + b'"k": 3, "k": 4,' + text[1:] if text.startswith(b"{") else text
    return text


def large_filter(rng: random.Random, n: int, depth: int = 0) -> dict[str, Any]:
    """Return a filter of about ``n`` conditions."""
    if n <= 1 or depth > rng.choice([3, 15, 40]):
        name = rng.choice(["parity", "half", "labels", "nothing"])
        value: Any = rng.choice([1, "first", None, True, 0.5, ["level"] * rng.choice([0, 3, 2000])])
        operators = ["in", "not in", "all"] if isinstance(value, list) else ["=", "!=", "<", ">="]
        return rng.choice([{name: value}, {name: {rng.choice(operators): value}}])
    width = rng.choice([1, 2, 16, n])
    parts = [large_filter(rng, n // width, depth + 1) for _ in range(width)]
    return {"not": parts[0]} if width == 1 else {rng.choice(["and", "or"]): parts}


def large_search(rng: random.Random) -> dict[str, Any]:
    """Return a search at or beyond a limit."""
    size = rng.choice([10, 250, 256, 257, 1000, 10_000])
    search: dict[str, Any] = {"text": "level", "k": rng.choice([1, 100, 1000])}
    kind = rng.randrange(6)
    if kind < 2:
        search["where"] = large_filter(rng, size)
        if kind:
            query = rng.choice([{"text": "level"}, {"code": "000000"}, {"id": "8.png"}])
            search = {"queries": [query] * rng.choice([10, 100]), "k": 100, "where": search["where"]}
    elif kind == 2:
        length = rng.choice([1, 29, 30, 31, 60_000, 70_000])
        vector = [rng.choice([0, -1, 0.25, 1e30])] * length
        search = {"queries": [{"vector": vector, "modality": "text"}] * min(100, 300_000 // length), "k": 3}
    elif kind == 3:
        search["text"] = " ".join(rng.choice(["level", "upright", "ﷺ", "x" * 50]) for _ in range(size))
        search["match"] = "both"
    elif kind == 4:
        search["ids"] = [f"{number % 40}.png" for number in range(size + 1)]
    else:
        search["where"] = {"parity": list(range(size)), "half": {"not in": ["a" * 1000] * rng.choice([1, 500])}}
    return search


@functools.cache
def bomb() -> bytes:
    """Return a decompression bomb."""
    content = BytesIO()
    Image.new("1", (12_000, 12_000)).save(content, "PNG")
    return content.getvalue()


def picture(rng: random.Random) -> bytes:
    """Return a picture in a random format, mostly damaged."""
    kind = rng.choice(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "TGA", "JPEG2000"])
    mode = rng.choice(["RGB", "L", "1", "P"]) if kind in ("PNG", "TIFF") else "RGB"
    size = rng.choice([(1, 1), (8, 5), (64, 64), (1, 4000)])
    content = BytesIO()
    Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1])).convert(mode).save(content, kind)
    if rng.random() < 0.05:
        return bomb()
    return content.getvalue() if rng.random() < 0.15 else dented(content.getvalue(), rng)


def form(rng: random.Random) -> tuple[bytes, bytes]:
    """Return a form with a picture and options, and its content type."""
    options = as_json(damaged({"k": 3, "modalities": "text"}, rng), rng) if rng.random() < 0.5 else b'{"k": 3}'
    parts = [(b'form-data; name="image"; filename="x.png"', picture(rng)), (b'form-data; name="options"', options)]
    kind = rng.randrange(10)
    if kind == 0:
        del parts[rng.randrange(2)]
    elif kind == 1:
        parts *= rng.choice([2, 30])
    elif kind == 2:
        parts[0] = rng.choice([b'form-data; name="image"', b"form-data", b"", b'form-data; name="\xff"']), parts[0][1]
    boundary = rng.choice([b"xyz", b"xyz", b"xyz", b'"', b"", b"a" * 300])
    body = b"".join(
        b"--" + boundary + b"\r\ncontent-disposition: " + head + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    body += b"--" + boundary + b"--\r\n"
    if rng.random() < 0.1:
        body = dented(body, rng)
    shown = rng.choice([boundary, boundary, boundary, boundary, b"another"])
    return body, b"multipart/form-data; boundary=" + shown


def request(rng: random.Random) -> bytes:
    """Return a damaged request."""
    method, path, kind, body = b"POST", b"/v1/search", b"application/json", b""
    which = rng.randrange(8)
    if which < 3:
        search = large_search(rng) if rng.random() < 0.1 else damaged(rng.choice(SEARCHES), rng)
        body = as_json(search, rng)
    elif which == 3:
        path = b"/v1/search/image"
        body, kind = form(rng)
    elif which == 4:
        item = ITEM | ({"image": base64.b64encode(picture(rng)).decode()} if rng.random() < 0.5 else {})
        item |= {"id": f"n{rng.randrange(5)}"}
        path, body = b"/v1/items", as_json(damaged({"items": [item], "update": True}, rng), rng)
        if rng.random() < 0.4:
            method, path = b"PUT", b"/v1/items/" + rng.choice([b"n1", b"%00", b"%ff", b"..%2f", b"n" * 5000])
            body = as_json(damaged({name: value for name, value in item.items() if name != "id"}, rng), rng)
    elif which == 5:
        path, value = rng.choice([*OTHERS.items()])
        body = as_json(damaged(value, rng), rng)
        if rng.random() < 0.3:
            method, path = b"PATCH", b"/v1/items/" + rng.choice([b"n1", b"8.png", b"%ff"])
            body = as_json(damaged({"labels": ["level"], "columns": {"price": 3, "old": None}}, rng), rng)
    else:
        method = rng.choice([b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"FOO"])
        path = rng.choice(
            [
                b"/v1/items/8.png",
                b"/v1/items/a%2Fb/thumbnail?size=1024",
                b"/v1/complete?q=le",
                b"/v1/label/next?n=3",
                b"/v1/items?start=3&n=2",
                b"/v1/collection",
                b"/metrics",
            ]
        )
        path = dented(path, rng) if rng.random() < 0.7 else path
    if rng.random() < 0.05:
        kind = rng.choice([b"text/plain", b"", b"application/xml", b"multipart/form-data", b"application/json; x=\xff"])
    head = [
        method + b" " + path + b" HTTP/1.1",
        b"host: localhost",
        b"authorization: Bearer " + TOKEN.encode(),
        b"content-type: " + kind,
        b"content-length: " + str(len(body)).encode(),
        b"connection: close",
    ]
    if rng.random() < 0.08:
        place = rng.randrange(len(head))
        head[place] = dented(head[place], rng)
    elif rng.random() < 0.05:
        head.insert(
            1, rng.choice([b"transfer-encoding: chunked", b"upgrade: websocket", b"expect: 100-continue", b"te: x"])
        )
    return b"\r\n".join(head) + b"\r\n\r\n" + body


# ------------------------------------------------------------------------------------------------- sending


def send(running: Running, content: bytes) -> bytes:
    """Send bytes, and return the first response."""
    received = b""
    with socket.create_connection(address(running), timeout=READ_SECONDS + ANSWER_SECONDS) as connection:
        try:
            connection.sendall(content)
            while not _is_whole(received, content) and (chunk := connection.recv(1 << 16)):
                received += chunk
        except ConnectionError:  # closed during sending; its response may be lost
            pass
    return received


def _is_whole(received: bytes, sent: bytes) -> bool:
    """Return whether a response is complete; a damaged request may leave the connection open."""
    head, end, body = received.removeprefix(CONTINUE).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    n_bytes = 0 if length is None or sent.startswith(b"HEAD") else int(length[1])
    return bool(end) and len(body) >= n_bytes


def status_of(answer: bytes) -> str:
    """Return the status of a response, or "none"."""
    answer = answer.removeprefix(CONTINUE)
    return answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "none"


def fuzz(running: Running, cases: int, first: int) -> Report:
    """Send all requests, one after the other."""
    report = Report(cases)
    settled = 0
    for number in range(first, first + cases):
        content = request(random.Random(number))
        began = time.monotonic()
        try:
            status = status_of(send(running, content))
        except TimeoutError:
            status = "no end"
        took = time.monotonic() - began
        report.slowest = max(report.slowest, took)
        report.statuses[status] += 1
        if status.startswith("5") or status == "no end" or took > READ_SECONDS + ANSWER_SECONDS:
            report.findings.append(f"case {number}: {status} after {took:.2f} s: {content[:200]!r}")
        if running.process.poll() is not None:
            report.findings.append(f"case {number}: the service stopped: {content[:200]!r}")
            return report
        if number - first == cases // 4:
            settled = memory_of(running.process.pid)
    report.growth = memory_of(running.process.pid) - settled
    if report.growth > MAX_GROWTH:
        report.findings.append(f"memory grew by {report.growth >> 20} MB")
    if '"failure"' in running.log.read_text(encoding="utf-8"):
        report.findings.append("the log has failures")
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "photos").mkdir()
        folder = build(Path(place) / "stripes", draw_photos(Path(place) / "photos"))
        with serving(folder, Path(place) / "log", token=TOKEN, settings=SETTINGS) as running:
            report = fuzz(running, arguments.cases, arguments.first)
        print(report)
        for finding in report.findings[:20]:
            print(finding)
        if report.findings:
            lines = (Path(place) / "log").read_text(encoding="utf-8").splitlines()
            print("\n".join([line for line in lines if '"failure"' in line][:10]))
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
