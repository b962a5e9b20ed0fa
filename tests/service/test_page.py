"""The search page, in a real browser, with a collection of icons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Route, expect

from tests.service.browsing import PROPERTIES, WICKED, Tab, tab
from tests.service.conftest import TOKEN, Running, serving

Search = dict[str, Any]
WIDTHS = (1280, 768, 390)
PAGE = 24  # results that are loaded at a time


def result_of(service: Running, **query: Any) -> Any:
    return service.search(**{"k": PAGE} | query)["results"][0]


def found(service: Running, **query: Any) -> list[str]:
    """Return the ids that the service finds first."""
    return [item["id"] for item in result_of(service, **query)["answers"]]


def picture_of(icons: Path, name: str) -> bytes:
    return (icons.parent / "icons" / f"{name}.png").read_bytes()


# ---------------------------------------------------------------------------------------------------------- results


def test_results_appear_while_typing(page: Tab, service_of_icons: Running) -> None:
    page.go().type("tree")
    answers = result_of(service_of_icons, text="tree")["answers"]
    assert page.ids[:PAGE] == [answer["id"] for answer in answers]
    assert page.search == "?q=tree"
    card = page.page.locator("#answers a.card").first
    expect(card.locator("strong")).to_have_text(answers[0]["title"])
    expect(card.locator(".labels")).to_contain_text(answers[0]["labels"][0])
    likelihood = "Likely" if answers[0]["probability"] >= 0.5 else "Maybe"
    expect(card.locator(".chance")).to_contain_text(likelihood)
    expect(card.locator(".percent")).to_have_text(f"{answers[0]['probability']:.0%}".replace("%", " %"))
    expect(page.page.locator("#status")).to_contain_text("24 results")
    assert page.page.evaluate("document.querySelector('#answers a.card img').naturalWidth") == 64


def test_a_late_response_to_an_earlier_query_is_ignored(page: Tab, service_of_icons: Running) -> None:
    late: list[Route] = []

    def hold_back(route: Route) -> None:
        if json.loads(route.request.post_data or "{}").get("text") == "a":
            late.append(route)
        else:
            route.continue_()

    page.go("?q=tree").page.route("**/v1/search", hold_back)
    with page.page.expect_request(lambda request: '"text":"a"' in (request.post_data or "")):
        page.page.fill("#text", "a")
    page.page.fill("#text", "arrow")
    expect(page.page.locator("#heading")).to_have_text("Results for arrow")
    late[0].abort()  # the page has aborted this request
    page.page.wait_for_timeout(100)
    assert page.ids[:PAGE] == found(service_of_icons, text="arrow")
    assert page.texts(".notice") == []


def test_a_word_that_is_half_typed_finds_what_its_completion_finds(page: Tab, service_of_icons: Running) -> None:
    whole = found(service_of_icons, text="tree arrows")
    box = page.go().page.locator("#text")
    box.press_sequentially("tree arr", delay=5)
    expect(page.page.locator("#heading")).to_have_text("Results for tree arrows")
    assert page.settle().ids[:PAGE] == whole
    expect(page.page.locator("#notice")).to_contain_text("Showing results for tree arrows instead of tree arr")
    expect(box).to_have_value("tree arr")  # what is typed stays until the user leaves the box
    assert page.search == "?q=tree+arrows"
    page.page.locator("#answers a.card").nth(2).click()
    expect(page.page.locator("#item h1")).to_be_visible()
    expect(box).to_have_value("tree arrows")
    page.page.keyboard.press("Escape")
    assert page.settle().ids[:PAGE] == whole
    box.fill("")
    box.press_sequentially("tree arr", delay=5)
    expect(page.page.locator("#heading")).to_have_text("Results for tree arrows")
    box.press("Enter")  # the service decides how to read what was typed
    expect(page.page.locator("#heading")).to_have_text("Results for tree arr")
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="tree arr")
    box.fill("tree arr")
    box.press_sequentially("o")
    expect(page.page.locator("#heading")).to_have_text("Results for tree arrows")
    page.page.click("#literal")
    page.page.wait_for_url("**literal=1*")
    assert "q=tree+arro&" in page.search


def test_dividers_separate_likely_results_from_others(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=arrow")
    page.page.wait_for_selector("h2.divider")
    groups = page.page.evaluate(
        """() => [...document.querySelectorAll("#answers ol.grid")].map((grid) => [
            grid.previousElementSibling?.textContent ?? "", grid.querySelectorAll("a.card").length])"""
    )
    answers = result_of(service_of_icons, text="arrow", k=sum(n for _, n in groups))["answers"]
    names = ["likely" if p >= 0.5 else "maybe" if p >= 0.2 else "unlikely" for p in (a["probability"] for a in answers)]
    assert [n for _, n in groups] == [names.count(name) for name in dict.fromkeys(names)]
    assert groups[0][0] == ""
    assert groups[1][0].startswith("The likely results end here")
    n_likely = names.count("likely")
    expect(page.page.locator("#summary")).to_have_text(f"{n_likely} likely results")


def test_scrolling_loads_results_until_a_sentence_ends_them(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=arrow").page.locator("#more").click()  # the unlikely results are loaded on request
    n_items = service_of_icons.client.get("/v1/collection").json()["items"]
    while (before := len(page.ids)) < n_items:
        page.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.page.wait_for_function("n => document.querySelectorAll('#answers a.card').length > n", arg=before)
    assert page.ids == found(service_of_icons, text="arrow", k=n_items)
    expect(page.page.locator(".end")).to_have_text(f"These are all {n_items} results.")


def test_the_start_page_shows_the_newest_items_and_labels(page: Tab, service_of_icons: Running) -> None:
    page.go()
    about = service_of_icons.client.get("/v1/collection").json()
    items = service_of_icons.client.get("/v1/items", params={"start": about["items"] - 48, "n": 48}).json()["items"]
    assert page.ids == [item["id"] for item in reversed(items)]
    label = about["filters"]["labels"][0]["value"]
    page.page.click(f".topic:has-text('{label}')")
    expect(page.page.locator("#text")).to_have_value(label.lower())
    assert page.settle().ids[:PAGE] == found(service_of_icons, text=label.lower())


# ------------------------------------------------------------------------------------------------------------ items


def test_a_result_opens_its_own_page_and_back_returns_to_its_place(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=arrow")
    page.page.evaluate("scrollTo(0, 300)")
    name = page.ids[6]
    item = service_of_icons.client.get(f"/v1/items/{name}").json()
    page.page.locator("#answers a.card").nth(6).click()
    expect(page.page.locator("#item h1")).to_have_text(item["title"])
    assert page.search == f"?q=arrow&item={name}"
    expect(page.page.locator("#item img").first).to_have_attribute("alt", item["title"])
    expect(page.page.locator("#item .columns")).to_contain_text(f"{item['metadata']['columns']['row']}")
    expect(page.page.locator(".similar-items a.card")).to_have_count(12)
    similar = page.page.eval_on_selector_all(".similar-items a.card", "cards => cards.map(card => card.dataset.id)")
    assert similar == found(service_of_icons, id=name, k=12)
    page.page.keyboard.press("ArrowRight")  # the next result
    expect(page.page.locator("#item h1")).not_to_have_text(item["title"])
    assert page.search == f"?q=arrow&item={page.ids[7]}"
    page.page.keyboard.press("Escape")
    expect(page.page.locator("#item")).to_be_hidden()
    assert page.search == "?q=arrow"
    assert page.page.evaluate("[scrollY, document.activeElement.dataset.id]") == [300, page.ids[7]]


def test_an_item_links_to_its_labels_a_file_and_itself(page: Tab, browser: Browser, service_of_icons: Running) -> None:
    name = found(service_of_icons, text="arrow")[0]
    item = service_of_icons.client.get(f"/v1/items/{name}").json()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=page.address.rstrip("/"))
    page.go(f"?item={name}").page.click("#copy-link")
    expect(page.page.locator("#toast")).to_contain_text("Link copied.")
    assert page.page.evaluate("navigator.clipboard.readText()") == f"{page.address}?item={name}"
    with page.page.expect_download() as saved:
        page.page.click("#download")
    assert Path(saved.value.path()).stat().st_size > 100
    page.page.click(f"#item .chip:has-text('{item['labels'][0]}')")
    expect(page.page.locator("#text")).to_have_value(item["labels"][0].lower())
    page.page.go_back()
    expect(page.page.locator("#item h1")).to_have_text(item["title"])
    page.page.click("#similar")
    assert page.settle().search == f"?id={name}"
    assert page.ids[:PAGE] == found(service_of_icons, id=name)
    page.go(f"?item={name}").page.keyboard.press("Escape")  # a shared link has nothing to go back to
    expect(page.page.locator("#start")).to_be_visible()


# ---------------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize("kind", ["drop", "paste", "choose"])
def test_a_picture_finds_items_and_its_address_can_be_shared(
    page: Tab, browser: Browser, icons: Path, service_of_icons: Running, kind: str
) -> None:
    content = picture_of(icons, found(service_of_icons, text="arrow")[0])
    page.go("?q=tree&modalities=text")
    if kind == "drop":
        page.bring("dragenter", content)
        expect(page.page.locator("#drop")).to_be_visible()
    if kind == "choose":
        page.page.set_input_files("#file", {"name": "x.png", "mimeType": "image/png", "buffer": content})
    else:
        page.bring(kind, content)
    expect(page.page.locator("#heading")).to_have_text("Results for your picture")
    expect(page.page.locator("#drop")).to_be_hidden()
    key = page.settle().search.removeprefix("?image=").removesuffix("&modalities=text")
    result = result_of(service_of_icons, image=key, modalities="text")
    assert page.ids[:PAGE] == [answer["id"] for answer in result["answers"]]
    expect(page.page.locator("#query-source img")).to_be_visible()
    if kind == "choose":
        with tab(browser, page.address) as other:  # someone else follows the link
            other.page.goto(page.page.url)
            assert other.settle().ids[:PAGE] == page.ids[:PAGE]
            other.page.wait_for_function("() => document.querySelector('#query-source img').naturalWidth > 0")
        page.page.fill("#text", "left")
        expect(page.page.locator("#heading")).to_have_text("Results for left · your picture")
        assert page.settle().ids[:PAGE] == found(service_of_icons, image=key, text="left", modalities="text")
        page.page.click("#query-source button")
        assert page.settle().search == "?q=left&modalities=text"


def test_words_beside_an_item_ask_for_both(page: Tab, service_of_icons: Running) -> None:
    name = found(service_of_icons, text="arrow")[0]
    page.go(f"?id={name}").page.fill("#text", "left")
    expect(page.page.locator("#heading")).to_contain_text("Results for left")
    assert page.settle().ids[:PAGE] == found(service_of_icons, id=name, text="left")
    assert page.search == f"?q=left&id={name}"


def test_completions_follow_the_keyboard(page: Tab, service_of_icons: Running) -> None:
    page.go().page.fill("#text", "arr")
    options = page.page.locator("#completions [role=option]")
    expect(options.first).to_contain_text("Arrows")
    completions = service_of_icons.client.get("/v1/complete", params={"q": "arr", "n": 7}).json()["completions"]
    assert [text.strip() for text in page.texts("#completions .text")] == [each["text"] for each in completions]
    expect(options.first).to_contain_text(str(completions[0]["count"]))
    keyboard = page.page.keyboard
    keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(page.page.locator("#text")).to_have_attribute("aria-activedescendant", "completion-0")
    assert page.faults() == []
    keyboard.press("Escape")
    expect(page.page.locator("#completions")).to_be_hidden()
    expect(page.page.locator("#text")).to_have_value("arr")
    keyboard.type("o")
    expect(page.page.locator("#completions")).to_be_visible()
    expect(options.first).to_contain_text("Arrows")
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(page.page.locator("#text")).to_have_value("arrows")
    expect(page.page.locator("#completions")).to_be_hidden()
    expect(page.page.locator("#heading")).to_have_text("Results for arrows")
    page.page.fill("#text", "animals -arr")  # the last word alone is completed
    expect(options.first).to_contain_text("animals -Arrows")


def test_recent_and_saved_searches_are_kept_in_the_browser(page: Tab) -> None:
    page.go().type("arrow")
    page.page.keyboard.press("Enter")
    page.page.click("#save-search")
    expect(page.page.locator("#save-search")).to_have_attribute("aria-pressed", "true")
    page.page.fill("#text", "tree")
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#heading")).to_have_text("Results for tree")
    page.go()
    expect(page.page.locator(".kept .chip")).to_have_text("arrow×")
    page.page.locator("#text").click()
    assert page.texts("#completions .text") == ["arrow", "tree", "arrow"]  # saved, then recent
    assert page.faults() == []
    page.page.click("#clear-recent")
    assert page.texts("#completions .text") == ["arrow"]
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#heading")).to_have_text("Results for arrow")
    page.page.click("#save-search")
    assert page.page.evaluate("JSON.parse(localStorage.getItem('dlfh-saved:/'))") == []


def test_a_corrected_word_is_shown_and_can_be_undone(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=weahter")
    expect(page.page.locator(".understood")).to_contain_text("Showing results for weather instead of weahter.")
    assert page.ids[:PAGE] == found(service_of_icons, text="weather")
    page.page.click("#literal")
    page.page.wait_for_url("**literal=1")
    expect(page.page.locator(".notice")).to_contain_text("None of these words occur in the collection: weahter.")


def test_excluded_words_and_labels_that_no_item_has_together_are_named(page: Tab) -> None:
    page.go("?q=arrow -left")
    expect(page.page.locator(".understood")).to_contain_text("Excluded: left.")
    page.go("?q=weather money")
    expect(page.page.locator(".divider").first).to_contain_text("Weather and Money")


def test_unknown_words_find_nothing_and_the_page_says_what_there_is(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=qqqq")
    expect(page.page.locator(".notice")).to_contain_text("None of these words occur in the collection: qqqq.")
    expect(page.page.locator(".notice")).to_contain_text("This collection is about")
    assert page.ids == []
    page.page.locator(".notice a.chip").first.click()
    assert page.settle().ids != []


# ---------------------------------------------------------------------------------------------------------- filters


def test_filters_count_the_current_results_and_combine(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=people").page.click("#filters-toggle")
    facets = result_of(service_of_icons, text="people", facets=True)["facets"]["values"]["labels"]
    most = max(facets, key=lambda each: each["likely"])
    chip = page.page.locator(".filter .pick").first
    expect(chip).to_have_text(f"{most['value']}{most['likely']}")
    page.page.fill("#narrow-labels", "ARROWS")  # in another case
    page.page.press("#narrow-labels", "Enter")
    expect(page.page.locator("#chosen .chip.on")).to_have_text("Arrows×")
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="people", where={"labels": ["Arrows"]})
    listed = service_of_icons.client.get("/v1/items").json()["items"]
    other = next(
        label for item in listed if "Arrows" in item["labels"] for label in item["labels"] if label != "Arrows"
    )
    page.page.fill("#narrow-labels", other)
    page.page.click(f"#filters .pick .chip >> text='{other}'")
    expect(page.page.locator("#chosen .chip.on")).to_have_count(2)
    both = ["Arrows", other]
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="people", where={"labels": both})
    page.page.click("label[for=match-labels-all]")
    page.page.wait_for_url("**all=labels")
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="people", where={"labels": {"all": both}})
    page.page.keyboard.press("Escape")
    expect(page.page.locator("#filters")).to_be_hidden()
    assert page.page.evaluate("document.activeElement.id") == "filters-toggle"
    page.page.click("#chosen .chip >> text=Arrows")
    expect(page.page.locator("#chosen .chip.on")).to_have_count(1)
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="people", where={"labels": [other]})


def test_one_click_refines_by_a_label_of_the_results(page: Tab, service_of_icons: Running) -> None:
    page.go("?q=arrow")
    chip = page.page.locator("#chosen .refine").first
    label = (chip.get_attribute("aria-label") or "").removeprefix("Only ")
    chip.click()
    expect(page.page.locator("#chosen .chip.on")).to_have_count(1)
    assert page.settle().ids[:PAGE] == found(service_of_icons, text="arrow", where={"labels": [label]})


def test_columns_may_have_the_names_of_object_properties(page: Tab, service_of_icons: Running) -> None:
    where = {column: [1] for column in PROPERTIES}
    page.go("?q=arrow" + "".join(f"&where.{column}=1" for column in PROPERTIES)).page.click("#filters-toggle")
    assert page.ids[:PAGE] == found(service_of_icons, text="arrow", where=where) != []
    legends = [column[0].upper() + column[1:] for column in ["labels", "row", *PROPERTIES]]
    assert sorted(page.texts("#filters legend:not(.unseen)")) == sorted(legends)
    for n, column in enumerate(PROPERTIES, 1):
        page.page.click(f"#chosen .chip >> text={column}: 1")
        expect(page.page.locator("#chosen .chip.on")).to_have_count(len(PROPERTIES) - n)
    assert page.settle().search == "?q=arrow"


def test_an_empty_result_offers_the_next_step(page: Tab, service_of_icons: Running) -> None:
    def best(text: str) -> float:
        return max((each["probability"] for each in result_of(service_of_icons, text=text)["answers"]), default=1)

    text = next(text for text in ("tree", "cloud storage", "chess game", "bird in the sky") if best(text) < 0.95)
    page.go(f"?q={text}").page.click("#filters-toggle")
    page.page.fill("#min-probability", "95")
    expect(page.page.locator(".notice h2")).to_have_text("No results")
    assert f"The best one has {round(100 * best(text))} %" in page.texts(".notice p")[0]
    assert page.search == f"?q={text.replace(' ', '+')}&p=95"
    assert page.faults() == []
    page.page.click("text=Show it anyway")
    assert page.settle().ids[:PAGE] == found(service_of_icons, text=text)
    page.go(f"?q={text}&where.row=17")
    expect(page.page.locator(".notice")).to_contain_text("No item matches the filters")


# -------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "search",
    [
        "?q=tree&modalities=text&p=10",
        "?id=" + quote(WICKED, safe=""),
        "?code=1f00ff3a5c&modalities=image",
        "?item=" + quote(WICKED, safe=""),
        "?q=arrow&where.labels=Arrows&where.row=1&all=labels",
    ],
)
def test_an_address_can_be_shared(page: Tab, search: str) -> None:
    page.go(search)
    ids, address = page.ids[:PAGE], page.search
    assert page.go(address).ids[:PAGE] == ids
    assert page.search == address
    assert page.texts(".notice") == []


def test_back_and_forward_restore_searches(page: Tab) -> None:
    page.go().type("tree")
    first = page.ids
    page.page.locator("#text").press("Enter")
    page.page.locator("#answers a.card").nth(2).click()
    page.page.wait_for_selector("#item:not([hidden]) article")
    page.page.click("#similar")
    page.page.wait_for_url("**?id=*")
    page.settle()
    page.page.go_back()
    page.page.wait_for_selector("#item:not([hidden]) article")
    page.page.go_back()
    expect(page.page.locator("#text")).to_have_value("tree")
    assert page.settle().ids[:PAGE] == first[:PAGE]
    page.page.go_back()
    expect(page.page.locator("#start")).to_be_visible()
    page.page.go_forward()
    expect(page.page.locator("#text")).to_have_value("tree")
    assert page.settle().ids[:PAGE] == first[:PAGE]


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
values = st.one_of(
    texts, st.booleans(), st.integers(-(10**6), 10**6), st.sampled_from(["3", "true", '"x"', "null", "1e3"])
)
searches = st.fixed_dictionaries(
    {
        "text": st.just("") | texts.filter(str.strip),
        "id": st.none() | texts,
        "code": st.none() | st.binary(min_size=1, max_size=8).map(bytes.hex),
        "image": st.none() | st.binary(min_size=16, max_size=16).map(bytes.hex),
        "modalities": st.none() | texts,
        "literal": st.booleans(),
        "minProbability": st.integers(0, 99).map(lambda percent: percent / 100),
        "where": st.dictionaries(texts, st.lists(values, min_size=1, max_size=3), max_size=2),
        "all": st.lists(texts, max_size=2),
        "relevant": st.lists(texts, max_size=2),
        "irrelevant": st.lists(texts, max_size=2),
        "view": st.sampled_from(["", "map", "label"]),
        "item": st.none() | texts,
    }
)


def test_an_address_contains_the_whole_search(page: Tab) -> None:
    page.go()

    @settings(max_examples=5)
    @given(st.lists(searches, min_size=30, max_size=60))
    def read_what_was_written(many: list[Search]) -> None:
        again = page.page.evaluate(
            """async (many) => {
                const { read, write } = await import("./address.js");
                return many.map((search) => read(new URL(write(search), location).search));
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
        (
            "?q=tree&where.colour=red",
            "Unknown name 'colour' in where: items have '__proto__', 'constructor', 'hasOwnProperty',"
            " 'labels', 'length', 'row', 'toString'.",
        ),
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
    page.page.wait_for_selector("#answers a.card .chance")
    assert page.ids[:PAGE] == found(service_of_icons, text="tree")
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
    page.page.wait_for_selector("#answers a.card .chance")
    assert page.ids[:PAGE] == found(service_of_icons, text="tree")
    page.forgive("503")


def test_a_private_service_asks_for_a_key_and_then_shows_its_collections(
    browser: Browser, icons: Path, stripes_folder: Path, photos: Path, tmp_path: Path, service_of_icons: Running
) -> None:
    options = str(stripes_folder), f"--pictures={icons.parent / 'icons'}"
    with (
        serving(icons, tmp_path / "log", *options, token=TOKEN, pictures=photos) as private,
        tab(browser, private.address) as page,
    ):
        page.go("c/icons-collection/?q=tree")
        expect(page.page.locator(".notice h2")).to_have_text("This collection is private")
        assert page.faults() == []
        page.page.fill("#token", "not-the-right-token")
        page.page.click("text=Open")
        expect(page.page.locator(".notice")).to_contain_text("That key is wrong")
        page.page.fill("#token", TOKEN)
        page.page.press("#token", "Enter")
        page.page.wait_for_selector("a.card img")
        assert page.ids[:PAGE] == found(service_of_icons, text="tree")
        page.page.wait_for_function("() => document.querySelector('a.card img').naturalWidth === 64")
        page.page.reload()
        page.page.wait_for_selector("a.card")  # the key is kept in this tab
        assert TOKEN not in page.page.url
        page.page.click("#to-menu")
        page.page.click("#to-all")
        expect(page.page.locator(".collection img.loaded").first).to_be_visible()
        assert sorted(page.texts(".collection strong")) == ["Icons-collection", "Stripes"]
        assert page.faults() == []
        page.page.click(".collection:has-text('Icons')")
        page.page.wait_for_url("**/c/icons-collection/")
        page.forgive("401")


def test_metadata_is_never_parsed_as_html(page: Tab) -> None:
    page.go(f"?id={quote(WICKED, safe='')}")
    expect(page.page.locator("#query-source")).to_contain_text("×")
    page.go(f"?q={quote(WICKED, safe='')}")
    expect(page.page.locator("#heading")).to_have_text(f"Results for {WICKED}")
    assert page.page.evaluate("document.querySelector('.brand').textContent.trim()") == "Icons-collection"
    page.go(f"?item={quote(WICKED, safe='')}").page.keyboard.press("d")
    expect(page.page.locator("#item .codes")).to_contain_text(WICKED)
    assert "wicked" not in page.page.title().replace(WICKED, "")


# ---------------------------------------------------------------------------------------------------- accessibility


def test_the_keyboard_is_enough(page: Tab) -> None:
    page.go("?q=tree")
    keyboard = page.page.keyboard
    page.page.locator("a.card").first.focus()
    keyboard.press("ArrowRight")
    focused = page.page.evaluate("document.activeElement.dataset.id")
    assert focused == page.ids[1]
    keyboard.press("Enter")
    page.page.wait_for_url(f"**item={focused}")
    page.page.wait_for_selector("#item article")
    keyboard.press("/")
    assert page.page.evaluate("document.activeElement.id") == "text"
    keyboard.press("Escape")
    expect(page.page.locator("#text")).to_have_value("tree")
    page.page.locator("#to-menu").focus()
    keyboard.press("Enter")
    expect(page.page.locator("#to-details")).to_be_focused()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(page.page.locator("#about")).to_be_visible()
    keyboard.press("Escape")
    expect(page.page.locator("#about")).to_be_hidden()
    page.page.locator("#results").focus()
    keyboard.press("?")
    expect(page.page.locator("#keys")).to_contain_text("Keyboard shortcuts")
    assert page.faults() == []
    keyboard.press("Escape")


def test_every_width_and_colour_scheme_is_readable(browser: Browser, service_of_icons: Running) -> None:
    searches = ("", "?q=tree&where.row=1&where.row=2", f"?item={quote(WICKED, safe='')}", "?q=qqqq")
    with tab(browser, service_of_icons.address, has_touch=True) as page:
        for number, width in enumerate(WIDTHS):
            page.page.set_viewport_size({"width": width, "height": 844})
            for place, search in enumerate(searches):
                scheme = ("light", "dark", None)[(place + number) % 3]  # every page once in each scheme
                page.page.emulate_media(color_scheme=scheme or "light")  # type: ignore[arg-type]
                page.go(search)
                if "where" in search:
                    first = page.page.locator("#answers a.card").first.bounding_box()
                    assert first
                    assert first["y"] + 120 < 844  # the first result is on the first screen
                    page.page.click("#filters-toggle")
                assert not page.is_wider_than_the_screen(), (width, search)
                if scheme is not None:
                    assert page.faults() == [], (width, search, scheme)
                    shade = page.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
                    assert (max(map(int, shade[4:-1].split(","))) < 60) == (scheme == "dark")


def test_twice_the_zoom_and_a_small_phone_show_everything(browser: Browser, service_of_icons: Running) -> None:
    # A screen of 1280 pixels at 200 % shows 640; the smallest phones have 320.
    with tab(browser, service_of_icons.address, viewport={"width": 640, "height": 430}) as page:
        for width in (640, 320):
            page.page.set_viewport_size({"width": width, "height": 430})
            for search in (
                "",
                f"?item={quote(WICKED)}",
                "?view=map",
                "?q=tree&where.labels=Arrows&where.labels=Animals",
            ):
                page.go(search)
                assert not page.is_wider_than_the_screen(), search
            page.page.click("#filters-toggle")
            assert not page.is_wider_than_the_screen()
            page.page.click("#to-menu")
            page.page.click("#to-about")
            assert not page.is_wider_than_the_screen()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_reduced_motion_disables_transitions(browser: Browser, service_of_icons: Running, motion: str) -> None:
    with tab(browser, service_of_icons.address, reduced_motion=motion) as page:
        page.go("?q=tree")
        moving = page.page.evaluate("getComputedStyle(document.querySelector('.tile')).transitionDuration")
        assert (set(moving.split(", ")) == {"0s"}) == (motion == "reduce")


def test_codes_are_shown_only_with_details(page: Tab, service_of_icons: Running) -> None:
    answer = result_of(service_of_icons, text="tree")["answers"][0]
    page.go("?q=tree").page.click("#to-menu")
    page.page.click("#to-about")
    seen = page.page.locator("body").inner_text().lower()
    for word in ("bits", "code", "hamming", "hashed", "asymmetric"):
        assert word not in seen
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".barcode").first).to_be_hidden()
    page.page.click("#to-menu")
    page.page.click("#to-details")
    card = page.page.locator("#answers a.card").first
    expect(card.locator(".barcode")).to_be_visible()
    expect(card.locator(".facts")).to_contain_text(f"Hamming distance {answer['hamming_distance']}")
    expect(card.locator(".facts")).to_contain_text(f"distance {answer['distance']:.1f}")
    expect(card.locator(".barcode")).to_have_attribute("aria-label", f"{answer['hamming_distance']} of 40 bits differ")
    assert page.faults() == []
    page.go("?q=arrow")  # the choice is kept
    expect(page.page.locator("a.card .barcode").first).to_be_visible()


def test_the_panel_describes_the_model(page: Tab, service_of_icons: Running) -> None:
    about = service_of_icons.client.get("/v1/collection").json()
    page.go("?q=tree").page.keyboard.press("d")
    page.page.click("#to-menu")
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
    page.go("?view=map")
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
    assert page.search == "?view=map"  # a drag is not a click
    mouse.move(left - 150, top - 30)
    expect(peek.locator("strong")).to_have_text(name or "")  # it moved with the map
    mouse.click(left - 150, top - 30)
    expect(page.page.locator("#item h1")).to_have_text(name or "")
    page.page.keyboard.press("Escape")
    expect(page.page.locator("canvas")).to_be_visible()
    assert page.search == "?view=map"


def test_the_map_follows_the_keyboard(page: Tab) -> None:
    page.go("?view=map").page.locator("canvas").focus()
    keyboard = page.page.keyboard
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "+", "ArrowLeft", "-"):
        keyboard.press(key)
        seen.append(page.texts(".peek strong")[0])
    assert len(set(seen)) >= 3
    assert page.texts("#status")[0].startswith(seen[-1])
    keyboard.press("Enter")
    expect(page.page.locator("#item h1")).to_have_text(seen[-1])


def test_the_map_follows_touches_and_pinches(browser: Browser, service_of_icons: Running) -> None:
    with tab(browser, service_of_icons.address, viewport={"width": 390, "height": 800}, has_touch=True) as page:
        page.go("?view=map")
        x, y = position_of_central_item(page, service_of_icons)
        page.page.touchscreen.tap(x, y)
        peek = page.page.locator(".peek:visible")
        name = peek.locator("strong").text_content()
        assert page.search == "?view=map"  # the first touch only shows the card
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
        expect(page.page.locator("#item h1")).to_have_text(name or "")


def test_a_label_on_the_map_is_a_filter(page: Tab) -> None:
    page.go("?view=map").page.locator(".swatch").first.click()
    expect(page.page.locator(".swatch").first).to_have_attribute("aria-pressed", "true")
    assert page.search.startswith("?where.labels=")
