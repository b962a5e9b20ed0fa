"""The page, in a real browser, on a real service of icons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Route, expect, sync_playwright

from tests.service.browsing import WICKED, Tab, build_icons, open_browser, tab
from tests.service.conftest import TOKEN, Running, serving

Search = dict[str, Any]


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Path:
    return build_icons(tmp_path_factory.mktemp("icons"))


@pytest.fixture(scope="module")
def service_of_icons(icons: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(icons, tmp_path_factory.mktemp("log") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        own = open_browser(playwright, chromium)
        yield own
        own.close()


@pytest.fixture
def page(browser: Browser, service_of_icons: Running) -> Iterator[Tab]:
    with tab(browser, service_of_icons.address) as own:
        yield own


def found(service: Running, **asked: Any) -> list[str]:
    """What the service finds, as many as the page asks for."""
    return [item["id"] for item in service.search(k=24, **asked)["results"][0]["answers"]]


def picture_of(icons: Path, name: str) -> bytes:
    return (icons.parent / "icons" / f"{name}.png").read_bytes()


# ------------------------------------------------------------------------------------------------------ searching


def test_answers_appear_while_people_type(page: Tab, service_of_icons: Running) -> None:
    page.go().type("bird")
    assert page.ids == found(service_of_icons, text="bird")
    assert page.search == "?q=bird"
    (answer, *_) = service_of_icons.search(text="bird", k=1)["results"][0]["answers"]
    card = page.page.locator("a.card").first
    expect(card.locator(".percent")).to_have_text(f"{answer['probability']:.0%}".replace("%", " %"))
    expect(card.locator(".facts")).to_contain_text(f"{answer['hamming_distance']} bits apart")
    expect(card.locator(".facts")).to_contain_text(f"distance {answer['distance']:.1f}")
    expect(card.locator(".barcode")).to_have_attribute("aria-label", f"{answer['hamming_distance']} of 40 bits differ")
    expect(page.page.locator("#said")).to_contain_text("24 answers")
    assert page.page.evaluate("document.querySelector('a.card img').naturalWidth") == 64


def test_a_late_answer_to_what_was_typed_before_is_dropped(page: Tab, service_of_icons: Running) -> None:
    late: list[Route] = []

    def hold_back(route: Route) -> None:
        if json.loads(route.request.post_data or "{}").get("text") == "a":
            late.append(route)
        else:
            route.continue_()

    page.go().page.route("**/v1/search", hold_back)
    with page.page.expect_request("**/v1/search"):
        page.page.fill("#text", "a")
    page.page.fill("#text", "arrow")
    page.page.wait_for_selector("a.card")
    assert len(late) == 1
    late[0].abort()  # what the page called off itself, and would not listen to
    page.page.wait_for_timeout(100)
    assert page.ids == found(service_of_icons, text="arrow")
    assert page.texts(".notice") == []


@pytest.mark.parametrize("kind", ["drop", "paste", "choose"])
def test_an_image_finds_texts(page: Tab, icons: Path, service_of_icons: Running, kind: str) -> None:
    name = found(service_of_icons, text="arrow")[0]
    content = picture_of(icons, name)
    page.go("?q=bird&modalities=text")
    if kind == "drop":
        page.bring("dragenter", content)
        expect(page.page.locator("#drop")).to_be_visible()
    if kind == "choose":
        page.page.set_input_files("#file", {"name": "x.png", "mimeType": "image/png", "buffer": content})
    else:
        page.bring(kind, content)
    expect(page.page.locator(".head h1")).to_have_text("Your picture")
    expect(page.page.locator("#drop")).to_be_hidden()
    options = json.dumps({"k": 24, "modalities": "text"})
    response = service_of_icons.client.post("/v1/search/image", files={"image": content}, data={"options": options})
    (result,) = response.json()["results"]
    assert page.ids == [answer["id"] for answer in result["answers"]]
    assert page.texts(".grid.texts .card .words") == [answer["metadata"]["text"] for answer in result["answers"]]
    assert page.search == f"?code={result['query']['code']}&modalities=text"  # its code can be shared
    page.page.click("#query-source button")
    page.settle()
    assert page.search == "?modalities=text"


def test_people_go_on_from_an_answer_across_modalities(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=bird")
    name = page.ids[1]
    page.page.locator("a.card").nth(1).click()
    expect(page.page.locator(".head h1")).to_have_text(name)
    assert page.settle().ids == found(service_of_icons, id=name)
    page.page.click("label[for=in-text]")
    expect(page.page.locator(".grid.texts")).to_be_visible()
    assert page.settle().ids == found(service_of_icons, id=name, modalities="text")
    assert page.search == f"?id={name}&modalities=text"
    expect(page.page.locator("#least")).to_be_disabled()  # nobody measured how probable these are


def test_filters_come_from_the_collection(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=people")
    page.page.click("#filters-toggle")
    page.page.fill("[aria-label='Find a value of labels']", "arrows")
    page.page.click(".filter .chip >> text=Arrows")
    expect(page.page.locator("#chosen")).to_contain_text("Arrows")
    page.settle()
    assert page.ids == found(service_of_icons, text="people", where={"labels": ["Arrows"]})
    page.page.click("fieldset:has(legend:text-is('Row')) .chip >> nth=1")
    expect(page.page.locator("#chosen .chip")).to_have_count(2)
    page.settle()
    row = int(page.search.split("where.row=")[1])
    both = {"labels": ["Arrows"], "row": [row]}
    assert page.ids == found(service_of_icons, text="people", where=both) != []
    page.page.click("#chosen .chip >> text=Arrows")
    expect(page.page.locator("#chosen .chip")).to_have_count(1)
    assert page.settle().ids == found(service_of_icons, text="people", where={"row": [row]})


def test_nothing_found_is_a_state_with_a_way_on(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=bird").page.fill("#least", "95")
    expect(page.page.locator(".notice h2")).to_have_text("Nothing found")
    best = service_of_icons.search(text="bird", k=1)["results"][0]["answers"][0]["probability"]
    assert f"The best one is {round(100 * best)} % probable" in page.texts(".notice p")[0]
    assert page.search == "?q=bird&p=95"
    assert page.faults() == []
    page.page.click("text=Show it anyway")
    assert page.settle().ids == found(service_of_icons, text="bird")
    page.page.fill("#least", "20")
    page.page.wait_for_url("**p=20")
    assert page.settle().ids == found(service_of_icons, text="bird", min_probability=0.2)
    page.go("?q=bird&where.row=17")
    expect(page.page.locator(".notice")).to_contain_text("No item has what the filters ask for")


def test_unknown_words_produce_a_warning(page: Tab) -> None:
    page.go("?q=qqqq")
    expect(page.page.locator(".warning")).to_contain_text("None of these words occur in the collection: qqqq.")


def test_more_answers_come_when_asked_for(page: Tab) -> None:
    page.go("?q=arrow").page.click("#more")
    page.page.wait_for_function("() => document.querySelectorAll('a.card').length === 48")
    assert page.search == "?q=arrow&k=48"


# ------------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "search",
    [
        "?q=bird&modalities=text&p=10",
        "?id=" + quote(WICKED, safe=""),
        "?code=1f00ff3a5c&modalities=image",
        "?q=b&view=map",
    ],
)
def test_an_address_can_be_shared(page: Tab, browser: Browser, search: str) -> None:
    page.go(search)
    with tab(browser, page.address) as other:
        other.page.goto(page.page.url)
        assert other.settle().ids == page.ids != []
        assert other.search == page.search


def test_back_and_forward_go_through_what_was_asked(page: Tab, icons: Path) -> None:
    page.go().type("bird")
    first = page.ids
    page.page.locator("#text").press("Enter")
    page.page.locator("a.card").nth(2).click()
    expect(page.page.locator(".head h1")).to_have_text(first[2])
    page.bring("paste", picture_of(icons, first[3]))
    expect(page.page.locator(".head h1")).to_have_text("Your picture")
    third = page.settle().ids
    page.page.go_back()
    expect(page.page.locator(".head h1")).to_have_text(first[2])
    page.page.go_back()
    expect(page.page.locator(".head h1")).to_have_text("bird")
    expect(page.page.locator("#text")).to_have_value("bird")
    assert page.ids == first
    page.page.go_back()
    expect(page.page.locator("#welcome h1")).to_be_visible()
    for title in ("bird", first[2], "Your picture"):
        page.page.go_forward()
        expect(page.page.locator(".head h1")).to_have_text(title)
    assert page.ids == third
    page.page.reload()  # the picture is gone, and its code stands for it
    expect(page.page.locator(".head h1")).to_have_text("A code")


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
values = st.one_of(
    texts, st.booleans(), st.integers(-(10**6), 10**6), st.sampled_from(["3", "true", '"x"', "null", "1e3"])
)
searches = st.fixed_dictionaries(
    {
        "text": st.just("") | texts.filter(str.strip),
        "id": st.none() | texts,
        "code": st.none() | st.binary(min_size=1, max_size=8).map(bytes.hex),
        "modalities": st.none() | texts,
        "least": st.integers(0, 99).map(lambda percent: percent / 100),
        "where": st.dictionaries(texts, st.lists(values, min_size=1, max_size=3), max_size=2),
        "k": st.integers(1, 999),
        "map": st.booleans(),
    }
)


def only_one_asks(search: Search) -> Search:
    first = next((name for name in ("id", "code", "text") if search[name]), None)
    return search | {name: "" if name == "text" else None for name in ("id", "code", "text") if name != first}


def test_an_address_says_the_whole_search(page: Tab) -> None:
    page.go()

    @settings(max_examples=5)
    @given(st.lists(searches.map(only_one_asks), min_size=30, max_size=60))
    def read_what_was_written(many: list[Search]) -> None:
        again = page.page.evaluate(
            """async (many) => {
                const { read, write } = await import("./address.js");
                return many.map((own) => {
                    const { picture, ...rest } = read(new URL(write({ ...own, picture: null }), location).search);
                    return rest;
                });
            }""",
            many,
        )
        assert again == many

    read_what_was_written()


def test_a_barcode_has_the_bits_of_the_code(page: Tab) -> None:
    page.go()
    rng = np.random.default_rng(0)
    for n in (1, 8, 20, 64, 130):
        code, other = (np.packbits(rng.integers(0, 2, n).astype(np.uint8)) for _ in range(2))
        bits, marked = page.page.evaluate(
            """async ([code, other, n]) => {
                const { barcode, bitsOf } = await import("./barcode.js");
                const drawn = barcode(code, n, other);
                const path = (name) => drawn.querySelector(`[class="${name}"]`)?.getAttribute("d") ?? "";
                const bars = (name) => path(name).split("M").length - 1;
                return [[...bitsOf(code, n)], ["zero", "one", "zero differs", "one differs"].map(bars)];
            }""",
            [code.tobytes().hex(), other.tobytes().hex(), n],
        )
        own, others = np.unpackbits(code)[:n], np.unpackbits(other)[:n]
        assert bits == own.tolist()
        assert marked == [
            int(np.sum((own == bit) & ((own != others) == odd))) for odd in (False, True) for bit in (0, 1)
        ]


def test_nothing_is_said_to_be_certain_that_is_not(page: Tab) -> None:
    page.go("?q=bird")
    written = page.page.evaluate(
        "async (values) => { const { percent } = await import('./elements.js'); return values.map(percent); }",
        [0, 0.001, 0.014, 0.5, 0.994, 0.999, 1],
    )
    assert written == ["0 %", "<1 %", "1 %", "50 %", "99 %", ">99 %", "100 %"]


def test_drawings_are_told_from_photographs(page: Tab) -> None:
    page.go("?q=bird")
    told = page.page.evaluate(
        """async () => {
            const { isDrawing } = await import("./drawings.js");
            const pens = {
                drawing: (pen) => { pen.fillStyle = "#000"; pen.fillRect(20, 20, 30, 40); },
                coloured: (pen) => { pen.fillStyle = "#300"; pen.fillRect(20, 20, 30, 40); },
                shaded: (pen) => {
                    for (let x = 20; x < 70; x += 1) {
                        pen.fillStyle = `rgb(${3 * x} ${3 * x} ${3 * x})`;
                        pen.fillRect(x, 20, 1, 40);
                    }
                },
                dark: (pen) => { pen.fillStyle = "#000"; pen.fillRect(0, 0, 90, 90); },
                blank: () => {},
            };
            return Object.entries(pens).filter(([, draw]) => {
                const pen = Object.assign(document.createElement("canvas"), { width: 90, height: 90 }).getContext("2d");
                pen.fillStyle = "#fff";
                pen.fillRect(0, 0, 90, 90);
                draw(pen);
                return isDrawing(pen.canvas);
            }).map(([name]) => name);
        }"""
    )
    assert told == ["drawing"]


# -------------------------------------------------------------------------------------------------------- failing


def test_an_error_message_is_shown(page: Tab) -> None:
    for search, sentence in (
        ("?q=bird&modalities=nope", "Unknown modality 'nope': this collection has 'image', 'text'."),
        ("?id=nope", "Unknown item 'nope'."),
        ("?q=bird&where.colour=red", "Where names 'colour', but items have 'labels', 'row'."),
    ):
        page.go(search)
        assert page.texts(".notice p") == [sentence]
        page.forgive("Failed to load resource")
    page.bring("drop", b"no picture", "notes.txt", "text/plain")
    expect(page.page.locator(".notice p")).to_have_text(
        "The image cannot be read: it is damaged, or its format is not supported."
    )
    page.forgive("422")


def test_who_is_offline_is_told_and_comes_back(page: Tab, service_of_icons: Running) -> None:
    page.go()
    page.page.context.set_offline(True)
    page.page.fill("#text", "bird")
    expect(page.page.locator(".notice")).to_contain_text("The service cannot be reached. Trying again in 2 s.")
    page.page.context.set_offline(False)
    page.page.wait_for_selector("a.card")
    assert page.ids == found(service_of_icons, text="bird")
    page.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_busy_service_is_asked_again(page: Tab, service_of_icons: Running) -> None:
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            body = json.dumps({"error": "the service is busy: ask again in a moment"})
            route.fulfill(status=503, headers={"retry-after": "1"}, content_type="application/json", body=body)

    page.page.route("**/v1/search", refuse_once)
    page.go("?q=bird")
    expect(page.page.locator(".notice h2")).to_have_text("The service is busy")
    page.page.wait_for_selector("a.card")
    assert page.ids == found(service_of_icons, text="bird")
    page.forgive("503")


def test_a_token_is_asked_for_and_pictures_are_shown_with_it(
    browser: Browser, icons: Path, tmp_path: Path, service_of_icons: Running
) -> None:
    with serving(icons, tmp_path / "log", token=TOKEN) as private, tab(browser, private.address) as page:
        page.go("?q=bird")
        expect(page.page.locator(".notice h2")).to_have_text("This collection is private")
        assert page.faults() == []
        page.page.fill("#token", "not-the-right-token")
        page.page.click("text=Open")
        expect(page.page.locator(".notice")).to_contain_text("That token is wrong")
        page.page.fill("#token", TOKEN)
        page.page.press("#token", "Enter")
        page.page.wait_for_selector("a.card img")
        assert page.ids == found(service_of_icons, text="bird")
        page.page.wait_for_function("() => document.querySelector('a.card img').naturalWidth === 64")
        page.page.reload()
        page.page.wait_for_selector("a.card")  # it is kept in this tab
        assert TOKEN not in page.page.url
        page.forgive("401")


def test_what_items_say_is_text_and_nothing_else(page: Tab) -> None:
    for search in (f"?id={quote(WICKED, safe='')}", f"?q={quote(WICKED, safe='')}"):
        page.go(search)
        expect(page.page.locator(".head h1")).to_have_text(WICKED)
    name = page.page.evaluate("document.querySelector('.brand').textContent.trim()")
    assert name == "Icons-collection"
    page.go("?q=bird&k=100&where.row=0")
    card = page.page.locator("a.card").nth(page.ids.index(WICKED))
    assert card.locator("strong").text_content() == WICKED
    card.click()
    expect(page.page.locator(".head h1")).to_have_text(WICKED)
    assert "wicked" not in page.page.title().replace(WICKED, "")


# ---------------------------------------------------------------------------------------------------- people differ


def test_the_keyboard_is_enough(page: Tab) -> None:
    page.go("?q=bird")
    keyboard = page.page.keyboard
    page.page.locator("a.card").first.focus()
    keyboard.press("ArrowRight")
    keyboard.press("ArrowDown")
    focused = page.page.evaluate("document.activeElement.dataset.id")
    columns = page.page.evaluate(
        "getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length"
    )
    assert focused == page.ids[1 + columns]
    keyboard.press("Enter")
    expect(page.page.locator(".head h1")).to_have_text(focused)
    keyboard.press("/")
    assert page.page.evaluate("document.activeElement.id") == "text"
    keyboard.press("Backspace")
    expect(page.page.locator("#welcome")).to_be_visible()
    page.page.locator("#to-about").focus()
    keyboard.press("Enter")
    expect(page.page.locator("#about")).to_be_visible()
    keyboard.press("Escape")
    expect(page.page.locator("#about")).to_be_hidden()


def test_a_narrow_screen_shows_everything(browser: Browser, service_of_icons: Running) -> None:
    with tab(browser, service_of_icons.address, viewport={"width": 340, "height": 640}, has_touch=True) as page:
        for search in (
            "",
            "?q=bird&where.labels=Arrows&where.labels=Animals",
            "?q=bird&modalities=text",
            f"?id={quote(WICKED)}",
        ):
            page.go(search)
            assert not page.is_wider_than_the_screen(), search
        page.page.click("#filters-toggle")
        assert not page.is_wider_than_the_screen()
        assert page.faults() == []
        page.page.click("#to-about")
        assert not page.is_wider_than_the_screen()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Browser, service_of_icons: Running, scheme: str) -> None:
    with tab(browser, service_of_icons.address, color_scheme=scheme) as page:
        assert page.go().faults() == []
        page.go("?q=bird&k=4&where.row=1&where.row=2").page.click("#filters-toggle")
        assert page.faults() == []
        page.page.click("#to-about")
        assert page.faults() == []
        shade = page.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (max(map(int, shade[4:-1].split(","))) < 60) == (scheme == "dark")


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_things_keep_still_for_people_who_want_it(browser: Browser, service_of_icons: Running, motion: str) -> None:
    with tab(browser, service_of_icons.address, reduced_motion=motion) as page:
        page.go("?q=bird")
        moving = page.page.evaluate("getComputedStyle(document.querySelector('a.card')).transitionDuration")
        assert (set(moving.split(", ")) == {"0s"}) == (motion == "reduce")


def test_the_panel_says_what_the_model_is(page: Tab, service_of_icons: Running) -> None:
    about = service_of_icons.client.get("/v1/collection").json()
    page.go().page.click("#to-about")
    shown = page.page.locator("#about").inner_text()
    for said in ("40 bits (5 bytes)", f"{about['items']}\n", "labels", "learned", "hashed", "DLFH"):
        assert said.lower() in shown.lower()
    for own in about["quality"]:
        assert f"{own['asymmetric']:.3f}" in shown
        assert f"{own['chance']:.3f}" in shown
    for own in about["calibration"]:
        assert f"{own['calibration_error']:.3f}" in shown


# --------------------------------------------------------------------------------------------------------- the map


def amid_the_map(page: Tab, service: Running) -> tuple[float, float]:
    """Return where the item is on the screen that is next to the middle of the whole map."""
    points = service.client.get("/v1/map").json()["points"]
    point = min(points, key=lambda own: own["x"] ** 2 + own["y"] ** 2)
    left, top = page.page.evaluate(
        """async ([x, y]) => {
            const { Camera } = await import("./camera.js");
            const box = document.querySelector("canvas").getBoundingClientRect();
            const camera = new Camera();
            camera.resize(box.width, box.height);
            const [left, top] = camera.toScreen(x, y);
            return [box.left + left, box.top + top];
        }""",
        [point["x"], point["y"]],
    )
    return left, top


def test_people_wander_on_the_map(page: Tab, service_of_icons: Running) -> None:
    page.go()
    left, top = amid_the_map(page, service_of_icons)
    mouse, peek = page.page.mouse, page.page.locator(".peek:visible")
    mouse.move(left, top)
    page.page.wait_for_function("() => document.querySelector('.peek img').naturalWidth === 64")
    before = page.page.locator("canvas").screenshot()
    for _ in range(3):
        mouse.wheel(0, -400)
    page.wait_for_another_map(before)
    mouse.move(left + 1, top)
    name = peek.locator("strong").text_content()
    mouse.down()
    mouse.move(left - 149, top - 30, steps=5)
    mouse.up()
    assert page.search == ""  # that was no click
    mouse.move(left - 150, top - 30)
    expect(peek.locator("strong")).to_have_text(name or "")  # it came along
    mouse.click(left - 150, top - 30)
    expect(page.page.locator(".head h1")).to_have_text(name or "")
    page.page.click("#to-map")
    expect(page.page.locator("canvas")).to_be_visible()
    assert page.search.endswith("&view=map")


def test_the_map_is_walked_by_keys(page: Tab) -> None:
    page.go().page.locator("canvas").focus()
    keyboard = page.page.keyboard
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "+", "ArrowLeft", "-"):
        keyboard.press(key)
        seen.append(page.texts(".peek strong")[0])
    assert len(set(seen)) >= 3
    assert page.texts("#said")[0].startswith(seen[-1])
    keyboard.press("Enter")
    expect(page.page.locator(".head h1")).to_have_text(seen[-1])


def test_the_map_is_touched_and_pinched(browser: Browser, service_of_icons: Running) -> None:
    with tab(browser, service_of_icons.address, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        page.go()
        x, y = amid_the_map(page, service_of_icons)
        page.page.touchscreen.tap(x, y)
        peek = page.page.locator(".peek:visible")
        name = peek.locator("strong").text_content()
        assert page.search == ""  # the first touch shows it
        devtools = page.page.context.new_cdp_session(page.page)
        before = page.page.locator("canvas").screenshot()
        for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", None)):
            fingers = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
        page.wait_for_another_map(before)
        peek.tap()
        expect(page.page.locator(".head h1")).to_have_text(name or "")


def test_a_label_on_the_map_is_a_filter(page: Tab) -> None:
    page.go().page.locator(".swatch").first.click()
    expect(page.page.locator(".swatch").first).to_have_attribute("aria-pressed", "true")
    assert page.search.startswith("?where.labels=")
