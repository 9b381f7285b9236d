"""The page of some runs: every panel, the right numbers, nothing from outside, nothing that is not escaped."""

import base64
import hashlib
import io
import json
import os
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer import Typer
from typer.main import get_command

import samc
from memory_makers import SPECS, filled
from page_makers import HOSTILE, recollection, save_run
from record_makers import record
from samc.cli.run import COMMAND_CLASS, EXTRA, run
from samc.config import RunConfig
from samc.errors import DataError
from samc.experiments.recollection import FILE as RECOLLECTION
from samc.experiments.recollection import read_recollection
from samc.learners import LEARNERS, configure
from samc.memory import Budget
from samc.memory.file import load
from samc.record import RunRecord
from samc.report.found import Run, find_runs
from samc.report.page.again import command as command_of
from samc.report.page.browser import ABREAST, PAGE_PIXELS, browser, choose
from samc.report.page.frontier import ticks_within
from samc.report.page.groups import grouped
from samc.report.page.page import page_of
from samc.report.page.panels import bytes_charts, heat, phases, split_parts, time_chart, whole
from samc.report.page.verdict import beside, sentence
from samc.report.spread import Spread

ROOT = Path(samc.__file__).parents[2]
PANELS = {"verdict", "accuracy", "costs", "memory", "again"}
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Elements and texts of a page, which has to close what it opens."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def panels(self):
        return {attributes["data-panel"] for _, attributes in self.elements if "data-panel" in attributes}


def page(*folders):
    text = page_of(find_runs(folders))
    return text, Reader(text)


def content(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, flags=re.S)[1])


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    save_run(folder, diagnosed=True)
    return folder, *page(folder)


def test_every_panel_is_there(one):
    _, _, reader = one
    assert reader.panels == PANELS | {"theory"}
    for words in (
        "ACC",
        "BWT",
        "Accuracy matrix",
        "The first task",
        "Forgetting by task",
        "Bytes of memory",
        "Lemma 2",
    ):
        assert words in reader.text


def test_the_verdict_has_the_records_figures(one):
    folder, _, reader = one
    made = RunRecord.load(folder)
    for figure in (f"{100 * made.acc:.1f} %", f"{made.memory['memory_bytes']:,}", "50", "−10.0", "4.0"):
        assert figure in reader.text


def test_the_matrix_is_a_table_of_all_accuracies(one):
    folder, text, reader = one
    made = RunRecord.load(folder)
    titles = [attributes["title"] for tag, attributes in reader.elements if tag == "td" and "title" in attributes]
    assert len(titles) == 30
    assert "task 2 after task 5: 50.0 %" in titles
    assert "task 1 before any task: 25.0 %" in titles
    rows = content(text)["matrices"][0][0]["rows"]
    np.testing.assert_allclose(rows, 100 * np.array(made.accuracy_matrix), atol=0.051)


def test_what_nobody_tested_is_a_dash(tmp_path):
    made = record(0.5, model="er")
    matrix = [row.copy() for row in made.accuracy_matrix]
    matrix[0][4] = matrix[1][4] = None  # a task that was unknown then, as in samc continue
    replace(made, accuracy_matrix=matrix).save(tmp_path)
    text, reader = page(tmp_path)
    assert content(text)["matrices"][0][0]["rows"][1][3:] == [25.0, None]
    assert len([1 for tag, attributes in reader.elements if tag == "td" and "title" in attributes]) == 28
    assert "ER reaches 50.0 %" in reader.text


def test_nothing_comes_from_outside(one):
    _, text, reader = one
    sources = [value for _, attributes in reader.elements for name, value in attributes.items()
               if name in ("src", "href", "action", "xlink:href", "data")]  # fmt: skip
    assert all(source.startswith(("#", "data:")) for source in sources)
    assert set(re.findall(r"\w+://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_the_policy_lets_in_our_own_style_and_script_and_nothing_else(one):
    _, text, reader = one
    (policy,) = [a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not any(name == "style" or name.startswith("on") for _, attributes in reader.elements for name in attributes)


def test_hostile_names_are_text(one):
    _, text, reader = one
    assert HOSTILE not in text
    assert HOSTILE in reader.text  # in the list of tasks and their classes
    assert HOSTILE in content(text)["memories"][0]["classes"].values()


@pytest.mark.parametrize("place", ["model", "stream", "setting", "note", "device", "part", "phase"])
def test_whatever_a_record_says_is_text(tmp_path, place):
    made = record(0.5, model="samc")
    changes = {
        "model": {"config": {**made.config, "model": HOSTILE}},
        "stream": {"fingerprint": {**made.fingerprint, "stream": HOSTILE}},
        "setting": {"config": {**made.config, HOSTILE: HOSTILE}},
        "note": {"notes": [HOSTILE]},
        "device": {"device": {"name": HOSTILE}},
        "part": {"memory": {**made.memory, "bytes_by_part": {HOSTILE: made.memory["bytes"]}}},
        "phase": {"seconds": {HOSTILE: 3.0, "total": 4.0}},
    }
    replace(made, **changes[place]).save(tmp_path)
    text, reader = page(tmp_path)
    assert HOSTILE not in text
    assert HOSTILE in reader.text


def test_names_of_mathematics_and_control_are_text(tmp_path):
    for number, name in enumerate(("$\\frac{1}$", "\x1b[31mred\x00", "]]>")):
        made = record(0.5, model="samc")
        replace(made, config={**made.config, "model": name}).save(tmp_path / str(number))
    text, _ = page(tmp_path)
    assert "\x1b" not in text
    assert "\x00" not in text


def test_charts_take_their_colours_from_the_page(one):
    _, text, _ = one
    for chart in re.findall(r"<svg[^>]*role=\"img\".*?</svg>", text, flags=re.S):
        assert "style=" not in chart
        assert re.findall(r'(?:fill|stroke)="#[0-9a-f]+"', chart) == []
        ids = set(re.findall(r' id="([^"]+)"', chart))
        assert set(re.findall(r'href="#([^"]+)"', chart)) | set(re.findall(r"url\(#([^)]+)\)", chart)) == ids
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_points_of_charts_say_their_values(one):
    _, text, _ = one
    titles = re.findall(r"<title>(.*?)</title>", text)
    assert "SAMC, tasks learnt 5: 50.0 %" in titles
    assert "SAMC, task 1: 10.0 points" in titles
    assert any(re.fullmatch(r"SAMC, labels: 50 bytes, 0\.0 %", title) for title in titles)


@pytest.mark.parametrize(
    ("best", "says"),
    [
        ((50, 60, 70), "level with GEM (20.0 points, Welch's p 0.070)"),  # t √6, 4 degrees of freedom
        ((60, 70, 80), "30.0 points above GEM (Welch's p 0.021)"),
        ((60, 70), "25.0 points above GEM, which so few seeds cannot tell from chance"),
    ],
)
def test_one_is_above_another_only_where_a_test_says_so(best, says):
    assert beside(Spread(tuple(map(float, best))), Spread((30.0, 40.0, 50.0)), "GEM") == says


def test_seeds_have_a_mean_and_three_an_interval(tmp_path):
    for seed, acc in enumerate((0.5, 0.6, 0.7)):
        save_run(tmp_path / f"er{seed}", acc=acc, seed=seed, model="er", memory=False)
        if seed < 2:
            save_run(tmp_path / f"gem{seed}", acc=acc - 0.2, seed=seed, model="gem", memory=False)
    _, reader = page(tmp_path)
    reached = "ER reaches 60.0 ± 10.0 % over 3 seeds with 153,650 bytes of memory"
    assert f"{reached}, 25.0 points above GEM, which so few seeds cannot tell from chance." in reader.text
    assert "60.0 ± 10.0 35.16 to 84.84" in reader.text  # Student's quantile of two degrees is 4.303
    assert "35.0 ± 7.1 –" in reader.text
    assert "memory" not in reader.panels
    assert "2 methods on the embedded stream" in reader.text


def test_the_papers_figures_stand_beside_runs_of_its_streams_in_full(tmp_path):
    for seed in range(3):
        save_run(tmp_path / f"{seed}", acc=0.55 + seed / 100, seed=seed, stream="split-cifar100", memory=False)
    _, reader = page(tmp_path)
    assert "56.2 ± 1.0" in reader.text
    assert "Welch" in reader.text
    assert "the paper's icarl" in reader.text  # a point of the frontier
    save_run(tmp_path / "cut", acc=0.55, stream="split-cifar100", n_tasks=5, memory=False)
    _, reader = page(tmp_path / "cut")
    assert "Welch" not in reader.text


def test_other_terms_are_another_group_but_bytes_are_an_axis(tmp_path):
    for name, changes in {"a": {}, "b": {"buffer_size": 20}, "c": {"n_tasks": 3}}.items():
        save_run(tmp_path / name, memory=False, **changes)
    groups = grouped(find_runs([tmp_path]))
    assert [(len(group.classes), len(group.methods)) for group in groups] == [(5, 2), (3, 1)]
    _, reader = page(tmp_path)
    assert "3 methods on 2 sets of terms" in reader.text


def test_a_run_without_a_memory_or_of_one_task_has_a_page(tmp_path):
    save_run(tmp_path, model="finetune", images=0, n_tasks=1, memory=False)
    _, reader = page(tmp_path)
    assert reader.panels == PANELS - {"memory"}
    assert "without a memory" in sentence(grouped(find_runs([tmp_path]))[0])


def test_where_bytes_and_time_went():
    made = record(0.5, model="samc")
    assert split_parts(made) == ({"colours": 153_600.0, "labels": 50.0}, {"autoencoder": 86_244.0})
    (group,) = grouped([Run(made, Path())])
    assert phases(group.methods[0]) == {"current gradient": 2.0, "evaluation": 1.0, "everything else": 1.0}
    memory, extra = bytes_charts(group)
    assert "In all: SAMC 153,650." in memory.caption
    assert "In all: SAMC 86,244." in extra.caption


def test_what_is_left_over_is_the_last_colour_of_all():
    made = [record(0.5, model="samc"), record(0.4, model="gem")]
    made[1] = replace(made[1], seconds={"total": 4.0, "projection": 1.0, "current gradient": 2.0})
    chart = time_chart(grouped([Run(one, Path()) for one in made])[0])
    assert chart.headings == ["", "current gradient", "evaluation", "projection", "everything else"]
    assert "In all: SAMC 4.0 s, GEM 4.0 s." in chart.caption


def test_halves_are_rounded_as_the_pages_script_rounds_them():
    assert [whole(value) for value in (0.0, 0.5, 62.4, 62.5, 63.5, 100.0)] == [0, 1, 62, 63, 64, 100]
    assert [heat(value) for value in (0.0, 2.5, 12.5, 100.0)] == [0, 1, 3, 20]


# The memory browser


def tile(shown, layer, place):
    sheet = Image.open(io.BytesIO(base64.b64decode(shown["layers"][layer].partition(",")[2])))
    height, width = shown["side"]
    down, across = divmod(place, ABREAST)
    box = (across * width, down * height, (across + 1) * width, (down + 1) * height)
    return np.array(sheet.crop(box))


def test_the_browser_shows_what_memory_holds(tmp_path):
    made, memory = save_run(tmp_path)
    shown = browser(choose(made, tmp_path, PAGE_PIXELS))
    assert (shown["total"], shown["bytes"], shown["codec"]) == (60, memory.nbytes, "coo")
    stored, masks, labels = memory.recall(2)
    for place in range(12):
        row = 24 + place
        kept = tile(shown, "kept", row)
        np.testing.assert_array_equal(kept[..., 3] > 0, masks[place])
        np.testing.assert_array_equal(kept[masks[place]][:, :3], stored[place].transpose(1, 2, 0)[masks[place]])
        assert shown["images"]["label"][row] == labels[place]
        assert shown["images"]["kept"][row] == pytest.approx(masks[place].mean(), abs=1e-4)
        assert shown["images"]["bytes"][row] == memory.by_task[2].images[place].nbytes
    noted = read_recollection(tmp_path / RECOLLECTION)
    np.testing.assert_array_equal(tile(shown, "completed", 30), noted.pixels[30].transpose(1, 2, 0))
    assert shown["images"]["now"] == noted.now.tolist()
    assert shown["images"]["psnr"][-1] == 20.0


@pytest.mark.parametrize("spec", SPECS)
def test_every_codec_has_a_browser_without_what_a_run_noted(tmp_path, spec):
    made, memory = save_run(tmp_path, spec, noted=False)
    shown = browser(choose(made, tmp_path, PAGE_PIXELS))
    drops = any(name in spec for name in ("coo", "bitmask", "cam"))
    assert set(shown["layers"]) == {"completed", *(["kept"] if drops else []), *(["saliency"] if "cam" in spec else [])}
    assert shown["images"]["now"] == [None] * 60
    images, masks, _ = memory.recall(0)
    expected = images[3].transpose(1, 2, 0)[masks[3]]
    np.testing.assert_array_equal(tile(shown, "completed", 3)[masks[3]], expected)


def test_tasks_of_which_nothing_was_noted_are_shown_too(tmp_path):
    made, memory = save_run(tmp_path)
    noted = read_recollection(tmp_path / RECOLLECTION)
    kept = noted.task > 1
    late = replace(noted, **{name: getattr(noted, name)[kept] for name in vars(noted)})
    (tmp_path / RECOLLECTION).write_bytes(late.pack())
    shown = browser(choose(made, tmp_path, PAGE_PIXELS))
    assert shown["images"]["now"] == [None] * 24 + late.now.tolist()
    np.testing.assert_array_equal(tile(shown, "completed", 30), late.pixels[6].transpose(1, 2, 0))
    images, masks, _ = memory.recall(0)
    np.testing.assert_array_equal(tile(shown, "completed", 3)[masks[3]], images[3].transpose(1, 2, 0)[masks[3]])


def test_a_large_memory_is_shown_in_part_and_says_so(tmp_path):
    memory, _ = filled("jpeg:30", (3, 32, 32), tasks=(0, 1), count=700, budget=Budget(10**6))
    memory.save(tmp_path / "memory.samc")
    made = record(0.5, model="samc")
    made.save(tmp_path)
    shown = browser(choose(made, tmp_path, PAGE_PIXELS))
    assert shown["total"] == 1400
    assert shown["images"]["task"] == [0] * 512 + [1] * 512
    assert len(page(tmp_path)[0]) < 5_000_000


def test_notes_of_another_memory_are_left_out(tmp_path):
    made, memory = save_run(tmp_path)
    other, images = filled("coo", tasks=(0, 1, 2, 3, 4), count=12, classes=10, seed=1)
    (tmp_path / RECOLLECTION).write_bytes(recollection(other, images).pack())
    assert memory.recall(0)[2].tolist() != other.recall(0)[2].tolist()
    assert not browser(choose(made, tmp_path, PAGE_PIXELS))["noted"]


def test_a_damaged_memory_is_said_in_its_place_and_the_page_is_there(tmp_path):
    save_run(tmp_path)
    (tmp_path / "memory.samc").write_bytes(b"nothing")
    text, reader = page(tmp_path)
    assert reader.panels == PANELS
    assert "memory.samc" in content(text)["memories"][0]["problem"]


@pytest.mark.parametrize("change", [{"psnr": np.arange(60)}, {"now": np.zeros(3, np.int64)}, {"pixels": np.zeros(2)}])
def test_notes_that_make_no_sense_are_refused(tmp_path, change):
    _, memory = save_run(tmp_path)
    file = io.BytesIO((tmp_path / RECOLLECTION).read_bytes())
    np.savez(tmp_path / RECOLLECTION, **(dict(np.load(file)) | change))
    with pytest.raises(DataError, match="does not hold what a run says of its memory"):
        read_recollection(tmp_path / RECOLLECTION)
    assert load(tmp_path / "memory.samc").nbytes == memory.nbytes


# The command that makes a run again


def given_by(text):
    words = shlex.split(text)
    assert words[:2] == ["samc", "run"]
    app = Typer()
    app.command(cls=COMMAND_CLASS)(run)
    return {
        name: value
        for name, value in get_command(app).make_context("run", words[2:]).params.items()
        if value is not None
    }


def test_the_command_gives_the_records_settings():
    paths = sorted((ROOT / "results").rglob("record.json"))[::23]
    commands = 0
    for path in paths:
        made = RunRecord.load(path)
        text = command_of(made)
        if text is None:
            continue
        commands += 1
        given = given_by(text)
        assert given.get("diagnose") == (True if made.diagnosis else None)
        given = {name: value for name, value in given.items() if name not in EXTRA}
        config = configure(given)[0]
        wanted = RunConfig.from_dict(made.config, LEARNERS[made.config["model"]].Settings)
        idle = wanted.settings.idle()
        for name, value in wanted.as_dict().items():
            assert name in idle or config.as_dict()[name] == value, (path, name)
    assert commands > len(paths) / 2


def test_a_method_of_ones_own_has_no_command():
    assert command_of(record(0.5, model="mine")) is None


# The command line


def test_report_writes_a_page(tmp_path, command):
    save_run(tmp_path / "a")
    code, out, err = command("report", tmp_path / "a", "--out", tmp_path / "page.html")
    assert (code, err) == (0, "")
    assert f"report: {tmp_path / 'page.html'}" in out
    assert Reader((tmp_path / "page.html").read_text()).panels == PANELS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", "--out", "page.html"), "nowhere holds no record.json; name the folder of some runs"),
        (("a", "--out", "a"), "--out is the page to write, and a is a folder"),
        (("a", "--out", "none/page.html"), "cannot write none/page.html: No such file or directory"),
        (("a", "--out", "a/record.json"), "--out is a page's name that ends in .html or .htm, got a/record.json"),
        (("a", "--out", "pipe.html"), "pipe.html is there already, a pipe, a socket or a device; choose another --out"),
        (("a", "--out", "link.html"), "link.html is there already, a pipe, a socket or a device; choose another --out"),
        (("a", "--out", "page.html", "--markdown"), "--out writes a page and --markdown prints a table"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, command, arguments, words):
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "a", memory=False)
    os.mkfifo("pipe.html")
    Path("link.html").symlink_to("pipe.html")
    before = Path("a/record.json").read_bytes()
    code, _, err = command("report", *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert Path("a/record.json").read_bytes() == before
    assert Path("pipe.html").is_fifo()
    assert Path("link.html").is_symlink()


def test_a_page_that_fails_does_not_fail_the_run(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("samc.report.page.page.page_of", lambda runs: 1 / 0)
    cut = ("--model", "finetune", "--n-tasks", 1, "--samples-per-task", 10)
    code, out, _ = command("run", *cut, "--out", "here")
    assert code == 0
    assert "no report was written (ZeroDivisionError: division by zero); mend that and try: samc report here" in out
    assert RunRecord.load("here").config["model"] == "finetune"


@pytest.mark.parametrize(("least", "most"), [(150_536, 153_650), (30_000, 140_000), (10_000, 400_000), (256, 614_600)])
def test_labels_of_bytes_stand_apart(least, most):
    """Of budgets that are nearly equal there were twelve, one over the other."""
    places = ticks_within(least, most).tick_values(least / 1.5, most * 1.5)
    shown = [place for place in places if least / 1.5 <= place <= most * 1.5]
    assert 2 <= len(shown) <= 6
