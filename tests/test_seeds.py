"""Several seeds with one command: the records of one by one, and none is lost with another."""

import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch

from samc.cli import learning
from samc.cli.drawing import Terminal
from samc.cli.progress import bar_watcher, live_progress
from samc.cli.seeds import parse_seeds
from samc.engine import Engine, flat_parameters
from samc.errors import ConfigError, DataError
from samc.experiments import local
from samc.learners import GEM
from samc.protocol import run
from toys import coloured_squares

EMBEDDED = ("--dataset", "split-synthetic", "--n-tasks", 2, "--samples-per-task", 20, "--device", "cpu")
QUICK = ("--dataset", "npz:tiny.npz", "--n-tasks", 2, "--device", "cpu")


@pytest.fixture
def samc(command, tmp_path, monkeypatch):
    """Calls the command line in a folder with a tiny data set."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (60, 10, 10, 3), dtype=np.uint8)
    np.savez("tiny.npz", x=x, y=np.arange(60) % 4)
    return command


def left(folder):
    """What a run has written, but for its seconds."""
    record = json.loads((folder / "record.json").read_text())
    assert record.pop("seconds")["total"] > 0
    memory = folder / "memory.samc"
    return record, memory.read_bytes() if memory.exists() else b""


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-4", (0, 1, 2, 3, 4)), ("0,2,5", (0, 2, 5)), ("0-2,7", (0, 1, 2, 7)), ("7, 0-1", (7, 0, 1)), ("3-3", (3,))],
)
def test_texts_that_name_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4-0", "a range goes upwards; write 0-4"),
        ("a", "--seeds cannot be 'a'; write a range, a list or both, such as 0-4"),
        ("", "--seeds cannot be ''; write a range"),
        ("1,", "--seeds cannot be '1,'; write a range"),
        ("-1", "--seeds cannot be '-1'; write a range"),
        ("1.5", "--seeds cannot be '1.5'; write a range"),
        ("1,1", "has seed 1 twice; name each once"),
        ("0-3,2", "has seed 2 twice; name each once"),
        ("0-99999999", "at most 1,000 seeds at a time"),
    ],
)
def test_texts_that_do_not(samc, tmp_path, text, words):
    with pytest.raises(ConfigError) as error:
        parse_seeds(text)
    assert words in str(error.value)
    code, out, err = samc("run", *QUICK, f"--seeds={text}")
    assert (code, out, err) == (2, "", f"samc: {error.value}\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seed", 0, "--seeds", "0-1"), "--seed and --seeds exclude each other; give one of them"),
        (("--diagnose", "--seeds", "0-1"), "--diagnose takes one seed; give --seed instead of --seeds"),
    ],
)
def test_flags_that_exclude_each_other(samc, tmp_path, arguments, words):
    assert samc("run", *QUICK, *arguments) == (2, "", f"samc: {words}\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_records_are_those_of_single_runs(samc, tmp_path):
    code, out, err = samc("run", "--model", "gem", *EMBEDDED, "--seeds", "0,1", "--out", "both")
    assert (code, err) == (0, "")
    for seed in (0, 1):
        assert samc("run", "--model", "gem", *EMBEDDED, "--seed", seed, "--out", f"single{seed}")[0] == 0
        assert left(tmp_path / "both" / f"seed{seed}") == left(tmp_path / f"single{seed}")
    records, memories = zip(*(left(tmp_path / "both" / f"seed{seed}") for seed in (0, 1)), strict=True)
    assert [record["config"]["seed"] for record in records] == [0, 1]
    assert memories[0] != memories[1]
    mean, deviation = (100 * f([record["acc"] for record in records]) for f in (np.mean, partial(np.std, ddof=1)))
    assert f"ACC {mean:.1f} ± {deviation:.1f} %, BWT" in out
    assert out.endswith("records: both\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [("gem",), ("eec", "--encoder-steps", 2)],  # eec makes networks as it goes, from a random state that all share
)
def test_side_by_side_the_records_are_the_same(samc, tmp_path, monkeypatch, model):
    """As on a GPU, in processes of their own; here they are told to use as many threads as this one."""
    how = ("run", "--model", *model, *QUICK, "--seeds", "0-2")
    assert samc(*how, "--out", "alone")[0] == 0
    monkeypatch.setitem(learning.AT_ONCE, "cpu", 3)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert samc(*how, "--out", "together")[0] == 0
    for seed in range(3):
        assert left(tmp_path / "together" / f"seed{seed}") == left(tmp_path / "alone" / f"seed{seed}")


@pytest.mark.slow
def test_networks_that_are_made_at_once_start_as_they_would_alone():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda seed: flat_parameters(GEM(4, (3, 12, 12), seed=seed).model), range(16)))
    for seed, parameters in enumerate(made):
        assert torch.equal(parameters, flat_parameters(GEM(4, (3, 12, 12), seed=seed).model))
    assert not torch.equal(made[0], made[1])


@pytest.mark.slow
def test_without_a_place_the_folder_is_named_by_the_seeds(samc, tmp_path):
    assert samc("run", "--model", "finetune", *QUICK, "--seeds", "1-2")[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("tiny-finetune-seeds1-2-")
    kept = ("learner.safetensors", "progress.jsonl", "record.json")
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == [
        "report.html",
        *(f"seed{seed}/{name}" for seed in (1, 2) for name in kept),
    ]
    code, out, _ = samc("report", "runs", "--markdown")
    assert code == 0
    assert "| finetune | 1, 2 |" in out


@pytest.mark.parametrize("failing", [0, 1])
def test_a_seed_that_fails_does_not_cost_the_other(samc, tmp_path, monkeypatch, failing):
    step = Engine.step

    def break_(engine, gradient, lr):
        if engine.model.heads.seed == failing:
            raise DataError("these images are spoilt")
        step(engine, gradient, lr)

    monkeypatch.setattr(Engine, "step", break_)
    code, out, err = samc("run", "--model", "finetune", *QUICK, "--seeds", "0-1", "--out", "here")
    assert (code, err) == (2, "samc: these images are spoilt\n")
    assert f"failed: seed {failing}\n" in out
    assert [path.name for path in (tmp_path / "here").iterdir()] == [f"seed{1 - failing}"]
    assert left(tmp_path / "here" / f"seed{1 - failing}")[0]["config"]["seed"] == 1 - failing


@pytest.mark.parametrize("file", ["record.json", "memory.samc"])
def test_what_is_there_already_stops_everything_before_training(samc, tmp_path, monkeypatch, file):
    monkeypatch.setattr(local, "learn", lambda *_, **__: pytest.fail("a seed was trained"))
    (tmp_path / "here" / "seed1").mkdir(parents=True)
    (tmp_path / "here" / "seed1" / file).write_text("precious")
    code, _, err = samc("run", "--model", "gem", *QUICK, "--seeds", "0-2", "--out", "here")
    assert code == 2
    assert "seed1" in err
    assert err.endswith("choose another --out or remove it\n")
    assert [path.name for path in (tmp_path / "here").rglob("*")] == ["seed1", file]
    assert (tmp_path / "here" / "seed1" / file).read_text() == "precious"


@pytest.mark.slow
def test_a_finished_seed_outlives_an_interrupt(samc, tmp_path, monkeypatch):
    step = Engine.step

    def interrupt(engine, gradient, lr):
        if engine.model.heads.seed == 1:
            raise KeyboardInterrupt
        step(engine, gradient, lr)

    monkeypatch.setattr(Engine, "step", interrupt)
    code, _, err = samc("run", "--model", "finetune", *QUICK, "--seeds", "0-2", "--out", "here")
    assert (code, err) == (130, "samc: interrupted; nothing half-written is left\n")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["seed0"]
    assert left(tmp_path / "here" / "seed0")[0]["config"]["seed"] == 0


@pytest.mark.slow
def test_all_seeds_share_one_display():
    console = Terminal(file=io.StringIO(), force_terminal=True, width=160)
    stream = coloured_squares(per_class=10)
    with live_progress(console) as progress:
        for watcher in [bar_watcher(progress, f"gem, seed {seed}") for seed in (0, 1)]:
            run(stream, GEM(6, (3, 12, 12)), watchers=[watcher])
        assert progress.finished
    shown = console.file.getvalue()
    for seed in (0, 1):
        assert re.search(rf"gem, seed {seed} .*task 3/3  step \d+/\d+  ACC \d", shown)
