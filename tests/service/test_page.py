"""The search page, in a real browser, with a collection of icons."""

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

from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items
from dlfh.features import BagOfWords
from tests.service.browsing import WICKED, Tab, build_icons, open_browser, tab
from tests.service.conftest import TOKEN, Running, serving

Search = dict[str, Any]


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Path:
    return build_icons(tmp_path_factory.mktemp("icons"))


@pytest.fixture(scope="module")
def service_of_icons(icons: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(icons, tmp_path_factory.mktemp("log") / "log", pictures=icons.parent / "icons") as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = open_browser(playwright, chromium)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, service_of_icons: Running) -> Iterator[Tab]:
    with tab(browser, service_of_icons.address) as opened:
        yield opened


def found(service: Running, **query: Any) -> list[str]:
    """Return the ids that the service finds for the first page."""
    return [item["id"] for item in service.search(k=24, **query)["results"][0]["answers"]]


def picture_of(icons: Path, name: str) -> bytes:
    return (icons.parent / "icons" / f"{name}.png").read_bytes()


# ------------------------------------------------------------------------------------------------------ searching


def test_results_appear_while_typing(page: Tab, service_of_icons: Running) -> None:
    page.go().type("tree")
    assert page.ids == found(service_of_icons, text="tree")
    assert page.search == "?q=tree"
    (answer, *_) = service_of_icons.search(text="tree", k=1)["results"][0]["answers"]
    card = page.page.locator("a.card").first
    expect(card.locator(".percent")).to_have_text(f"{answer['probability']:.0%}".replace("%", " %"))
    expect(card.locator(".facts")).to_contain_text(f"Hamming distance {answer['hamming_distance']}")
    expect(card.locator(".facts")).to_contain_text(f"distance {answer['distance']:.1f}")
    expect(card.locator(".barcode")).to_have_attribute("aria-label", f"{answer['hamming_distance']} of 40 bits differ")
    expect(page.page.locator("#status")).to_contain_text("24 results")
    assert page.page.evaluate("document.querySelector('a.card img').naturalWidth") == 64


def test_a_late_response_to_an_earlier_query_is_ignored(page: Tab, service_of_icons: Running) -> None:
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
    late[0].abort()  # the page has aborted this request
    page.page.wait_for_timeout(100)
    assert page.ids == found(service_of_icons, text="arrow")
    assert page.texts(".notice") == []


@pytest.mark.parametrize("kind", ["drop", "paste", "choose"])
def test_an_image_finds_texts(page: Tab, icons: Path, service_of_icons: Running, kind: str) -> None:
    name = found(service_of_icons, text="arrow")[0]
    content = picture_of(icons, name)
    page.go("?q=tree&modalities=text")
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
    assert page.search == f"?code={result['query']['code']}&modalities=text"  # the address can be shared
    page.page.click("#query-source button")
    page.settle()
    assert page.search == "?modalities=text"


def test_words_beside_a_picture_or_an_item_ask_for_both(page: Tab, service_of_icons: Running) -> None:
    name = found(service_of_icons, text="arrow")[0]
    page.go(f"?id={name}").page.fill("#text", "left")
    expect(page.page.locator(".head h1")).to_have_text(f"{name} + left")
    assert page.settle().ids == found(service_of_icons, id=name, text="left")
    assert page.search == f"?id={name}&q=left"
    page.page.click("#query-source button")
    assert page.settle().search == "?q=left"
    expect(page.page.locator("#text")).to_have_value("left")


def test_a_result_is_a_link_to_similar_items_in_any_modality(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=tree")
    name = page.ids[1]
    page.page.locator("a.card").nth(1).click()
    expect(page.page.locator(".head h1")).to_have_text(name)
    assert page.settle().ids == found(service_of_icons, id=name)
    page.page.click("label[for=modality-text]")
    expect(page.page.locator(".grid.texts")).to_be_visible()
    assert page.settle().ids == found(service_of_icons, id=name, modalities="text")
    assert page.search == f"?id={name}&modalities=text"
    expect(page.page.locator("#min-probability")).to_be_disabled()  # similar items have no probabilities


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


def test_columns_may_have_the_names_of_object_properties(browser: Browser, tmp_path: Path) -> None:
    columns = ["constructor", "toString", "__proto__", "hasOwnProperty", "length"]
    texts = [f"{('red', 'blue')[number % 2]} thing {number}" for number in range(40)]
    items = Items.of({"one": texts, "other": texts}, [[text.split()[0]] for text in texts])
    for number, metadata in enumerate(items.metadata):
        metadata["columns"] = dict.fromkeys(columns, number % 3)
    encoder = Encoder({"one": BagOfWords(), "other": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    Collection.build(tmp_path / "things", items, encoder).collection.close()
    with serving(tmp_path / "things", tmp_path / "log") as running, tab(browser, running.address) as page:
        page.go("?q=red").page.click("#filters-toggle")
        legends = sorted(column[0].upper() + column[1:] for column in columns)
        assert sorted(page.texts("#filters legend")) == sorted(["Labels", *legends])
        for n, column in enumerate(columns, 1):
            page.page.click(f"label[for='where-{column}-1']")
            expect(page.page.locator("#chosen .chip")).to_have_count(n)
        where = {column: [1] for column in columns}
        assert page.settle().ids == found(running, text="red", where=where) != []
        address = page.search
        assert page.go(address).ids == found(running, text="red", where=where)  # the address has the filters
        for n, column in enumerate(columns, 1):
            page.page.click(f"#chosen .chip >> text={column}: 1")
            expect(page.page.locator("#chosen .chip")).to_have_count(len(columns) - n)
        assert page.settle().search == "?q=red"


def test_an_empty_result_offers_the_next_step(page: Tab, service_of_icons: Running) -> None:
    def best(text: str) -> float:
        return max(
            (each["probability"] for each in service_of_icons.search(text=text)["results"][0]["answers"]), default=1
        )

    text = next(text for text in ("tree", "cloud storage", "chess game", "bird in the sky") if best(text) < 0.95)
    page.go(f"?q={text}").page.fill("#min-probability", "95")
    expect(page.page.locator(".notice h2")).to_have_text("No results")
    assert f"The best one has {round(100 * best(text))} %" in page.texts(".notice p")[0]
    assert page.search == f"?q={text.replace(' ', '+')}&p=95"
    assert page.faults() == []
    page.page.click("text=Show it anyway")
    assert page.settle().ids == found(service_of_icons, text=text)
    page.page.fill("#min-probability", "20")
    page.page.wait_for_url("**p=20")
    assert page.settle().ids == found(service_of_icons, text=text, min_probability=0.2)
    page.go(f"?q={text}&where.row=17")
    expect(page.page.locator(".notice")).to_contain_text("No item matches the filters")


def test_unknown_words_find_nothing(page: Tab) -> None:
    page.go("?q=qqqq")
    expect(page.page.locator(".notice")).to_contain_text("None of these words occur in the collection: qqqq.")
    assert page.ids == []


def test_a_corrected_word_is_shown_and_can_be_undone(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=weahter")
    expect(page.page.locator(".warning")).to_contain_text("Showing results for “weather” instead of “weahter”.")
    assert page.ids == found(service_of_icons, text="weather")
    page.page.click("text=Search for exactly what I typed")
    page.page.wait_for_url("**literal=1")
    expect(page.page.locator(".notice")).to_contain_text("None of these words occur in the collection: weahter.")


def test_labels_that_no_item_has_together_are_named(page: Tab) -> None:
    page.go("?q=weather money")
    expect(page.page.locator(".warning")).to_contain_text("No item has the labels Weather and Money together")


def test_more_results_are_loaded_on_request(page: Tab) -> None:
    page.go("?q=arrow").page.click("#more")
    page.page.wait_for_function("() => document.querySelectorAll('a.card').length === 48")
    assert page.search == "?q=arrow&k=48"


# ------------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "search",
    [
        "?q=tree&modalities=text&p=10",
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


def test_back_and_forward_restore_searches(page: Tab, icons: Path) -> None:
    page.go().type("tree")
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
    expect(page.page.locator(".head h1")).to_have_text("tree")
    expect(page.page.locator("#text")).to_have_value("tree")
    assert page.ids == first
    page.page.go_back()
    expect(page.page.locator("#welcome h1")).to_be_visible()
    for title in ("tree", first[2], "Your picture"):
        page.page.go_forward()
        expect(page.page.locator(".head h1")).to_have_text(title)
    assert page.ids == third
    page.page.reload()  # the picture is lost, but the address contains its code
    expect(page.page.locator(".head h1")).to_have_text("Shared search")


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
        "literal": st.booleans(),
        "minProbability": st.integers(0, 99).map(lambda percent: percent / 100),
        "where": st.dictionaries(texts, st.lists(values, min_size=1, max_size=3), max_size=2),
        "k": st.integers(1, 999),
        "map": st.booleans(),
    }
)


def with_one_query(search: Search) -> Search:
    first = next((name for name in ("id", "code", "text") if search[name]), None)
    return search | {name: "" if name == "text" else None for name in ("id", "code", "text") if name != first}


def test_an_address_contains_the_whole_search(page: Tab) -> None:
    page.go()

    @settings(max_examples=5)
    @given(st.lists(searches.map(with_one_query), min_size=30, max_size=60))
    def read_what_was_written(many: list[Search]) -> None:
        again = page.page.evaluate(
            """async (many) => {
                const { read, write } = await import("./address.js");
                return many.map((search) => {
                    const { picture, ...rest } = read(new URL(write({ ...search, picture: null }), location).search);
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
        first, second = np.unpackbits(code)[:n], np.unpackbits(other)[:n]
        assert bits == first.tolist()
        assert marked == [
            int(np.sum((first == bit) & ((first != second) == odd))) for odd in (False, True) for bit in (0, 1)
        ]


def test_only_certain_results_show_0_or_100_percent(page: Tab) -> None:
    page.go("?q=tree")
    written = page.page.evaluate(
        "async (values) => { const { percent } = await import('./elements.js'); return values.map(percent); }",
        [0, 0.001, 0.014, 0.5, 0.994, 0.999, 1],
    )
    assert written == ["0 %", "<1 %", "1 %", "50 %", "99 %", ">99 %", "100 %"]


def test_drawings_are_distinguished_from_photographs(page: Tab) -> None:
    page.go("?q=tree")
    drawings = page.page.evaluate(
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
    assert drawings == ["drawing"]


# -------------------------------------------------------------------------------------------------------- errors


def test_an_error_message_is_shown(page: Tab) -> None:
    for search, sentence in (
        ("?q=tree&modalities=nope", "Unknown modality 'nope': this collection has 'image', 'text'."),
        ("?id=nope", "Unknown item 'nope'."),
        ("?q=tree&where.colour=red", "Unknown name 'colour' in where: items have 'labels', 'row'."),
    ):
        page.go(search)
        assert page.texts(".notice p") == [sentence]
        page.forgive("Failed to load resource")
    page.bring("drop", b"no picture", "notes.txt", "text/plain")
    expect(page.page.locator(".notice p")).to_have_text(
        "The image cannot be read: it is damaged, or its format is not supported."
    )
    page.forgive("422")


def test_an_offline_page_reports_it_and_recovers(page: Tab, service_of_icons: Running) -> None:
    page.go()
    page.page.context.set_offline(True)
    page.page.fill("#text", "tree")
    expect(page.page.locator(".notice")).to_contain_text("The service cannot be reached. Trying again in 2 s.")
    page.page.context.set_offline(False)
    page.page.wait_for_selector("a.card")
    assert page.ids == found(service_of_icons, text="tree")
    page.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_busy_service_is_retried(page: Tab, service_of_icons: Running) -> None:
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            body = json.dumps({"error": "the service is busy: ask again in a moment"})
            route.fulfill(status=503, headers={"retry-after": "1"}, content_type="application/json", body=body)

    page.page.route("**/v1/search", refuse_once)
    page.go("?q=tree")
    expect(page.page.locator(".notice h2")).to_have_text("The service is busy")
    page.page.wait_for_selector("a.card")
    assert page.ids == found(service_of_icons, text="tree")
    page.forgive("503")


def test_a_private_service_asks_for_a_token_and_then_shows_pictures(
    browser: Browser, icons: Path, tmp_path: Path, service_of_icons: Running
) -> None:
    pictures = icons.parent / "icons"
    with (
        serving(icons, tmp_path / "log", token=TOKEN, pictures=pictures) as private,
        tab(browser, private.address) as page,
    ):
        page.go("?q=tree")
        expect(page.page.locator(".notice h2")).to_have_text("This collection is private")
        assert page.faults() == []
        page.page.fill("#token", "not-the-right-token")
        page.page.click("text=Open")
        expect(page.page.locator(".notice")).to_contain_text("That token is wrong")
        page.page.fill("#token", TOKEN)
        page.page.press("#token", "Enter")
        page.page.wait_for_selector("a.card img")
        assert page.ids == found(service_of_icons, text="tree")
        page.page.wait_for_function("() => document.querySelector('a.card img').naturalWidth === 64")
        page.page.reload()
        page.page.wait_for_selector("a.card")  # the token is kept in this tab
        assert TOKEN not in page.page.url
        page.forgive("401")


def test_metadata_is_never_parsed_as_html(page: Tab) -> None:
    for search in (f"?id={quote(WICKED, safe='')}", f"?q={quote(WICKED, safe='')}"):
        page.go(search)
        expect(page.page.locator(".head h1")).to_have_text(WICKED)
    name = page.page.evaluate("document.querySelector('.brand').textContent.trim()")
    assert name == "Icons-collection"
    page.go("?q=tree&k=100&where.row=0")
    card = page.page.locator("a.card").nth(page.ids.index(WICKED))
    assert card.locator("strong").text_content() == WICKED
    card.click()
    expect(page.page.locator(".head h1")).to_have_text(WICKED)
    assert "wicked" not in page.page.title().replace(WICKED, "")


# ---------------------------------------------------------------------------------------------------- accessibility


def test_the_keyboard_is_enough(page: Tab) -> None:
    page.go("?q=tree")
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
            "?q=tree&where.labels=Arrows&where.labels=Animals",
            "?q=tree&modalities=text",
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
        page.go("?q=tree&k=4&where.row=1&where.row=2").page.click("#filters-toggle")
        assert page.faults() == []
        page.page.click("#to-about")
        assert page.faults() == []
        shade = page.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (max(map(int, shade[4:-1].split(","))) < 60) == (scheme == "dark")


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_reduced_motion_disables_transitions(browser: Browser, service_of_icons: Running, motion: str) -> None:
    with tab(browser, service_of_icons.address, reduced_motion=motion) as page:
        page.go("?q=tree")
        moving = page.page.evaluate("getComputedStyle(document.querySelector('a.card')).transitionDuration")
        assert (set(moving.split(", ")) == {"0s"}) == (motion == "reduce")


def test_codes_are_shown_only_with_details(page: Tab) -> None:
    page.go("?q=tree").page.click("#to-about")
    seen = page.page.locator("body").inner_text().lower()
    for word in ("bits", "code", "hamming", "hashed", "asymmetric"):
        assert word not in seen
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".barcode").first).to_be_hidden()
    page.page.click("#to-details")
    expect(page.page.locator("a.card .barcode").first).to_be_visible()
    assert page.faults() == []
    page.go("?q=arrow")  # the choice is kept
    expect(page.page.locator("a.card .barcode").first).to_be_visible()


def test_the_panel_describes_the_model(page: Tab, service_of_icons: Running) -> None:
    about = service_of_icons.client.get("/v1/collection").json()
    page.go().page.click("#to-details")
    page.page.click("#to-about")
    shown = page.page.locator("#about").inner_text()
    for text in ("40 bits (5 bytes)", f"{about['items']}\n", "labels", "learned", "hashed", "DLFH"):
        assert text.lower() in shown.lower()
    for row in about["quality"]:
        assert f"{row['asymmetric']:.3f}" in shown
        assert f"{row['chance']:.3f}" in shown
    for row in about["calibration"]:
        assert f"{row['calibration_error']:.3f}" in shown


# --------------------------------------------------------------------------------------------------------- the map


def position_of_central_item(page: Tab, service: Running) -> tuple[float, float]:
    """Return the screen position of the item nearest to the centre of the map."""
    points = service.client.get("/v1/map").json()["points"]
    point = min(points, key=lambda point: point["x"] ** 2 + point["y"] ** 2)
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


def test_the_map_follows_the_mouse(page: Tab, service_of_icons: Running) -> None:
    page.go()
    left, top = position_of_central_item(page, service_of_icons)
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
    assert page.search == ""  # a drag is not a click
    mouse.move(left - 150, top - 30)
    expect(peek.locator("strong")).to_have_text(name or "")  # it moved with the map
    mouse.click(left - 150, top - 30)
    expect(page.page.locator(".head h1")).to_have_text(name or "")
    page.page.click("#to-map")
    expect(page.page.locator("canvas")).to_be_visible()
    assert page.search.endswith("&view=map")


def test_the_map_follows_the_keyboard(page: Tab) -> None:
    page.go().page.locator("canvas").focus()
    keyboard = page.page.keyboard
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "+", "ArrowLeft", "-"):
        keyboard.press(key)
        seen.append(page.texts(".peek strong")[0])
    assert len(set(seen)) >= 3
    assert page.texts("#status")[0].startswith(seen[-1])
    keyboard.press("Enter")
    expect(page.page.locator(".head h1")).to_have_text(seen[-1])


def test_the_map_follows_touches_and_pinches(browser: Browser, service_of_icons: Running) -> None:
    with tab(browser, service_of_icons.address, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        page.go()
        x, y = position_of_central_item(page, service_of_icons)
        page.page.touchscreen.tap(x, y)
        peek = page.page.locator(".peek:visible")
        name = peek.locator("strong").text_content()
        assert page.search == ""  # the first touch only shows the card
        devtools = page.page.context.new_cdp_session(page.page)
        before = page.page.locator("canvas").screenshot()
        for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", None)):
            fingers = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
        page.wait_for_another_map(before)
        while (drawn := page.page.locator("canvas").screenshot()) != before:  # until the pinch has been followed
            before = drawn
            page.page.wait_for_timeout(100)
        peek.tap()
        expect(page.page.locator(".head h1")).to_have_text(name or "")


def test_a_label_on_the_map_is_a_filter(page: Tab) -> None:
    page.go().page.locator(".swatch").first.click()
    expect(page.page.locator(".swatch").first).to_have_attribute("aria-pressed", "true")
    assert page.search.startswith("?where.labels=")
