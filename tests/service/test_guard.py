"""Keys, host names, size and time limits, and response headers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dlfh.errors import InputError
from dlfh.service import Settings
from tests.service.conftest import TOKEN, Running, address, memory_of, raw, search_request, serving, slow_search


@pytest.mark.parametrize(
    ("authorization", "sentence"),
    [
        (None, "a key is required"),
        ("Bearer wrong-token-of-some-length", "the key is wrong"),
        (f"Basic {TOKEN}", "the key is wrong"),
        (f"Bearer {TOKEN}x", "the key is wrong"),
        ("Bearer", "the key is wrong"),
        ("Bearer \xff", "the key is wrong"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/collection", "/v1/items/8.png/thumbnail", "/metrics", "/v1/nothing"])
def test_requests_need_the_token(strict: Running, authorization: str | None, sentence: str, path: str) -> None:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    with httpx.Client(base_url=strict.address, trust_env=False) as client:
        response = client.get(path, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert sentence in response.json()["error"]


def test_the_page_and_health_need_no_token(strict: Running) -> None:
    with httpx.Client(base_url=strict.address, trust_env=False) as client:
        assert [client.get(path).status_code for path in ("/", "/healthz", "/readyz")] == [200] * 3


def test_the_log_does_not_contain_the_token(strict: Running) -> None:
    strict.client.options("/v1/map")  # a marker that no other test produces
    strict.client.get("/v1/collection")
    assert "/v1/collection" in "".join(strict.lines_after('"OPTIONS"', 1))
    assert TOKEN not in strict.log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.", "[::2]", "127.0.0.1@evil"]
)
def test_an_unknown_host_is_rejected(service: Running, host: str) -> None:
    response = service.client.get("/v1/collection", headers={"host": host})
    assert response.status_code == 421
    assert "host name is not allowed" in response.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:80"])
def test_local_host_names_are_accepted(service: Running, host: str) -> None:
    assert service.client.get("/healthz", headers={"host": host}).status_code == 200


def test_every_response_has_security_headers(service: Running) -> None:
    for path in ("/", "/v1/collection", "/nothing", "/v1/items/nope"):
        headers = service.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_the_actual_size_of_a_body_is_limited(strict: Running) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(300):
            yield b" " * 10_000

    whole, streamed = (
        strict.client.post("/v1/search", content=content, headers={"content-type": "application/json"})
        for content in (b" " * 3000, chunks())
    )
    for response in (whole, streamed):
        assert response.status_code == 413
        assert response.json() == {"error": "the request body has more than 2,000 bytes"}
    assert strict.client.post("/v1/search/image", files={"image": b"x" * 5000}).status_code == 413


def test_a_read_only_service_rejects_large_items(strict: Running) -> None:
    response = strict.client.post("/v1/items", json={"items": [{"id": "a", "text": "b" * 3000}]})
    assert response.status_code == 413
    assert "more than 2,000 bytes" in response.json()["error"]


def test_an_oversized_body_is_not_kept_in_memory(service: Running) -> None:
    before = memory_of(service.process.pid)
    response = service.client.post("/v1/search", content=(b" " * 65536 for _ in range(800)))
    assert response.status_code == 413
    assert memory_of(service.process.pid) - before < 30 << 20


def test_waiting_requests_take_little_memory(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    body = b'{"queries": [' + b",".join([b'{"modality": "text", "vector": [' + b"1," * 65_000 + b"1]}"] * 7) + b"]}"
    with serving(stripes_folder, tmp_path / "log", pictures=photos) as running, contextlib.ExitStack() as connections:
        before, slowest = memory_of(running.process.pid), 0.0
        opened = [connections.enter_context(socket.create_connection(address(running))) for _ in range(28)]
        for number, connection in enumerate(opened):  # the first ones keep the workers busy, and the others waiting
            connection.sendall(search_request(slow_search(30) if number < 4 else body))
        for _ in range(3):
            began = time.monotonic()
            assert running.client.get("/healthz").status_code == 200
            slowest = max(slowest, time.monotonic() - began)
        assert {connection.recv(12) for connection in opened[4:]} == {b"HTTP/1.1 422"}
        status = Path(f"/proc/{running.process.pid}/status").read_text(encoding="utf-8")
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    resident = int(status.split("RssFile:")[1].split()[0]) * 1024
    assert peak - resident - before < 250 << 20
    assert slowest < 2


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b'{"text": "level", "ids": [' + b'"",' * 300_000 + b'""]}', 422, "at most 10000 items"),
        (b'{"text": "level", "k": [' + b"1," * 500_000 + b"1]}", 413, "more than 500,000 values"),
        (b"[" * 100_000, 400, "the body is not JSON"),
    ],
)
def test_the_values_of_a_request_are_counted_before_it_is_parsed(
    service: Running, body: bytes, status: int, sentence: str
) -> None:
    response = service.client.post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert sentence in response.json()["error"]


def test_a_body_must_be_sent_as_json(service: Running) -> None:
    response = service.client.post("/v1/search", content=b'{"text": "level"}', headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()) == (422, {"error": "send the body as application/json"})


def test_slow_requests_time_out(strict: Running) -> None:
    head = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + TOKEN.encode() + b"\r\n"
    began = time.monotonic()
    assert raw(strict, head).startswith(b"HTTP/1.1 408 ")  # incomplete head
    assert raw(strict, head + b"content-length: 9\r\n\r\n{").startswith(b"HTTP/1.1 408 ")  # incomplete body
    assert raw(strict, b"") == b""  # no data
    assert time.monotonic() - began < 3


ORIGIN = "https://shop.example.org"


@pytest.fixture(scope="module")
def shared(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("log") / "log"
    with serving(stripes_folder, log, "--allow-origin", ORIGIN, token=TOKEN) as running:
        yield running


def test_pages_of_permitted_origins_may_use_the_service(shared: Running, service: Running) -> None:
    asked = {"origin": ORIGIN, "access-control-request-method": "POST"}
    with httpx.Client(base_url=shared.address, trust_env=False) as client:
        preflight = client.options("/v1/search", headers=asked)  # without a key, as browsers send it
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    answer = shared.client.get("/v1/collection", headers={"origin": ORIGIN})
    assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (ORIGIN, "origin")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "access-control-allow-credentials" not in answer.headers
    for running, origin in ((shared, "https://evil.example"), (shared, f"{ORIGIN}.evil"), (service, ORIGIN)):
        for response in (
            running.client.options("/v1/search", headers=asked | {"origin": origin}),
            running.client.get("/v1/collection", headers={"origin": origin}),
        ):
            assert "access-control-allow-origin" not in response.headers
            assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_an_origin_has_no_path() -> None:
    with pytest.raises(InputError, match="an origin looks like"):
        Settings(origins=("https://shop.example.org/page",))
