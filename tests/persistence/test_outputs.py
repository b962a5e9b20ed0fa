"""Outputs never replace inputs, and replace existing files only on request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlfh._persistence.outputs import check_not_input, check_outputs, write_output
from dlfh.errors import InputError


def test_new_files_can_be_written_into_existing_folders(tmp_path: Path) -> None:
    check_outputs([tmp_path / "a", None, tmp_path / "b"], [None, tmp_path])
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        check_outputs([tmp_path / "no" / "a"])
    with pytest.raises(InputError, match="it is a folder"):
        check_outputs([tmp_path], overwrite=True)
    with pytest.raises(InputError, match="another output has the same path"):
        check_outputs([tmp_path / "a", tmp_path / "." / "a"], overwrite=True)


def test_existing_files_are_replaced_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(InputError, match="it exists; use --overwrite to replace it"):
        check_outputs([tmp_path / "old"])
    check_outputs([tmp_path / "old"], overwrite=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="it is not a regular file"):
        check_outputs([tmp_path / "dangling"], overwrite=True)


@pytest.mark.parametrize("links", [True, False])
def test_files_created_in_the_meantime_are_kept(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)  # as on file systems without hard links
    check_outputs([tmp_path / "new"])
    (tmp_path / "new").write_text("theirs")
    with pytest.raises(InputError, match="it exists; use --overwrite to replace it"):
        write_output(tmp_path / "new", [b"ours"], overwrite=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
    write_output(tmp_path / "new", [b"ours"], overwrite=True)
    write_output(tmp_path / "other", [b"ours"], overwrite=False)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"new": "ours", "other": "ours"}


def test_inputs_are_recognised_under_every_name(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    table = tmp_path / "data" / "table"
    table.touch()
    (tmp_path / "soft").symlink_to(table)
    (tmp_path / "hard").hardlink_to(table)
    (tmp_path / "way").symlink_to(tmp_path / "data")
    for name in (table, tmp_path / "soft", tmp_path / "hard", tmp_path / "way" / "table"):
        with pytest.raises(InputError, match="it is also an input"):
            check_outputs([name], [table], overwrite=True)
    for name in (table, tmp_path / "soft", tmp_path / "way" / "table"):
        with pytest.raises(InputError, match=r"it is inside the input folder .*data"):
            check_not_input(name, [None, tmp_path / "gone", tmp_path / "data"])
