"""The documents say what is so: quoted code stands where they say, and named files exist."""

import re
from pathlib import Path

import pytest

import samc
from samc.config import RunConfig
from samc.experiments.jobs import Job
from samc.experiments.record_store import RecordStore
from samc.learners import LEARNERS
from samc.record import RunRecord
from samc.report.results_page import results_page

ROOT = Path(samc.__file__).parents[2]
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
        assert store.locate(Job(config_of(record))) == (path.parent, record)
