"""Pictures are shown from the collection's own folder and from folders that the user names, and from nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from dlfh import Collection
from dlfh.cli import main
from dlfh.collection.teaching import edit_items
from tests.service.conftest import serving

#: Paths that the maker of a collection can write into it; {root} is the folder around it.
PRIVATE = [
    "{root}/private/a.png",
    "../private/a.png",
    "pictures/../../private/a.png",
    "../shown/../private/a.png",
    "../shown-not/c.png",
    "../shown/link-out.png",
    "pictures/link-out.png",
    "pictures/folder-out/a.png",
    "../shown/missing.png",
    "../shown",
    "/proc/self/environ",
    "\0",
]
SHOWN = ["pictures/d.png", "../shown/b.png", "../shown/link-in.png", "../also-shown/b.png", "{root}/shown/b.png"]


@pytest.fixture
def root(stripes_folder: Path, photos: Path, tmp_path: Path) -> Path:
    """A folder with a collection of these items, and pictures inside and around it."""
    shop = Path(shutil.copytree(stripes_folder, tmp_path / "shop"))
    for name in ("private/a.png", "shown/b.png", "shown-not/c.png", "shop/pictures/d.png"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(photos / "8.png", tmp_path / name)
    (tmp_path / "shown/link-out.png").symlink_to(tmp_path / "private/a.png")
    (tmp_path / "shown/link-in.png").symlink_to("b.png")
    (tmp_path / "also-shown").symlink_to("shown")
    (shop / "pictures/link-out.png").symlink_to("../../private/a.png")
    (shop / "pictures/folder-out").symlink_to("../../private")
    named = [path.format(root=tmp_path) for path in (*PRIVATE, *SHOWN)]
    with Collection.open(shop, writable=True) as collection:
        columns = collection.index.modalities
        collection.index.put(
            [*PRIVATE[:-1], "NUL", *SHOWN],
            {name: np.zeros((len(named), 3), np.uint8) for name in columns},
            present={name: np.full(len(named), name == "image") for name in columns},
            metadata=[{"image": path} for path in named],
        )
    return tmp_path


def test_only_pictures_in_permitted_folders_are_shown(root: Path) -> None:
    with serving(root / "shop", root / "log", pictures=root / "shown") as running:
        items = running.client.get("/v1/items?start=40&n=100").json()["items"]
        statuses = {item["id"]: running.client.get(item["thumbnail"]).status_code for item in items}
        originals = {
            running.client.get(f"{item['thumbnail'].removesuffix('/thumbnail')}/image").status_code for item in items
        }
        messages = {running.client.get(item["thumbnail"]).text.split("' ")[-1] for item in items[: len(PRIVATE)]}
    assert statuses == dict.fromkeys([*PRIVATE[:-1], "NUL"], 404) | dict.fromkeys(SHOWN, 200)
    assert originals == {403}
    # The answer does not tell whether a private file exists; a folder is not an image.
    assert messages == {'is missing, or not in a folder that this service shows"}', 'cannot be read"}'}


def test_originals_are_downloads_of_images_in_permitted_folders(root: Path) -> None:
    (root / "shown" / "page.png").write_text("<script>alert(1)</script>", encoding="utf-8")
    with Collection.open(root / "shop", writable=True) as collection:
        edit_items(collection, ["../shown/missing.png"], lambda metadata: {"image": "../shown/page.png"})
    with serving(root / "shop", root / "log", "--originals", pictures=root / "shown") as running:
        files = {
            name: running.client.get(f"/v1/items/{quote(name, safe='')}/image") for name in (*PRIVATE[:-1], *SHOWN)
        }
    assert {name: file.status_code for name, file in files.items()} == dict.fromkeys(PRIVATE[:-1], 404) | dict.fromkeys(
        SHOWN, 200
    )
    first = files[SHOWN[0]]
    assert first.content == (root / "shop" / "pictures" / "d.png").read_bytes()
    assert first.headers["content-type"] == "image/png"
    assert first.headers["content-disposition"] == "attachment; filename*=UTF-8''d.png"
    assert first.headers["x-content-type-options"] == "nosniff"


def test_the_user_is_told_which_pictures_are_not_shown(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    with serving(stripes_folder, tmp_path / "log"):
        told = (tmp_path / "log").read_text(encoding="utf-8")
    assert f"dlfh: warning: pictures in {photos} are not shown: add --pictures {photos} to show them" in told


def test_a_collection_does_not_suggest_to_show_everything_around_it(root: Path) -> None:
    with serving(root / "shop", root / "log"):
        told = (root / "log").read_text(encoding="utf-8").splitlines()
    assert told[0] == "dlfh: warning: pictures outside the collection are not shown: name their folder with --pictures"


def test_a_folder_of_pictures_must_exist(stripes_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(stripes_folder), "--pictures", "no-such-folder"]) == 2
    assert "no-such-folder" in capsys.readouterr().err
