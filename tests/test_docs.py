"""The documents say what is so: quoted code stands where they say, named files exist, figures are their records'."""

import json
import re
from dataclasses import replace

import pytest

from figures import ACC, LEARNING_RATES, ROOT, STREAMS, held_out, says, table
from samc.config import RunConfig
from samc.experiments.jobs import Job
from samc.experiments.record_store import RecordStore
from samc.learners import LEARNERS
from samc.record import RunRecord
from samc.report.measures import extra_bytes, images, memory_bytes, percent
from samc.report.numbers import DASH
from samc.report.results_page import results_page

RESULTS, RECORDED = ROOT / "results", ROOT / "benchmarks" / "results"
SOURCE = ROOT / "src" / "samc"
PAGES = ["README.md", "CHANGELOG.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


def quoted():
    rows = re.findall(r"`([^`]+)` \| `([^`]+\.py)` \|", (ROOT / "docs" / "algorithm.md").read_text())
    assert len(rows) > 20
    return rows


@pytest.mark.parametrize(("code", "file"), quoted())
def test_algorithm_quotes_the_code(code, file):
    assert code in (SOURCE / file).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{page} links to {target}"


def test_the_readmes_tree_is_the_tree():
    text = (ROOT / "README.md").read_text()
    tree = text[text.index("src/samc/") :]
    tree = tree[: tree.index("```")]
    named = set(re.findall(r"^ +([a-z_]+(?:\.py|\.yaml|/))", tree, flags=re.M))
    there = {p.name + ("/" if p.is_dir() else "") for p in SOURCE.iterdir()}
    assert named == {name for name in there if not name.startswith("__") and name != "py.typed"}


@pytest.mark.parametrize("page", PAGES)
def test_no_placeholder_is_left(page):
    assert re.findall(r"^[A-Z]{4,}$", (ROOT / page).read_text(), flags=re.M) == []


@pytest.mark.slow
def test_the_page_of_results_is_what_the_records_say():
    store = RecordStore(ROOT / "results" / "paper")
    assert (ROOT / "docs" / "results.md").read_text() == results_page(store, link="../results/paper/")


def config_of(record):
    """As the record has it; codec auto is what it stood for then."""
    codec = {"codec": record.memory["codec"]} if record.config.get("codec") == "auto" else {}
    return RunConfig.from_dict({**record.config, **codec}, LEARNERS[record.config["model"]].Settings)


@pytest.mark.slow
def test_every_record_of_the_store_is_found_by_its_job():
    store = RecordStore(ROOT / "results" / "paper")
    paths = sorted(store.folder.rglob("record.json"))
    assert paths
    for path in paths:
        record = RunRecord.load(path)
        assert record.device["name"] == "NVIDIA H200"
        plain = Job(config_of(record), diagnose=record.diagnosis is not None)
        pictured = replace(plain, pictures=True)
        job = pictured if store.place(pictured) == path.parent else plain
        assert store.locate(job) == (path.parent, record)


@pytest.mark.parametrize(
    ("cell", "values", "right"),
    [
        ("38.8 ± 1.6", (38.754, 1.659), False),
        ("38.8 ± 1.7", (38.754, 1.659), True),
        ("−3.4", (-3.35,), True),
        ("3.4", (-3.35,), False),
        ("1,014,101 true bytes", (1014101,), True),
        ("0.05", (0.06,), False),
        ("0.01", (0.0005,), False),
        ("< 0.001", (0.001,), False),
        (DASH, (0.1,), False),
        (DASH, (None, None), True),
        ("1", (1, 2), False),
    ],
)
def test_a_cell_says_its_numbers_and_no_others(cell, values, right):
    assert says(cell, *values) == right


def test_the_readmes_demo():
    folders = ("finetune", "gem", "samc-paper", "samc")
    for folder, row in zip(folders, table("README.md", "| method | ACC %, seeds 0, 1, 2"), strict=True):
        _, every, mean, bwt, stored, count, extra, seconds = row
        records = [RunRecord.load(RESULTS / "split-synthetic" / f"{folder}-seed{seed}") for seed in range(3)]
        first = records[0]
        assert says(every, *map(ACC, records)), row
        assert says(mean, sum(map(ACC, records)) / 3), row
        assert says(bwt, sum(map(percent("bwt"), records)) / 3), row
        assert says(stored, memory_bytes(first)), row
        assert says(count, images(first)), row
        assert says(extra, extra_bytes(first)), row
        assert says(seconds, first.seconds["total"]), row


def test_methods_on_learning_rates():
    held = held_out("lr", *LEARNING_RATES)
    streams = "cifar100", "cifar10", "mini-imagenet"
    columns = [(model, f"split-{stream}") for model in ("ebm", "lwf") for stream in streams]
    for lr, *cells in table("docs/methods.md", "| lr | EBM, CIFAR-100"):
        for column, cell in zip(columns, cells, strict=True):
            found = held.pop((*column, float(lr)), {})
            by_seed = [found[seed] for seed in sorted(found)]
            assert says(cell, *by_seed) or (cell == "diverges" and not found), (lr, column)
    assert held == {}


def test_avalanche_side_by_side():
    rows = json.loads((RECORDED / "against-avalanche-cpu.json").read_text())["rows"]
    shown = table("docs/avalanche.md", "| strategy | ms per step")
    for (_, slow, fast, ratio, theirs, ours, p), row in zip(shown, rows, strict=True):
        figures = row["avalanche ms"], row["ours ms"], row["avalanche / ours"]
        assert all(map(says, (slow, fast, ratio), figures)), row["method"]
        assert [theirs or DASH, ours or DASH, p or DASH] == [row["ACC % avalanche"], row["ACC % ours"], row["p"]]


def test_fidelity_on_pretrained_weights():
    found = json.loads((RECORDED / "completions-cpu.json").read_text())["rows"]
    rows, stream = {(row["stream"], row["completion"]): row for row in found}, ""
    for name, way, *cells in table("docs/fidelity.md", "| stream | completion | μ 0.5"):
        stream = STREAMS[name] if name else stream
        alone = way.startswith("`pretrained` without")
        key = "pretrained alone" if alone else way.lower().replace("`", "").replace("the stream", "stream")
        row = rows.pop((stream, key))
        for tenth, cell in enumerate(cells, start=5):
            assert says(cell, row[f"dB 0.{tenth}"], row[f"SSIM 0.{tenth}"]), (stream, way, tenth)
    assert rows == {}


@pytest.mark.parametrize("benchmark", ["codecs.md", "encoding.md"])
def test_memory_has_the_benchmarks_rows(benchmark):
    rows = [line for line in (RECORDED / benchmark).read_text().splitlines() if re.match(r"\|[^|]*\| *\d", line)]
    assert len(rows) > 10
    assert set(rows) <= set((ROOT / "docs" / "memory.md").read_text().splitlines())
