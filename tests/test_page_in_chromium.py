"""The page in a real browser: every panel, filters, enlarging, nothing from outside, no word on the console."""

import base64
import json
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from chromium import chromium, needs_chromium
from page_makers import HOSTILE, save_run
from record_makers import record
from samc.cli.serving import Latest, PageServer
from samc.cli.view import going, state_of
from samc.experiments.progress_log import FILE as PROGRESS
from samc.report.found import find_runs
from samc.report.page.page import page_of

pytestmark = [needs_chromium, pytest.mark.slow]
PANELS = ["verdict", "accuracy", "costs", "memory", "theory", "again"]
SHOTS = os.environ.get("SAMC_SCREENSHOTS")
# a folder to leave screenshots in, for somebody to look at


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        opened.media()
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A run with everything, and five seeds of three methods."""
    folder = tmp_path_factory.mktemp("runs")
    save_run(folder / "one", diagnosed=True)
    for number, model in enumerate(("samc", "er", "gem")):
        for seed in range(5):
            acc = 0.7 - 0.1 * number + seed / 100
            save_run(folder / "many" / f"{model}{seed}", "jpeg:30", acc=acc, model=model, seed=seed)
    for name in ("one", "many"):
        (folder / f"{name}.html").write_text(page_of(find_runs([folder / name])))
    return folder


@pytest.fixture(params=[1400, 400])
def page(request, browser, pages):
    """The page of one run from disk, as wide as that; at the end nothing was fetched and nothing went wrong."""
    browser.resize(request.param)
    browser.requests()
    browser.console()
    browser.open((pages / "one.html").as_uri())
    browser.until("return document.querySelectorAll('.card').length > 0")
    yield browser
    assert browser.console() == []
    assert {url.partition(":")[0] for url in browser.requests()} <= {"file", "data"}


def keep_shot(browser, name):
    """For somebody to look at, where a folder for it was named."""
    if SHOTS:
        Path(SHOTS).mkdir(exist_ok=True)
        width = browser.run("return document.documentElement.clientWidth")
        (Path(SHOTS) / f"{name}-{width}.png").write_bytes(base64.b64decode(browser.screenshot()))


def fits(browser):
    """No part of the page is wider than the window, but for what scrolls by itself."""
    return browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_every_panel_is_there_and_fits(page):
    assert page.run("return [...document.querySelectorAll('[data-panel]')].map((e) => e.dataset.panel)") == PANELS
    assert page.run("return [...document.querySelectorAll('[data-panel]')].every((e) => e.offsetHeight > 40)")
    widths = "return [...document.querySelectorAll('figure svg[role=img]')].map((e) => e.getBoundingClientRect().width)"
    assert min(page.run(widths)) > 200
    assert fits(page)
    page.run("for (const details of document.querySelectorAll('details')) details.open = true")
    assert fits(page)


def test_colours_of_charts_are_the_pages(page):
    stroke = "return getComputedStyle(document.querySelector('figure svg[role=img] path[stroke^=var]')).stroke"
    page.media(prefers_color_scheme="light")
    light = page.run(stroke)
    page.media(prefers_color_scheme="dark")
    assert page.run(stroke) != light
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    keep_shot(page, "dark")
    page.media(prefers_color_scheme="light")
    keep_shot(page, "light")


CONTRAST = """
const pen = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
const light = (colour) => {
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
const cell = document.querySelector(".matrix td"), found = {};
for (const kind of ["", " learnt", " ahead"]) for (let level = 0; level <= 20; level++) {
  cell.className = "h" + level + kind;
  const style = getComputedStyle(cell), pair = [light(style.color), light(style.backgroundColor)];
  found[cell.className] = Math.max(...pair) / Math.min(...pair);
}
return found;
"""  # noqa: E501
# W3C's contrast of a number and its cell, for every shade of the accuracy matrix


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_number_of_the_matrix_can_be_read(page, scheme):
    page.media(prefers_color_scheme=scheme)
    found = page.run(CONTRAST)
    page.media(prefers_color_scheme="light")
    assert len(found) == 63
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_the_matrix_of_another_method_has_its_own_gaps(browser, pages):
    browser.open((pages / "many.html").as_uri())
    text = "return document.querySelector('#matrix-0').tBodies[0].rows[1].cells[1].textContent"
    tested = browser.run(text)
    rows = "JSON.parse(document.getElementById('data').textContent).matrices[0][1].rows"
    browser.run(f"const rows = {rows}; rows[1][0] = null; fillMatrix('0', rows)")
    assert browser.run(text) == "–"
    browser.choose(".matrix-choice", "1")
    browser.choose(".matrix-choice", "0")
    assert browser.run(text) == tested


def test_filters_choose_by_task_class_share_and_prediction(page):
    facts = "return JSON.parse(document.getElementById('data').textContent).memories[0].images"
    images = page.run(facts)
    everything = page.count(".card")
    assert everything == 5 * 8  # the first of each task
    page.choose("#filter-task", "2")
    assert page.texts(".memory-task h3") == ["Task 3"]
    page.click(".more")
    assert page.count(".card") == 12
    assert page.run("return [...document.querySelectorAll('.card')].indexOf(document.activeElement)") == 8
    assert page.texts(".card .said-right")[0] == "✓ right"
    page.choose("#filter-wrong", "now")
    wrong = [
        place for place, (label, now) in enumerate(zip(images["label"], images["now"], strict=True)) if label != now
    ]
    assert page.count(".card") == sum(images["task"][place] == 2 for place in wrong) == 6
    page.choose("#filter-wrong", "then")
    assert page.count(".card") == 0
    assert "0 shown" in page.texts("#memory-count")[0]
    page.choose("#filter-wrong", "any")
    page.choose("#filter-task", "")
    page.choose("#filter-kept", "0.25,0.5")
    kept = [0.25 <= share <= 0.5 for share in images["kept"]]
    assert f"{sum(kept)} shown" in page.texts("#memory-count")[0]
    page.choose("#filter-kept", "0,1")
    page.choose("#filter-class", "0")
    assert set(page.texts(".card .name")) == {HOSTILE}
    assert f"{images['label'].count(0)} shown" in page.texts("#memory-count")[0]
    assert fits(page)


def test_an_image_is_enlarged_and_fades_and_the_keyboard_turns_the_page(page):
    page.click(".card")
    assert page.run("return document.querySelector('dialog').open")
    title = page.texts("#enlarged-title")[0]
    assert ", task 1" in title
    opacity = "return document.getElementById('enlarged-completed').style.opacity"
    assert page.run(opacity) == "1"
    page.choose("#fade", "0")
    assert page.run(opacity) == "0"
    page.choose("#fade", "40")
    assert page.run(opacity) == "0.4"
    wide = "return document.getElementById('enlarged-kept').getBoundingClientRect().width"
    assert page.run(wide) > 150
    drawn = """const pen = document.getElementById(arguments[0]).getContext("2d");
        return new Set(pen.getImageData(0, 0, 16, 16).data).size"""
    assert all(page.run(drawn, f"enlarged-{name}") > 3 for name in ("kept", "completed", "saliency"))
    facts = page.texts("#enlarged-facts dt")
    assert facts == [
        "label", "predicted when its task had been learnt", "predicted now", "takes", "kept", "against the truth"
    ]  # fmt: skip
    assert fits(page)
    keep_shot(page, "enlarged")
    page.run("document.getElementById('enlarged-next').focus()")
    first = page.texts("#enlarged-facts dd")
    page.press(["\ue014"])  # the right arrow
    assert page.texts("#enlarged-facts dd") != first
    page.press(["\ue00c"])  # Escape
    assert not page.run("return document.querySelector('dialog').open")


def test_hostile_names_do_nothing(page):
    assert page.run("return document.querySelectorAll('script').length") == 2
    assert HOSTILE in " ".join(page.texts(".figures-table td"))


def test_everything_can_be_reached_and_has_a_name(page):
    unnamed = """const all = [...document.querySelectorAll("button, select, input, a, [role=img]")];
        const named = (e) => e.textContent.trim() || e.ariaLabel || e.closest("label");
        return all.filter((e) => !named(e)).map((e) => e.outerHTML)"""
    assert page.run(unnamed) == []
    assert page.run("return document.querySelectorAll('h1').length") == 1
    assert page.run("return [...document.querySelectorAll('nav a')].every((a) => document.querySelector(a.hash))")
    scrolling = """return [...document.querySelectorAll(".scroll")].every((e) => e.tabIndex === 0
        && (e.ariaLabel || e.getAttribute("aria-labelledby")))"""
    assert page.run(scrolling)
    name = "(e) => e.ariaLabel || e.textContent"
    names = page.run(f"return [...document.querySelectorAll('.scroll, summary')].map({name})")
    assert len(set(names)) == len(names)
    assert "table" not in names


@pytest.fixture
def printing(browser):
    """A4 between the margins that a browser leaves."""
    browser.devtools("Emulation.setEmulatedMedia", media="print")
    browser.resize(718)
    yield browser
    browser.devtools("Emulation.setEmulatedMedia", media="")
    browser.media()


@pytest.mark.parametrize("name", ["one", "many"])
def test_a_printed_page_loses_nothing_at_its_right_edge(printing, pages, name):
    printing.open((pages / f"{name}.html").as_uri())
    assert fits(printing)
    # whose matrix it is
    assert printing.run("return [...document.querySelectorAll('.matrix-choice')].every((e) => e.offsetHeight)")


def test_five_seeds_of_three_methods_open_quickly_and_the_matrix_changes(browser, pages):
    browser.resize(1400)
    browser.open((pages / "many.html").as_uri())
    browser.until("return document.querySelectorAll('.card').length > 0")
    took = browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert took < 2000
    before = browser.texts("#matrix-0 td")
    browser.choose(".matrix-choice", "2")
    assert browser.texts("#matrix-0 td") != before
    browser.choose("#filter-memory", "1")
    browser.until("return document.getElementById('memory-count').textContent.includes('jpeg:30')")
    assert len((pages / "many.html").read_bytes()) < 5_000_000


# A page that is served while a run goes on


@pytest.fixture
def served(tmp_path):
    """A server of a folder, as `samc view` has it, and the folder."""

    def page(state):
        records = sorted(tmp_path.rglob("record.json"))
        return page_of(find_runs(records) if records else [], going(tmp_path), live=state)

    with PageServer(Latest(lambda: state_of(tmp_path), page), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server, tmp_path
        server.shutdown()
        thread.join()


def lines(tasks_learnt):
    """What a run of three tasks has told after so many."""
    told = [
        '{"at": 1, "model": "er", "stream": "<b>toy", "classes": [[0], [1], [2]], "names": ["<i>a", "b", "c"], '
        '"steps": [4, 4, 4]}'
    ]
    for number in range(tasks_learnt + 1):
        remembered = {"at": number, "images": number, "bytes": 9}
        told.append(json.dumps({"tasks_learnt": number, "accuracies": [0.5, 0.5, 0.5], **remembered}))
        told.append(json.dumps({"task": number, "step": 2, "loss": 0.25, **remembered}))
    return "\n".join(told) + "\n"


def test_a_new_task_appears_without_a_reload(browser, served):
    server, folder = served
    (folder / PROGRESS).write_text(lines(1))
    browser.console()
    browser.requests()
    browser.open(server.url)
    assert browser.texts(".figures dd")[0] == "2 of 3"
    assert browser.texts("h1") == ["ER on <b>toy"]
    browser.run("window.here = true")
    (folder / PROGRESS).write_text(lines(2))
    browser.until("return document.querySelector('.figures dd').textContent === '3 of 3'")
    assert browser.count("tr") >= 4
    record(0.5, model="er").save(folder)
    browser.until("return document.querySelector('[data-panel=verdict]') !== null")
    assert browser.run("return window.here")  # the same document all the while
    assert browser.console() == []
    assert all(url.startswith((server.url, "data:")) for url in browser.requests())
    server.shutdown()
    server.server_close()
    browser.until("return document.body.classList.contains('alone')")
    browser.open("about:blank")
    browser.console()  # that the server is gone is said there, too


def test_what_somebody_has_chosen_stays_when_the_page_is_brought_up_to_date(browser, served):
    server, folder = served
    for model in ("samc", "er"):
        save_run(folder / model, "jpeg:30", acc=0.5 if model == "er" else 0.6, model=model)
    (folder / PROGRESS).write_text(lines(1))
    browser.resize(1400)
    browser.open(server.url)
    browser.until("return document.querySelectorAll('.card').length > 0")
    browser.choose("#filter-memory", "1")
    browser.choose("#filter-task", "2")
    browser.choose("#filter-wrong", "now")
    browser.choose(".matrix-choice", "1")
    browser.run("document.getElementById('filter-class').focus(); window.old = document.querySelector('main')")
    (folder / PROGRESS).write_text(lines(2))
    browser.until("return document.querySelector('main') !== window.old")
    browser.until("return document.querySelectorAll('.card').length > 0")
    chosen = "return [...document.querySelectorAll('.matrix-choice, #filters select')].map((e) => e.value)"
    assert browser.run(chosen) == ["1", "1", "2", "", "0,1", "now"]
    assert browser.texts(".memory-task h3") == ["Task 3"]
    assert browser.run("return document.activeElement.id") == "filter-class"
    browser.open("about:blank")


def test_another_name_for_this_machine_is_refused_by_the_server(browser, served):
    server, _ = served
    request = urllib.request.Request(server.url, headers={"Host": f"evil.example:{server.server_port}"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)
