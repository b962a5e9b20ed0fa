"""Changing a collection on the search page, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from dlfh.collection.marks import read_marks
from tests.service.browsing import Tab, tab
from tests.service.conftest import TOKEN, Running

UNLABELLED = 6


@pytest.fixture(scope="module")
def writable(service_of_icons: Running) -> Running:
    """The service of icons, some of which have no labels."""
    items = service_of_icons.client.get("/v1/items", params={"start": 20, "n": UNLABELLED}).json()["items"]
    labels = sorted({label for item in items for label in item["labels"]})
    change(service_of_icons, "label", ids=[item["id"] for item in items], remove=labels)
    return service_of_icons


@pytest.fixture
def editable(page: Tab) -> Tab:
    """A page of a visitor who may write."""
    page.page.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
    return page


def change(running: Running, name: str, **body: Any) -> Any:
    response = running.client.post(f"/v1/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def labels_of(running: Running, *ids: str) -> list[list[str]]:
    return [sorted(running.client.get(f"/v1/items/{name}").json()["labels"]) for name in ids]


def n_items(running: Running) -> int:
    n: int = running.client.get("/v1/collection").json()["items"]
    return n


def select(page: Tab, *places: int) -> None:
    for place in places:
        row = page.page.locator("#answers li[data-id]").nth(place)
        row.hover()
        row.locator(".tool.select").click()


def undo(page: Tab, running: Running, before: Any, read: Any) -> None:
    """Undo the last change, and check that the service has the former values."""
    page.page.click("#undo")
    expect(page.page.locator("#toast")).to_contain_text("Undone")
    assert read() == before


def test_several_items_are_labelled_together_and_the_change_is_undone(editable: Tab, writable: Running) -> None:
    editable.go("?q=arrow")
    ids = editable.ids[:5]
    before = labels_of(writable, *ids)
    select(editable, 0, 1)
    editable.page.locator("#answers li[data-id]").nth(4).locator("a.card").click(modifiers=["Shift"])  # a range
    expect(editable.page.locator("#actions strong")).to_have_text("5 selected")
    assert editable.search == "?q=arrow"  # a click selects instead of opening
    assert editable.faults() == []
    editable.page.click("#edit-labels")
    assert editable.faults() == []
    editable.page.keyboard.type("Sale")
    editable.page.keyboard.press("Enter")
    expect(editable.page.locator("#labels .chip.label", has_text="Sale")).to_be_visible()
    assert labels_of(writable, *ids) == [sorted([*labels, "Sale"]) for labels in before]
    editable.page.click("[aria-label='Remove the label Sale']")
    expect(editable.page.locator("#labels .chip.label", has_text="Sale")).to_have_count(0)
    assert labels_of(writable, *ids) == before
    editable.page.keyboard.type("ARROWS, Sale")  # known labels in any case
    editable.page.keyboard.press("Enter")
    expect(editable.page.locator("#labels .chip.label", has_text="Sale")).to_be_visible()
    assert labels_of(writable, *ids) == [sorted({*labels, "Sale", "Arrows"}) for labels in before]
    editable.page.keyboard.press("Escape")
    expect(editable.page.locator("#answers .labels").first).to_contain_text("Sale")  # without another search
    undo(editable, writable, before, lambda: labels_of(writable, *ids))
    expect(editable.page.locator("#answers .labels").first).not_to_contain_text("Sale")


def test_items_are_selected_deleted_and_restored_by_keyboard(editable: Tab, writable: Running) -> None:
    before = n_items(writable)
    editable.go("?q=arrow")
    ids = editable.ids[:3]
    keyboard = editable.page.keyboard
    editable.page.locator("#answers a.card").first.focus()
    keyboard.press("x")
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    keyboard.press("Shift+X")
    expect(editable.page.locator("#actions strong")).to_have_text("3 selected")
    keyboard.press("Escape")
    expect(editable.page.locator("#actions")).to_be_hidden()
    keyboard.press("Shift+X")
    editable.page.locator("#answers a.card").first.focus()
    keyboard.press("Shift+X")
    keyboard.press("Delete")
    expect(editable.page.locator("#toast")).to_contain_text("Deleted 3 items.")
    assert n_items(writable) == before - 3
    assert not {*ids} & {*editable.ids}
    keyboard.press("z")
    expect(editable.page.locator("#toast")).to_contain_text("Undone")
    editable.settle()
    assert n_items(writable) == before
    assert {*ids} <= {*editable.ids}


def test_an_item_is_labelled_and_deleted_on_its_own_page(editable: Tab, writable: Running) -> None:
    name = writable.client.get("/v1/label/next", params={"n": 1}).json()["items"][0]["id"]
    suggested = change(writable, "suggest", ids=[name], missing=True, k=6, precision=0.5)["suggestions"]
    editable.go(f"?item={name}")
    if suggested:  # a suggested tag is accepted with one click
        editable.page.click(f"[aria-label='Add the suggested label {suggested[0]['label']}']")
        expect(editable.page.locator("#item .chip.label")).to_have_count(1)
        assert labels_of(writable, name) == [[suggested[0]["label"]]]
        undo(editable, writable, [[]], lambda: labels_of(writable, name))
    assert editable.settle().faults() == []
    before = n_items(writable)
    editable.page.click("#delete-item")
    expect(editable.page.locator("#start")).to_be_visible()
    assert n_items(writable) == before - 1
    undo(editable, writable, before, lambda: n_items(writable))


def test_marks_change_the_results_at_once_and_are_kept_on_request(
    editable: Tab, writable: Running, icons: Path
) -> None:
    editable.go("?q=arrow")
    wrong, right = editable.ids[0], editable.ids[3]
    editable.page.locator("#answers a.card").first.focus()
    editable.page.keyboard.press("w")
    editable.page.wait_for_url("**wrong=*")
    editable.page.wait_for_function("id => document.querySelector('#answers a.card')?.dataset.id !== id", arg=wrong)
    expected = writable.search(text="arrow", irrelevant=[wrong], k=24)["results"][0]["answers"]
    assert editable.settle().ids[:24] == [answer["id"] for answer in expected]
    assert wrong not in editable.ids
    row = editable.page.locator(f"#answers li[data-id='{right}']")
    row.hover()
    row.locator(".tool.right").click()
    editable.page.wait_for_url("**right=*")
    expect(row.locator(".tool.right")).to_have_attribute("aria-pressed", "true")
    expected = writable.search(text="arrow", relevant=[right], irrelevant=[wrong], k=24)["results"][0]["answers"]
    assert editable.settle().ids[:24] == [answer["id"] for answer in expected]
    assert read_marks(icons) == []  # marks are kept only on request
    editable.page.click("#keep-marks")
    expect(editable.page.locator("#toast")).to_contain_text("Kept")
    (kept,) = read_marks(icons)
    assert (kept.text, kept.relevant, kept.irrelevant) == ("arrow", (right,), (wrong,))
    assert editable.faults() == []
    editable.page.click("#marks")
    editable.page.wait_for_url("**?q=arrow")


def test_visitors_who_may_not_write_are_not_offered_to_keep_marks(page: Tab) -> None:
    page.go("?q=arrow")
    page.page.locator("#answers a.card").first.focus()
    page.page.keyboard.press("r")
    expect(page.page.locator("#marks")).to_contain_text("1 right")
    expect(page.page.locator("#keep-marks")).to_have_count(0)


def test_dropped_pictures_are_added_with_captions(editable: Tab, writable: Running, icons: Path) -> None:
    before = n_items(writable)
    names = [path.stem for path in sorted((icons.parent / "icons").glob("*.png"))[:3]]
    files = {f"{name}.png": (icons.parent / "icons" / f"{name}.png").read_bytes() for name in names}
    editable.go().drop(files | {f"{names[0]}.txt": b"a caption from a file"})
    expect(editable.page.locator("#adding h2")).to_have_text("Add 3 pictures")
    assert editable.faults() == []
    expect(editable.page.locator("#caption-0")).to_have_value("a caption from a file")
    editable.page.fill("#caption-1", "a caption that was typed")
    editable.page.fill("#adding-labels", "new, arrows")
    editable.page.click("#add")
    expect(editable.page.locator("#toast")).to_contain_text("Added 3 pictures.")
    assert n_items(writable) == before + 3
    newest = writable.client.get("/v1/items", params={"start": before, "n": 3}).json()["items"]
    assert [item["labels"] for item in newest] == [["new", "Arrows"]] * 3
    assert [item["title"] for item in newest][:2] == ["a caption from a file", "a caption that was typed"]
    assert editable.settle().ids[:3] == [item["id"] for item in reversed(newest)]
    undo(editable, writable, before, lambda: n_items(writable))


def test_items_are_labelled_one_by_one_with_the_keyboard(editable: Tab, writable: Running) -> None:
    items = writable.client.get("/v1/label/next", params={"n": 20}).json()["items"]
    assert len(items) == UNLABELLED
    place = next(place for place, item in enumerate(items) if item["suggestions"])
    editable.go("?view=label")
    assert editable.faults() == []
    keyboard = editable.page.keyboard
    for _ in range(place):
        keyboard.press("s")
    expect(editable.page.locator("#tag-progress")).to_have_text(f"{place + 1} of {UNLABELLED}")
    keyboard.press("1")
    expect(editable.page.locator(".choice").first).to_have_attribute("aria-pressed", "true")
    keyboard.press("t")
    keyboard.type("sale")
    keyboard.press("Enter")
    expect(editable.page.locator(".choice[aria-pressed=true]")).to_have_count(2)
    keyboard.press("Enter")  # the field is empty: save
    expect(editable.page.locator("#toast")).to_contain_text("sale")
    saved = sorted([items[place]["suggestions"][0]["label"], "sale"])
    assert labels_of(writable, items[place]["id"]) == [saved]
    undo(editable, writable, [[]], lambda: labels_of(writable, items[place]["id"]))
    editable.page.locator("#tagging-title").focus()
    keyboard.press("Escape")
    expect(editable.page.locator("#tagging")).to_be_hidden()


def test_a_long_press_selects_on_a_touch_screen(browser: Browser, writable: Running) -> None:
    with tab(browser, writable.address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as page:
        page.page.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
        page.go("?q=arrow")
        box = page.page.locator("#answers .tile").first.bounding_box()
        assert box
        finger = {"x": box["x"] + 40, "y": box["y"] + 40}
        devtools = page.page.context.new_cdp_session(page.page)
        devtools.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [finger]})
        expect(page.page.locator("#actions strong")).to_have_text("1 selected")
        devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.page.locator("#answers a.card").nth(1).tap()  # a touch selects the next one
        expect(page.page.locator("#actions strong")).to_have_text("2 selected")
        assert not page.is_wider_than_the_screen()
        assert page.faults() == []


def test_visitors_who_may_only_read_see_no_editing_until_they_sign_in(page: Tab) -> None:
    page.go("?q=arrow").page.click("#to-menu")
    for name in ("#to-add", "#to-label", "#add-button", "#label-button"):
        expect(page.page.locator(name)).to_be_hidden()
    assert page.page.locator(".tool.select").count() == 0
    page.page.keyboard.press("Escape")
    page.page.locator("#answers a.card").first.focus()
    for key in ("x", "l", "Delete"):
        page.page.keyboard.press(key)
    expect(page.page.locator("#actions")).to_be_hidden()
    page.go(f"?item={page.ids[0]}")
    expect(page.page.locator("#delete-item")).to_have_count(0)
    expect(page.page.locator(".label-editor")).to_have_count(0)
    page.page.click("#to-menu")
    page.page.click("#to-sign")
    assert page.faults() == []
    page.page.fill("#sign-token", TOKEN)
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#item .label-editor")).to_be_visible()
    expect(page.page.locator("#add-button")).to_be_visible()
    page.page.click("#to-menu")
    page.page.click("text=Sign out")
    expect(page.page.locator("#add-button")).to_be_hidden()
