"""Where commands may write: never over what they read, and over what exists only if that was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlfh._persistence.outputs import check_not_read, check_outputs, write_output
from dlfh.errors import InputError


def test_new_files_may_be_written_where_there_is_a_folder(tmp_path: Path) -> None:
    check_outputs([tmp_path / "a", None, tmp_path / "b"], [None, tmp_path])
    with pytest.raises(InputError, match="there is no folder"):
        check_outputs([tmp_path / "no" / "a"])
    with pytest.raises(InputError, match="it is a folder"):
        check_outputs([tmp_path], overwrite=True)
    with pytest.raises(InputError, match="two outputs would go there"):
        check_outputs([tmp_path / "a", tmp_path / "." / "a"], overwrite=True)


def test_what_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(InputError, match="it is there already, and --overwrite would replace it"):
        check_outputs([tmp_path / "old"])
    check_outputs([tmp_path / "old"], overwrite=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="it is not a regular file"):
        check_outputs([tmp_path / "dangling"], overwrite=True)


@pytest.mark.parametrize("links", [True, False])
def test_what_has_come_to_be_since_stays(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)  # as on disks that have none
    check_outputs([tmp_path / "new"])
    (tmp_path / "new").write_text("mine")
    with pytest.raises(InputError, match="it is there already, and --overwrite would replace it"):
        write_output(tmp_path / "new", [b"ours"], overwrite=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
    write_output(tmp_path / "new", [b"ours"], overwrite=True)
    write_output(tmp_path / "other", [b"ours"], overwrite=False)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"new": "ours", "other": "ours"}


def test_no_name_of_an_input_leads_to_an_output(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    table = tmp_path / "data" / "table"
    table.touch()
    (tmp_path / "soft").symlink_to(table)
    (tmp_path / "hard").hardlink_to(table)
    (tmp_path / "way").symlink_to(tmp_path / "data")
    for name in (table, tmp_path / "soft", tmp_path / "hard", tmp_path / "way" / "table"):
        with pytest.raises(InputError, match="it is what is read"):
            check_outputs([name], [table], overwrite=True)
    for name in (table, tmp_path / "soft", tmp_path / "way" / "table"):
        with pytest.raises(InputError, match=r"it is a file in .*data, which is read"):
            check_not_read(name, [None, tmp_path / "gone", tmp_path / "data"])
