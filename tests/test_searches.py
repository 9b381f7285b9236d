"""Values that we chose were searched: every one of a preset has its records on held-out training images."""

from pathlib import Path
from statistics import mean

import pytest

import samc
from figures import LEARNING_RATES, held_out
from samc.experiments.specification import EMBEDDED
from samc.presets import ANY_STREAM, presets, unturned
from samc.report.found import find_runs

RESULTS = Path(samc.__file__).parents[2] / "results"
TAKES_OVER = ("er", "der", "gem", "mer", "icarl")
# under `best` these have SAMC's values, and so SAMC's search
SEARCHED = ("der", "gem", "mer", "icarl")
# but for lr: ER with every part is SAMC with every part, these are not

DIGITS = ("split-mnist", "permuted-mnist")
# these have the values of any stream, but for augmentation

BY_HAND = {
    ("embedded", EMBEDDED, method, name)
    for method, names in {
        "finetune": ("lr",),
        "joint": ("lr",),
        "ewc": ("lr", "regularization"),
        "lwf": ("lr", "regularization"),
        "icarl": ("lr",),
        "gem": ("lr", "memory_strength"),
        "agem": ("lr",),
        "er": ("lr",),
        "der": ("lr",),
        "mer": ("lr", "meta_lr", "meta_batches"),
        "ebm": ("lr",),
        "eec": ("lr", "content_weight"),
    }.items()
    for name in names
}
# tried by hand on a few seeds, not searched yet
BY_RECORD = {
    ("split-cifar10", "ebm", "lr"),
    ("split-cifar10", "lwf", "lr"),
    ("split-cifar100", "ebm", "lr"),
    ("split-mini-imagenet", "ebm", "lr"),
}
# searched, stream by stream
WITHOUT_THE_PAPERS = {
    ("paper", stream, method, name)
    for stream in ("split-cifar10", "split-cifar100", "split-mini-imagenet")
    for method, names in {
        "joint": ("lr",),
        "lwf": ("lr", "regularization"),
        "agem": ("lr",),
        "der": ("lr", "alpha", "beta"),
        "ebm": ("lr",),
        "eec": ("lr", "encoder_lr", "content_weight"),
    }.items()
    for name in names
    if (stream, method, name) not in BY_RECORD
} | {(preset, EMBEDDED, "samc", name) for preset in ("paper", "text") for name in ("lr", "memory_strength")}
# the paper names no value, and ours has not been searched over its grid yet
NOT_SEARCHED_YET = BY_HAND | WITHOUT_THE_PAPERS
# can only shrink: the test below fails where one of these has been searched


def is_ours(preset, stream, entry):
    """Whether nobody but us can have chosen a value; the paper has no stream that comes with this package."""
    return preset in ("best", "embedded") or entry.get("source") == "ours" or stream == EMBEDDED


def choices():
    """Every value of ours that was chosen from several, by preset, stream, method and setting."""
    return {
        (preset, stream, method, name): entry
        for preset, streams in presets().items()
        for stream, methods in streams.items()
        for method, entries in methods.items()
        for name, entry in entries.items()
        if len(entry["grid"]) > 1 and is_ours(preset, stream, entry)
    }


@pytest.fixture(scope="module")
def tried():
    """The values of every setting that records on held-out images have, by stream and method."""
    values = {}
    for record in (run.record for run in find_runs([*RESULTS.glob("held-out-*"), RESULTS / "paper" / "grid"])):
        if record.config.get("tested_on") == "held-out":
            scenario = record.config.get("scenario", "task")
            stream = unturned(record.config["dataset"]) + ("" if scenario == "task" else f"/{scenario}")
            of_method = values.setdefault((stream, record.config["model"]), {})
            for name, value in record.config.items():
                of_method.setdefault(name, set()).add(value if not isinstance(value, list) else tuple(value))
    return values


def is_searched(key, entry, tried):
    """Whether every value of the grid has a record, the chosen one among them."""
    preset, stream, method, name = key
    own = name == "lr" and method in SEARCHED
    method = "samc" if preset == "best" and method in TAKES_OVER and not own else method
    told = stream.removesuffix("/hidden")  # what is not told was not searched for itself
    data, slash, scenario = told.partition("/")
    searched = ("split-cifar100" if data in (ANY_STREAM, *DIGITS) else data) + slash + scenario
    values = tried.get((searched, method), {}).get(name, set())
    return len(values) > 1 and {entry["value"], *entry["grid"]} <= values


def test_every_value_of_ours_has_been_searched_or_is_known_not_to_be(tried):
    found = {key for key, entry in choices().items() if not is_searched(key, entry, tried)}
    assert found - NOT_SEARCHED_YET == set(), "chosen, and no record says from what"
    assert NOT_SEARCHED_YET - found == set(), "searched by now: take it off the list"


def test_a_learning_rate_is_what_its_search_has_found():
    """LwF's and EBM's, for which the paper gives none: the best mean over the seeds of held-out images."""
    means = {}
    for (method, stream, lr), by_seed in held_out("lr", *LEARNING_RATES).items():
        means.setdefault((stream, method), {})[lr] = mean(by_seed.values())
    assert {method for _, method in means} == {"ebm", "lwf"}
    assert len(means) == 6
    found = {key: max(rates, key=rates.get) for key, rates in means.items()}
    chosen = {(stream, method): presets()["paper"][stream][method]["lr"]["value"] for stream, method in found}
    assert found == chosen


def test_there_is_something_to_search():
    kinds = {preset for preset, *_ in choices()}
    assert kinds == {"best", "paper", "text", "embedded"}
    assert ("best", ANY_STREAM, "er", "distil") in choices()
    assert ("embedded", EMBEDDED, "samc", "average") in choices()
    assert not any(method == "finetune" for preset, _, method, _ in choices() if preset == "paper")


def test_a_value_without_records_is_not_searched():
    entry = {"value": 0.1, "grid": [0.03, 0.1]}
    records = {("split-cifar100", "samc"): {"lr": {0.03, 0.1}}}
    with_distil = {("split-cifar100", "samc"): {"distil": {1, 2}}}
    assert is_searched(("best", "any", "samc", "lr"), entry, records)
    assert is_searched(("best", "any", "mer", "distil"), {"value": 1, "grid": [1, 2]}, with_distil)
    assert not is_searched(("best", "any", "mer", "lr"), entry, records)
    assert not is_searched(("best", "any", "ewc", "lr"), entry, records)
    assert not is_searched(("paper", "split-cifar100", "mer", "lr"), entry, records)
    assert not is_searched(("best", "split-cifar10", "samc", "lr"), entry, records)
    assert not is_searched(("best", "any", "samc", "average"), entry, records)
    assert not is_searched(("best", "any", "samc", "lr"), {"value": 0.1, "grid": [0.1, 0.3]}, records)
    one_value = {("split-cifar100", "samc"): {"lr": {0.1}}}
    assert not is_searched(("best", "any", "samc", "lr"), {"value": 0.1, "grid": [0.1, 0.1]}, one_value)
