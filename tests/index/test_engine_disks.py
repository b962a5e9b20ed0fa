"""Engines whose disk is full or whose process is killed: items that were added exist exactly once."""

from __future__ import annotations

import importlib
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import Index, StorageError
from dlfh.index.engines import milvus
from dlfh.index.engines.address import parse_address
from tests.index.engines import killed_writer, place_of, postgres_server, random_codes

pytestmark = pytest.mark.faults

CODE = np.zeros((1, 8), np.uint8)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of twelve megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(place)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounts a small disk: run as root")
    except FileNotFoundError:
        pytest.skip("needs mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def address_on(disk: Path, engine: str, folder: Path) -> Iterator[str]:
    """Return an address with items on a disk; for PostgreSQL, in a tablespace on it."""
    if engine != "postgresql":
        yield place_of(engine, disk)
        return
    with postgres_server(folder) as server:
        (disk / "tables").mkdir()
        os.chown(disk / "tables", folder.stat().st_uid, folder.stat().st_gid)
        for each in (disk, *disk.parents):  # the user of the server needs access
            if each.stat().st_uid == os.getuid():
                each.chmod(each.stat().st_mode | 0o011)
        with importlib.import_module("psycopg").connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk / 'tables'}'")
        yield f"{server}&options=-c%20default_tablespace%3Dsmall#full"


def filled(index: Any) -> tuple[list[str], str]:
    """Add items until the disk is full; return their ids and the error message."""
    texts = [{"text": np.random.default_rng(row).bytes(100).hex()} for row in range(500)]
    added: list[str] = []
    while True:
        names = [f"{len(added)}-{row}" for row in range(500)]
        try:
            index.add(names, {"image": random_codes(500)}, metadata=texts)
        except StorageError as error:
            return added, str(error)
        added += names


@pytest.mark.parametrize("engine", ["duckdb", "postgresql", "milvus"])
def test_a_full_disk_is_a_storage_error_and_earlier_items_remain(
    engine: str, small_disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with address_on(small_disk, engine, tmp_path_factory.mktemp("pg")) as address:
        with Index.create(address, 64, ["image"]) as index:
            added, message = filled(index)
            assert "\n" not in message
            assert "No space left on device" in message or "the disk is full" in message
            assert added
            assert index.ids() == added  # without the refused ones
            assert len(index.search("image", CODE, 5)[0]) == 5
        with Index.open(address) as index:
            assert index.ids() == added
            index.drop()


def kill_engine(address: str) -> None:
    """Kill the process of an embedded engine, if it is running."""
    reference = milvus._embedded_server(parse_address(address).place)
    engine = None if reference is None else reference()
    if engine is not None and engine._p is not None:
        engine._p.kill()


def test_changes_take_effect_exactly_once_when_an_embedded_engine_is_killed(tmp_path: Path) -> None:
    address = place_of("milvus", tmp_path)
    with Index.create(address, 64, ["image"]) as index, Index.open(address) as other:
        index.add(["a", "b"], {"image": random_codes(2)})
        before = index.state
        kill_engine(address)
        assert other.ids() == index.ids() == ["a", "b"]  # restarted for both
        stop = threading.Event()

        def disturb() -> None:
            for _ in range(3):
                if not stop.wait(0.7):
                    kill_engine(address)

        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        try:
            for block in range(20):
                index.add([f"{block}-{row}" for row in range(40)], {"image": random_codes(40)})
                index.remove([f"{block}-0"])
        finally:
            stop.set()
            disturbing.join()
        expected = ["a", "b", *(f"{block}-{row}" for block in range(20) for row in range(1, 40))]
        assert index.ids() == expected == other.ids()
        assert len(index) == len(expected)
        assert index.state != before


def test_a_milvus_file_survives_a_killed_writer(tmp_path: Path) -> None:
    address = place_of("milvus", tmp_path)
    script = (
        "import sys, numpy as np\n"
        "from dlfh import Index\n"
        "index = Index.create(sys.argv[1], 64, ['image'])\n"
        "for block in range(10_000):\n"
        "    names = [f'{block}-{row}' for row in range(50)]\n"
        "    index.add(names, {'image': np.zeros((50, 8), np.uint8)})\n"
        "    index.put(['shared'], {'image': np.zeros((1, 8), np.uint8)}, metadata=[{'block': block}])\n"
        "    print(block, flush=True)\n"
    )
    done = killed_writer(script, address)
    with Index.open(address) as index:
        names = index.ids()
        assert len(names) == len({*names}) == len(index)
        assert names.count("shared") == 1
        assert {f"{block}-{row}" for block in range(done) for row in range(50)} <= {*names}
        assert (len(names) - 1) % 50 == 0
        assert done <= (len(names) - 1) // 50 <= done + 1


def test_closing_an_index_leaves_others_of_the_same_engine_open(tmp_path: Path) -> None:
    address = place_of("milvus", tmp_path)
    with Index.create(address, 64, ["image"]) as index:
        index.add(["a"], {"image": CODE})
        Index.open(address).close()
        assert index.ids() == ["a"]
