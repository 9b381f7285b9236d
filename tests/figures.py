"""What documents and records are compared by: a table's cells, whether one says a number, an item's runs."""

import re
from functools import cache
from pathlib import Path
from statistics import mean

import samc
from samc.experiments.items import ITEMS
from samc.experiments.record_store import RecordStore
from samc.report.found import find_runs
from samc.report.measures import percent
from samc.report.numbers import DASH
from samc.report.runs import BUDGET, by_stream
from samc.report.student import paired_p, welch_p

ROOT = Path(samc.__file__).parents[2]
STORE = RecordStore(ROOT / "results" / "paper")
ACC = percent("acc")
BWT_BY_T = percent("bwt_by_t")
LEARNING_RATES = "paper/grid/held-out-lr", "paper/grid/held-out-ebm-lr", "held-out-lwf-cpu"
# where those of LwF and EBM were searched
STREAMS = {
    "Split CIFAR-100": "split-cifar100",
    "Split CIFAR-10": "split-cifar10",
    "Split mini-ImageNet": "split-mini-imagenet",
}


def table(page, beginning):
    """The cells of the one table whose header begins so, without bold."""
    lines = (ROOT / page).read_text().replace("**", "").splitlines()
    (header,) = (number for number, line in enumerate(lines) if line.startswith(beginning))
    rows = []
    for line in lines[header + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert len(rows) > 2
    return rows


def text_of(page):
    """A page without its line ends."""
    return " ".join((ROOT / page).read_text().split())


def says(cell, *values):
    """Whether the numbers of a cell are these, each to the digits that it has; a dash is no number."""
    if cell in (DASH, "not run", "not run yet"):
        return set(values) <= {None}
    if cell == "< 0.001":
        return values[0] < 0.001
    printed = re.findall(r"[+−]?\d[\d,]*(?:\.\d+)?", cell)
    return len(printed) == len(values) and all(map(is_rounded, printed, values))


def is_rounded(text, value):
    unit = 10.0 ** -len(text.partition(".")[2])
    number = float(text.replace(",", "").replace("−", "-"))
    return value is not None and abs(number - value) <= unit / 2 + 1e-9


def implied_just_learnt(paper):
    """Of a row of the paper: what its ACC and BWT imply, and the largest deviation that its two allow."""
    return paper["acc"] - paper["bwt"], paper["acc_sd"] + paper["bwt_sd"]


def held_out(setting, *folders):
    """ACC by seed on held-out images, by method, stream and a setting's value."""
    found = {}
    for run in find_runs([ROOT / "results" / folder for folder in folders]):
        config = run.record.config
        assert config["tested_on"] == "held-out"
        found.setdefault((config["model"], config["dataset"], config[setting]), {})[config["seed"]] = ACC(run.record)
    return found


def theory():
    """What was measured of the paper's claims on Split CIFAR-100."""
    (record,) = runs_of("theory")["samc, from the stream alone"].records.values()
    return record.diagnosis


def signs(steps):
    """Whether a step's product is positive with the completed memory's gradient, and with the true images'."""
    return [(step["product_completed"] > 0, step["product_true"] > 0) for step in steps]


def chance(pairs):
    """How often two signs would agree that are positive as often as these, each by itself."""
    completed, true = (mean(column) for column in zip(*pairs, strict=True))
    return completed * true + (1 - completed) * (1 - true)


@cache
def runs_of(item, stream="split-cifar100"):
    """By label, what an item has on a stream."""
    found = {key: STORE.find(job) for key, job in ITEMS[item].jobs((stream,)).items()}
    return {runs.variant.label: runs for runs in by_stream(found, axis=("accounting", *BUDGET))[stream]}


@cache
def on_a_cpu(item, label, stream="split-cifar100"):
    """Records by seed of a row that no GPU has learnt."""
    store = RecordStore(ROOT / "results" / f"{item}-cpu")
    jobs = {seed: job for (_, variant, seed), job in ITEMS[item].jobs((stream,)).items() if variant.label == label}
    found = {seed: store.find(job) for seed, job in jobs.items()}
    return {seed: record for seed, record in found.items() if record}


def shown_records(cell, item, label, stream):
    """Records by seed of the row that a cell is of; one that says CPU is of runs that no GPU has learnt."""
    return on_a_cpu(item, label, stream) if "CPU" in cell else runs_of(item, stream)[label].records


def by_seed(measure, label, item="table1", stream="split-cifar100"):
    """A measure of each of a row's runs, by seed."""
    return {seed: measure(record) for seed, record in runs_of(item, stream)[label].records.items()}


def by_seed_p(one, other):
    """p of the paired test over the seeds that both have."""
    return paired_p([value - other[seed] for seed, value in one.items() if seed in other])


def verdict(one, other):
    """One row's mean less another's, both by seed, and what two tests say of it: Welch's, and paired by seed.

    Above or below if p is under 0.05 in both, level if in neither, open if they differ.
    """
    difference = mean(one.values()) - mean(other.values())
    apart = [p < 0.05 for p in (welch_p(list(one.values()), list(other.values())), by_seed_p(one, other))]
    word = ("above" if difference > 0 else "below") if all(apart) else "open" if any(apart) else "level"
    return difference, word


def says_verdict(cell, one, other):
    """Whether a cell such as `+6.6 above` has the difference and the verdict; a dash is for fewer than three seeds."""
    if cell == DASH:
        return min(len(one), len(other)) < 3
    difference, word = verdict(one, other)
    number, _, said = cell.partition(" ")
    return says(number, difference) and said == word
