"""Start, logs and graceful shutdown of a service."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path

import pytest

from dlfh.cli import main
from tests.service.conftest import Running, serving


def test_pending_requests_are_answered_during_shutdown(stripes_folder: Path, tmp_path: Path) -> None:
    answered: list[int] = []
    lost: list[BaseException] = []
    refused = 0
    ending = threading.Event()
    body = json.dumps({"text": "level", "k": 40})

    def ask(host: str, port: int) -> None:
        nonlocal refused
        while True:
            connection = http.client.HTTPConnection(host, port, timeout=20)
            try:
                connection.connect()
            except OSError:
                refused += 1
                return
            served = False
            try:
                while True:
                    connection.request("POST", "/v1/search", body, {"content-type": "application/json"})
                    response = connection.getresponse()
                    assert len(json.loads(response.read())["results"]) == 1
                    answered.append(response.status)
                    served = True
                    if response.will_close:
                        break
            except BaseException as error:
                # Connections in the backlog of the socket when it is closed never reached the service.
                if served or not (ending.is_set() and isinstance(error, ConnectionError)):
                    lost.append(error)
                return
            finally:
                connection.close()

    with serving(stripes_folder, tmp_path / "log") as running:
        url = running.client.base_url
        assert url.port is not None
        threads = [threading.Thread(target=ask, args=(url.host, url.port)) for _ in range(8)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while len(answered) < 50 and time.monotonic() < until:
            time.sleep(0.01)
        ending.set()
        assert running.end() == 0
        for thread in threads:
            thread.join(20)
    assert not lost, lost
    assert set(answered) == {200}
    assert len(answered) >= 50
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert events[0] == "starting"
    assert events[-1] == "stopped"


def test_log_lines_contain_no_payload(service: Running) -> None:
    service.client.options("/v1/search")  # a marker that no other test produces
    service.search(text="a secret wish")
    service.client.get("/v1/items/a%20secret%20id")
    service.client.get("/a-secret-path?secret=1")
    lines = service.lines_after('"OPTIONS"', 3)
    assert "secret" not in "".join(lines)
    requests = list(map(json.loads, lines))
    assert [line["endpoint"] for line in requests] == ["/v1/search", "/v1/items/{id}", "none"]
    assert [line["status"] for line in requests] == [200, 404, 404]
    assert all(line["milliseconds"] >= 0 for line in requests)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--writable"], "a writable service needs a token"),
        (["--token-file", "no-such-file"], "the token cannot be read from no-such-file"),
        (["--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
    ],
)
def test_invalid_options_are_reported(
    stripes_folder: Path,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DLFH_TOKEN", raising=False)
    assert main(["serve", str(stripes_folder), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_short_token_is_rejected_and_not_printed(
    stripes_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("hush\n", encoding="utf-8")
    assert main(["serve", str(stripes_folder), "--token-file", str(tmp_path / "token")]) == 2
    error = capsys.readouterr().err
    assert "16 or more" in error
    assert "hush" not in error
