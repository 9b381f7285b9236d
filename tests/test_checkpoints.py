"""No run is lost: killed, told to stop, on a full disk or with a damaged file, it goes on to the same record."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import samc
from limits import within
from logs import without_progress
from run_makers import gone_on
from samc import checkpoints as checkpoints_module
from samc import files
from samc import machine as machine_module
from samc.checkpoints import EVERY, Checkpoints
from samc.cli.unfinished import Unfinished
from samc.errors import ConfigError, DataError, OutputError
from samc.experiments.diagnosis import Diagnosis
from samc.experiments.jobs import learn, make_job
from samc.experiments.local import InProcess, LocalProcesses
from samc.experiments.perform import Listener, perform
from samc.experiments.pictures import PictureCollector
from samc.experiments.record_store import RecordStore
from samc.learners import LEARNERS, configure
from samc.protocol import Watcher, learn_stream, run
from samc.record import RunRecord
from samc.report.runs import machines_in_words
from samc.state import pack
from samc.stopping import Stopped, signals_noted
from toys import coloured_squares

KILLS = int(os.environ.get("SAMC_KILLS", "6"))
# how many runs are killed at a random moment; thirty were, once, by hand
SHAPE = (3, 12, 12)
SMALL = {"encoder_steps": 2}
PAPER = {"preset": "paper:split-cifar100", "autoencoder_steps": 2}
VARIANTS = [
    *((name, SMALL if name == "eec" else {}) for name in LEARNERS),
    ("samc", PAPER),
    ("samc", {"memory_bytes": "9000", "augment": "flip", "distil": 1.0}),
    *((name, {"scenario": "class"}) for name in ("der", "icarl", "lwf", "ebm")),
    ("er", {"scenario": "class", "boundaries": "hidden", "memory_bytes": "9000", "batch_classes": "batch"}),
]


class CrashError(Exception):
    """What ends a run in these tests, where in earnest it would be a power cut."""


class After(Watcher):
    """Does something after so many steps of a run, as this process sees it."""

    def __init__(self, steps, action):
        self.left, self.action = steps, action

    def step(self, task, number, x, stats):
        self.left -= 1
        if self.left == 0:
            self.action()


def crash():
    raise CrashError


def make(name, given=None, **more):
    return LEARNERS[name](6, SHAPE, **{"seed": 1, "lr": 0.01, **(given or {}), **more})


def toy():
    return coloured_squares(tasks=3, per_class=10)


def but_for_seconds(record):
    found = replace(record, seconds={})
    return replace(found, diagnosis=record.diagnosis | {"seconds": 0}) if record.diagnosis else found


def same_state(one, other):
    (structure, tensors), (structure_, tensors_) = pack(one.state_dict()), pack(other.state_dict())
    alike = structure == structure_ and tensors.keys() == tensors_.keys()
    return alike and all(torch.equal(value, tensors_[name]) for name, value in tensors.items())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given"), VARIANTS)
def test_every_method_goes_on_in_mid_task_to_the_same_record(name, given, tmp_path):
    """The run ends after 7 of 12 steps; the last checkpoint is of the sixth, in the middle of the second task."""
    whole = make(name, given)
    record = run(toy(), whole, batch_size=5)
    with pytest.raises(CrashError):
        run(toy(), make(name, given), batch_size=5, folder=tmp_path, checkpoint_every="2", watchers=[After(7, crash)])
    resumed, seen = make(name, given, seed=1), []
    watcher = After(1, lambda: seen.append("a step"))
    again = run(toy(), resumed, batch_size=5, folder=tmp_path, checkpoint_every="2", watchers=[watcher])
    assert watcher.left == 1 - 6  # as many steps as were left
    assert but_for_seconds(again) == but_for_seconds(record)
    assert same_state(resumed, whole)
    left = {"learner.safetensors", "record.json", *(["memory.samc"] if hasattr(whole, "memory") else [])}
    assert {path.name for path in tmp_path.iterdir()} == left
    assert same_state(samc.load(tmp_path), whole)
    with pytest.raises(OutputError, match="already holds a run"):
        run(toy(), make(name, given), batch_size=5, folder=tmp_path)


def test_tests_within_tasks_are_taken_up_too(tmp_path):
    """Neither left out nor made twice."""
    given, every = {"backbone": "mlp", "scenario": "class"}, {"batch_size": 5, "test_every": 1}
    record = run(toy(), make("er", given), **every)
    with pytest.raises(CrashError):
        run(toy(), make("er", given), folder=tmp_path, checkpoint_every="2", watchers=[After(7, crash)], **every)
    again = run(toy(), make("er", given), folder=tmp_path, checkpoint_every="2", **every)
    assert [len(tests) for tests in again.between] == [3, 3, 3]
    assert but_for_seconds(again) == but_for_seconds(record)


@pytest.mark.parametrize("steps", range(1, 13))
def test_a_run_goes_on_from_any_step(steps, tmp_path):
    given = {"average": 0.9, "backbone": "mlp"}
    record = run(toy(), make("er", given), batch_size=5)
    with pytest.raises(CrashError):
        run(toy(), make("er", given), batch_size=5, folder=tmp_path, checkpoint_every="1",
            watchers=[After(steps, crash)])  # fmt: skip
    assert len(Checkpoints(tmp_path).paths) == min(2, steps - 1)
    again = run(toy(), make("er", given), batch_size=5, folder=tmp_path, checkpoint_every="1")
    assert but_for_seconds(again) == but_for_seconds(record)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("steps", [1, 4, 6, 12])
def test_a_signal_saves_and_stops_even_at_the_end_of_a_task(number, steps, tmp_path):
    before = signal.getsignal(number)
    record = run(toy(), make("finetune", backbone="mlp"), batch_size=5)
    watcher = After(steps, lambda: signal.raise_signal(number))
    with pytest.raises(Stopped) as stopped:
        run(toy(), make("finetune", backbone="mlp"), batch_size=5, folder=tmp_path, watchers=[watcher])
    place = "its end" if steps % 4 == 0 else f"step {(steps - 1) % 4 + 1}"
    assert (stopped.value.number, stopped.value.remedy) == (number, f"saved at task {(steps - 1) // 4 + 1}, {place}")
    assert signal.getsignal(number) is before
    watcher = After(99, crash)
    again = run(toy(), make("finetune", backbone="mlp"), batch_size=5, folder=tmp_path, watchers=[watcher])
    assert 99 - watcher.left == 12 - steps
    assert but_for_seconds(again) == but_for_seconds(record)


def test_a_second_interrupt_stops_at_once():
    with signals_noted() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_noted() as request:
            signal.raise_signal(signal.SIGINT)
        assert request.number is None
    finally:
        signal.signal(signal.SIGINT, before)


# -- what looks on, and where batches come from


@pytest.mark.slow
def test_those_who_look_on_go_on_too(tmp_path):
    """What a diagnosis has measured and a collector has seen before, they still have."""
    found = []
    for place in (None, tmp_path):
        for stop in (None,) if place is None else (9, None):
            watchers = [Diagnosis(), PictureCollector(), *([After(stop, crash)] if stop else [])]
            learner, checkpoints = make("samc", PAPER), place and Checkpoints(place, "2")
            try:
                record = learn_stream(toy(), learner, 5, 1, watchers, None, checkpoints)
            except CrashError:
                continue
            record = replace(record, diagnosis=watchers[0].report())
            found.append((but_for_seconds(record), watchers[1].pack()))
    assert found[0] == found[1]


class Dropping(nn.Module):
    """Draws from torch's own random state, as some networks do."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Conv2d(3, 4, 3, stride=2), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x).relu())


class Noisy(TensorDataset):
    """A transform drawn anew whenever an image is asked for; not by `random`, which checks of types draw from."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return (x + torch.randint(0, 9, ()) + np.random.randint(9)).to(torch.uint8), y


@pytest.mark.parametrize("own", [True, False], ids=["a generator of its own", "torch's own"])
@pytest.mark.parametrize("steps", [4, 9, 13])
def test_loaders_that_shuffle_and_networks_that_drop_go_on_in_the_same_order(own, steps, tmp_path):
    def loaders():
        given = [{"generator": torch.Generator().manual_seed(5)} if own else {} for _ in range(2)]
        x, y = torch.arange(24 * 75).reshape(24, 3, 5, 5) % 200, torch.arange(24) % 2
        return [
            DataLoader(Noisy(x[12 * k : 12 * k + 12].to(torch.uint8), y[:12] + 2 * k), 4, shuffle=True, **more)
            for k, more in enumerate(given)
        ]

    def learner():
        torch.manual_seed(7)
        net = Dropping()
        np.random.seed(1)
        return samc.ER(4, (3, 5, 5), model=net, lr=0.05)

    whole = learner()
    record = run(loaders(), whole, n_epochs=3)
    with pytest.raises(CrashError):
        run(loaders(), learner(), n_epochs=3, folder=tmp_path, checkpoint_every="1", watchers=[After(steps, crash)])
    again = learner()
    torch.manual_seed(99)  # as another process has other random states
    resumed = run(loaders(), again, n_epochs=3, folder=tmp_path)
    assert but_for_seconds(resumed) == but_for_seconds(record)
    assert same_state(again, whole)


def test_other_images_than_before_are_noticed(tmp_path):
    def loader(first):
        x, y = torch.zeros(20, 3, 5, 5, dtype=torch.uint8), (torch.arange(20) + first) % 2
        return [DataLoader(TensorDataset(x, y), 3)]

    def learner():
        return samc.Finetune(2, (3, 5, 5), backbone="mlp")

    with pytest.raises(CrashError):
        run(loader(0), learner(), folder=tmp_path, checkpoint_every="1", watchers=[After(3, crash)])
    with pytest.raises(DataError, match="task 0 gives other images than before, or in another order; begin again"):
        run(loader(1), learner(), folder=tmp_path)


# -- what a folder may hold


@pytest.fixture
def crashed(tmp_path):
    """A folder with the last two checkpoints of a run, the record of that run, and how to go on with it."""
    record = run(toy(), make("er", backbone="mlp"), batch_size=5)
    with pytest.raises(CrashError):
        run(
            toy(),
            make("er", backbone="mlp"),
            batch_size=5,
            folder=tmp_path,
            checkpoint_every="1",
            watchers=[After(6, crash)],
        )

    def go_on(learner=None, **given):
        checkpoints = Checkpoints(tmp_path, "1", **given)
        return learn_stream(toy(), learner or make("er", backbone="mlp"), 5, 1, (), None, checkpoints), checkpoints

    return tmp_path, record, go_on


def damage(path, where=0.5):
    content = bytearray(path.read_bytes())
    content[int(where * (len(content) - 1))] ^= 8
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["a bit", "cut", "empty"])
def test_a_damaged_last_checkpoint_gives_way_to_the_one_before_and_says_so(how, crashed):
    folder, record, go_on = crashed
    (*_, last) = Checkpoints(folder).paths
    if how == "a bit":
        damage(last)
    else:
        os.truncate(last, 0 if how == "empty" else last.stat().st_size - 1)
    found, checkpoints = go_on()
    assert but_for_seconds(found) == but_for_seconds(record)
    (note,) = checkpoints.notes
    assert note.startswith(f"{last} is damaged (")
    assert note.endswith("the checkpoint before it is whole")


def test_where_both_are_damaged_it_is_one_line_or_a_new_beginning(crashed):
    folder, record, go_on = crashed
    for path in Checkpoints(folder).paths:
        damage(path)
    with pytest.raises(
        DataError, match=r"no checkpoint is whole: .* is damaged .*; remove the checkpoints in"
    ) as error:
        go_on()
    assert "\n" not in str(error.value)
    assert but_for_seconds(go_on(discard_others=True)[0]) == but_for_seconds(record)


def test_another_version_and_another_run_are_refused(crashed, monkeypatch):
    _, record, go_on = crashed
    with pytest.raises(
        DataError, match=r"holds checkpoints of another run \(lr: 0.01 there, 0.02 here\); choose another"
    ):
        go_on(make("er", lr=0.02, backbone="mlp"))
    with pytest.raises(DataError, match=r"holds checkpoints of another run \(model: er there, gem here,"):
        go_on(make("gem", backbone="mlp"))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "VERSION", "99.0")
        with pytest.raises(DataError, match=r"was written by samc .*, this is samc 99.0, which may compute otherwise"):
            go_on()
    assert but_for_seconds(go_on()[0]) == but_for_seconds(record)


@pytest.mark.parametrize("elsewhere", ["torch", "processor", "threads"])
def test_a_run_that_goes_on_elsewhere_names_every_place(elsewhere, crashed, monkeypatch):
    folder, record, go_on = crashed
    home = {"device": record.device, "versions": record.versions}
    versions = record.versions | ({"torch": "99.0"} if elsewhere == "torch" else {})
    name = {"processor": {"name": "another"}, "threads": {"threads": 99}}.get(elsewhere, {})
    with monkeypatch.context() as patch:
        patch.setattr(machine_module, "versions", lambda: versions)
        patch.setattr(machine_module, "describe_device", lambda device: record.device | name)
        for steps in (1, 2):  # it is the same place the second time
            with pytest.raises(CrashError):
                learn_stream(
                    toy(), make("er", backbone="mlp"), 5, 1, [After(steps + 1, crash)], None, Checkpoints(folder, "1")
                )
    found, checkpoints = go_on()
    there = {"device": record.device | name, "versions": versions}
    assert found.began_on == [home | {"until": "task 2, step 1"}, there | {"until": "task 3, its beginning"}]
    assert but_for_seconds(replace(found, began_on=None)) == but_for_seconds(record)
    mine = record.device["name"]
    assert found.machine == (f"{mine}, then another, then {mine}" if elsewhere == "processor" else mine)
    assert machines_in_words(found).count(", then ") == 2
    note = "learnt until task 3, its beginning on another device or with other versions; its record says so"
    assert checkpoints.notes == [note]
    found.save(folder)
    assert RunRecord.load(folder) == found


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def short(path, content):
    path.write_bytes(content[: len(content) // 2])
    full()


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [(files, "write_through", full), (files, "write_through", short), (os, "fsync", full), (os, "replace", full)],
    ids=["disk full", "short write", "not synced", "rename refused"],
)
def test_a_checkpoint_that_cannot_be_written_leaves_those_before_it_and_the_run_goes_on(
    where, name, fault, crashed, monkeypatch
):
    folder, record, go_on = crashed
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert len(before) == 2
    monkeypatch.setattr(where, name, fault)
    found, checkpoints = go_on()
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == before
    assert but_for_seconds(found) == but_for_seconds(record)
    assert set(checkpoints.notes) == {
        f"no checkpoint could be written to {folder} (No space left on device); the run went on"
    }


class Odd(samc.Finetune):
    """Keeps something that no file holds."""

    def state_dict(self):
        return super().state_dict() | {"odd": {1, 2}}


def test_a_method_that_cannot_be_saved_still_ends_with_its_record(tmp_path):
    with pytest.warns(UserWarning, match=r"no learner is left in .*; \.state\.odd is a set"):
        record = run(toy(), Odd(6, SHAPE, backbone="mlp"), batch_size=5, folder=tmp_path, checkpoint_every="1")
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert samc.RunRecord.load(tmp_path) == record


def test_what_a_killed_process_was_writing_is_removed(crashed):
    folder, record, go_on = crashed
    (folder / ".checkpoint-000007.safetensors-0123456789abcdef").write_bytes(b"half of it")
    (folder / ".record.json-0123456789abcdef").write_bytes(b"{")
    (folder / ".hidden").write_text("not ours")
    assert but_for_seconds(go_on()[0]) == but_for_seconds(record)
    Checkpoints(folder).clear()
    assert [path.name for path in folder.iterdir()] == [".hidden"]


@pytest.mark.parametrize("every", ["", "0", "0s", "-1", "1m", "60 s", "s", "1e3"])
def test_pauses_that_mean_nothing(every, tmp_path):
    with pytest.raises(ConfigError, match="--checkpoint-every is a number of steps or of seconds, as 500 or 60s"):
        Checkpoints(tmp_path, every)


def test_saving_waits_a_hundred_times_as_long_as_it_takes(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    subject = Checkpoints(tmp_path, "2s")
    assert not subject.affordable()  # nothing is worth saving yet
    now[0] = 4.0
    assert subject.due()
    assert subject.affordable()
    monkeypatch.setattr(checkpoints_module, "save_state", lambda *_, **__: now.__setitem__(0, now[0] + 0.5))
    subject.save(dict)
    assert (subject.took, now[0]) == (0.5, 4.5)
    for moment, due in ((7.0, False), (54.0, False), (54.6, True)):
        now[0] = moment
        assert subject.due() == subject.affordable() == due


def test_by_default_saving_takes_under_a_hundredth_of_a_run(tmp_path):
    assert EVERY == "60s"
    subject, pause = Checkpoints(tmp_path), 0.0
    for _ in range(3):
        subject.save(lambda: {"x": torch.zeros(10**6)})
        pause = max(60, 100 * subject.took)
        subject.saved_at -= pause - 1
        assert not subject.due()
        subject.saved_at -= 1
        assert subject.due()
    assert len(subject.paths) == 2


# -- the store of many runs


class Stop(Listener):
    """Ends a command in the middle of a run."""

    def __init__(self, told):
        self.left = told

    def progressed(self, job, fields):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_table_goes_on_inside_a_run(tmp_path, monkeypatch):
    job = make_job(
        {"model": "er", "dataset": "split-synthetic", "n_tasks": 2, "samples_per_task": 40, "preset": "none"}
    )
    store = RecordStore(tmp_path)
    monkeypatch.setattr(checkpoints_module, "EVERY", "1")
    monkeypatch.setattr(RecordStore, "checkpoints", lambda self, job: Checkpoints(self.place(job), "1", True))
    executor = InProcess(torch.device("cpu"), None, store.checkpoints)
    step, count = samc.ER.observe, []

    def observe(self, x, y, task):
        count.append(task)
        if len(count) == 6:
            raise KeyboardInterrupt
        return step(self, x, y, task)

    monkeypatch.setattr(samc.ER, "observe", observe)
    with pytest.raises(KeyboardInterrupt):
        perform([job], store, executor, Listener())
    assert len(store.checkpoints(job).paths) == 2
    assert perform([job], store, executor, Listener()) == {}
    assert len(count) == 6 + 3  # eight steps in all, five were saved
    assert {path.name for path in store.place(job).iterdir()} == {"record.json"}
    assert but_for_seconds(store.find(job)) == but_for_seconds(learn(job, None, torch.device("cpu")).record)


class SlowUntilTold(Checkpoints):
    """A run makes a step a second until a signal comes, so that no process is at its end before that."""

    def due(self):
        if not self.since:
            self.heard, self.noted = socket.socketpair()
            self.noted.setblocking(False)
            self.heard.settimeout(1)
            signal.set_wakeup_fd(self.noted.fileno())
        with suppress(TimeoutError):
            self.heard.recv(1)
        return super().due()


def tell_to_end(executor):
    """An interrupt ends the first process, which tells the others."""
    raise KeyboardInterrupt


def leave(executor):
    """What the others see of a first process that was killed; this one goes on when they have ended."""
    for worker in executor.workers:
        worker.connection.close()
    for worker in executor.workers:
        worker.process.join(within(60))
        assert worker.process.exitcode == 0
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("end", [tell_to_end, leave])
def test_processes_side_by_side_save_when_they_are_told_to_end_or_left_alone(end, tmp_path):
    """Nothing else would have saved so soon."""
    given = {"model": "er", "backbone": "mlp", "n_tasks": 1, "preset": "none"}
    jobs, told = [make_job({**given, "seed": seed}) for seed in (0, 1)], []
    places = {job: tmp_path / str(job.config.seed) for job in jobs}
    for path in places.values():
        path.mkdir()

    def interrupt(job, fields):
        told.append(job if "step" in fields else None)
        if set(jobs) <= set(told):
            end(executor)

    executor = LocalProcesses(2, "cpu", threads=1, place=lambda job: SlowUntilTold(places[job]))
    with pytest.raises(KeyboardInterrupt):
        list(executor.run(jobs, interrupt))
    for job in jobs:
        assert len(Checkpoints(places[job]).paths) == 1
        resumed = learn(job, None, torch.device("cpu"), (), Checkpoints(places[job])).record
        assert but_for_seconds(resumed) == but_for_seconds(learn(job, None, torch.device("cpu")).record)


# -- the command line, in processes of their own

SETTINGS = ("--model", "samc", "--dataset", "npz:tiny.npz", "--n-tasks", "3", "--backbone", "mlp", "--device", "cpu")
QUICK = (*SETTINGS, "--checkpoint-every", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny data set and a run that nobody has interrupted."""
    folder = tmp_path_factory.mktemp("killed")
    x = np.random.default_rng(0).integers(0, 256, (480, 8, 8, 3), dtype=np.uint8)
    np.savez(folder / "tiny.npz", x=x, y=np.arange(480) % 6)
    assert finish(begin(folder, *QUICK, "--out", "whole"))[0] == 0
    return folder


def begin(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "samc", "run", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate(timeout=within(120))
    return process.returncode, out, without_progress(err)


def wait_for(process, pattern, folder, count=1):
    """Until there are so many such files in a folder, or the process has ended."""
    while process.poll() is None and len(list(folder.glob(pattern))) < count:
        time.sleep(0.002)


def whole_files(folder):
    """What a kill in the middle of a write leaves has another name, which begins with a dot."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def left(folder):
    """What a run has written, but for its seconds, which the page and the lines on its progress are full of."""
    record = json.loads((folder / "record.json").read_text())
    assert record.pop("seconds")["total"] > 0
    timed = {"record.json", "report.html", "progress.jsonl"}
    content = whole_files(folder)
    # the page comes last, and a kill after the record costs nothing else: samc report makes it again
    assert {*content, "report.html"} == {"memory.samc", "learner.safetensors", "recollection.npz", *timed}
    return record, {name: held for name, held in content.items() if name not in timed}


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_record_and_memory(kill, place, samc_here):
    """SIGKILL at a random moment after the folder is there; every step is saved, so that many fall into a save."""
    name, moment = f"killed-{kill}", random.Random(kill)
    process = begin(place, *QUICK, "--out", name)
    wait_for(process, "run.json", place / name)
    time.sleep(moment.random() * 1.2)
    process.kill()
    finish(process)
    if moment.random() < 0.5 and (place / name / "run.json").exists():  # and once more
        process = begin(place, "--resume", name)
        wait_for(process, "checkpoint-*", place / name, 3)
        time.sleep(moment.random())
        process.kill()
        finish(process)
    gone_on(place / name, lambda name: samc_here("run", "--resume", name))
    assert left(place / name) == left(place / "whole")
    code, _, err = samc_here("run", "--resume", name)
    assert (code, err) == (
        2,
        f"samc: {name} is finished, there is nothing to go on with; samc report {name} shows it\n",
    )


@pytest.fixture
def samc_here(command, place, monkeypatch):
    """Calls the command line in this process, in the folder with the tiny data set."""
    monkeypatch.chdir(place)
    return command


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_says_how_to_go_on(number, place, samc_here):
    name = f"told-{number.name}"
    process = begin(place, *QUICK, "--out", name)
    wait_for(process, "checkpoint-*", place / name)
    process.send_signal(number)
    code, _, err = finish(process)
    assert code == 128 + number
    assert err.startswith("samc: stopped; saved at task ")
    assert err.endswith(f"; go on with: samc run --resume {name}\n")
    assert err.count("\n") == 1
    code, _, err = samc_here("run", *QUICK, "--out", name)
    assert code == 2
    assert err == f"samc: {name} holds a run that was interrupted; go on with: samc run --resume {name}\n"
    for wrong, why in (
        (("--lr", "0.5"), f"{name} was begun with --lr 0.03, not 0.5; leave --lr out, or begin another run"),
        (("--seeds", "0-1"), f"--resume {name} has its seeds and its place; leave --seeds and --out out"),
        (("--out", "other"), f"--resume {name} has its seeds and its place; leave --seeds and --out out"),
        (("--diagnose",), f"{name} was begun without --diagnose; leave it as it was"),
    ):
        code, _, err = samc_here("run", "--resume", name, *wrong)
        assert (code, err) == (2, f"samc: {why}\n"), wrong
    assert finish(begin(place, "--resume", name, *SETTINGS))[::2] == (0, "")
    assert left(place / name) == left(place / "whole")


@pytest.mark.slow
def test_several_seeds_go_on_with_the_same_command(samc_here, place, monkeypatch):
    how = ("run", *QUICK, "--n-tasks", "2", "--seeds", "0-2", "--out")
    assert samc_here(*how, "seeds-whole")[0] == 0
    step, count = samc.SAMC.observe, []

    def observe(self, x, y, task):
        count.append(self.seed)
        if len(count) == 40 + 30:
            signal.raise_signal(signal.SIGTERM)
        return step(self, x, y, task)

    monkeypatch.setattr(samc.SAMC, "observe", observe)
    code, _, err = samc_here(*how, "seeds")
    assert code == 143
    assert err == "samc: stopped; saved at task 2, step 10; go on with: samc run --resume seeds\n"
    code, _, err = samc_here(*how, "seeds", "--lr", "0.3")
    assert (code, "already holds a run" in err or "was begun with --lr" in err) == (2, True)
    code, out, _ = samc_here(*how, "seeds")
    assert code == 0
    assert "seed 0: there already" in out
    assert [count.count(seed) for seed in range(3)] == [40, 40, 40]
    for seed in range(3):
        assert left(place / "seeds" / f"seed{seed}") == left(place / "seeds-whole" / f"seed{seed}")
    code, out, _ = samc_here(*how, "seeds")
    assert (code, "seed 0, 1, 2: there already" in out) == (0, True)
    assert samc_here("run", "--resume", "seeds")[0] == 2


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_end_costs_nothing(samc_here, place, monkeypatch):
    write = files.write_through

    def no_learner(path, content):
        if path.parent == Path("full") and "learner" in path.name:
            full()
        write(path, content)

    monkeypatch.setattr(files, "write_through", no_learner)
    code, out, err = samc_here("run", *QUICK, "--out", "full")
    assert code == 2
    assert err.startswith("samc: cannot write full/learner.safetensors: No space left on device; free some space and ")
    assert err.endswith("go on with: samc run --resume full\n")
    assert "ACC %" in out  # the figures still come to the screen
    assert not (place / "full" / "record.json").exists()
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert samc_here("run", "--resume", "full")[0] == 0
    assert left(place / "full") == left(place / "whole")


def test_what_cannot_be_gone_on_with(samc_here, place, monkeypatch):
    code, _, err = samc_here("run", "--resume", "nowhere")
    assert (code, err) == (
        2,
        "samc: nowhere holds no run that has been begun; give the --out of one that was interrupted\n",
    )
    (place / "odd").mkdir(exist_ok=True)
    (place / "odd" / "run.json").write_text("{}")
    code, _, err = samc_here("run", "--resume", "odd")
    assert (code, err.count("\n")) == (2, 1)
    assert "does not say what run it is" in err


@pytest.fixture
def unsaved(samc_here, place):
    """The folder of a run that was killed before it had saved anything, and its data, which are gone by now."""
    x = np.zeros((8, 8, 8, 3), np.uint8)
    np.savez(place / "zeros.npz", x=x, y=np.arange(8) % 4, x_test=x, y_test=np.arange(8) % 4)
    folder = place / "unsaved"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    Unfinished(configure({"model": "er", "backbone": "mlp", "dataset": "npz:zeros.npz", "n_tasks": 2})[0], False, None,
               "cpu", 1, "60s").write(folder)  # fmt: skip
    return folder


@pytest.mark.parametrize("mistake", [("--checkpoint-every", "0"), ("--checkpoint-every", ""), ("--log", "nothing"), ()])
def test_a_mistake_when_a_run_goes_on_is_not_kept_and_costs_nothing(samc_here, place, unsaved, mistake):
    before = (unsaved / "run.json").read_bytes()
    if not mistake:
        (place / "zeros.npz").rename(place / "away.npz")
    code, _, err = samc_here("run", "--resume", "unsaved", *mistake)
    assert (code, err.count("\n")) == (2, 1)
    assert (unsaved / "run.json").read_bytes() == before
    if not mistake:
        (place / "away.npz").rename(place / "zeros.npz")
    assert samc_here("run", "--resume", "unsaved")[0] == 0
    assert (unsaved / "record.json").exists()


@pytest.mark.parametrize("name", ["learner", "record"])
def test_where_nothing_was_saved_a_disk_that_was_full_at_the_end_is_no_hindrance(samc_here, place, name, monkeypatch):
    """The same command again, as the line says."""
    x, write = np.zeros((8, 8, 8, 3), np.uint8), files.write_through
    np.savez(place / "zeros.npz", x=x, y=np.arange(8) % 4, x_test=x, y_test=np.arange(8) % 4)
    how = ("run", "--model", "er", "--backbone", "mlp", "--dataset", "npz:zeros.npz", "--out", f"hindered-{name}")

    def no_space(path, content):
        if path.name.startswith(f".{name}"):
            full()
        write(path, content)

    monkeypatch.setattr(files, "write_through", no_space)
    code, _, err = samc_here(*how)
    assert (code, "No space left on device; free some space" in err) == (2, True)
    assert not (place / f"hindered-{name}").exists()
    monkeypatch.setattr(files, "write_through", write)
    assert samc_here(*how)[0] == 0


def test_a_run_that_was_killed_when_its_record_was_written_is_finished(samc_here, place, unsaved):
    begun = (unsaved / "run.json").read_bytes()
    assert samc_here("run", "--resume", "unsaved")[0] == 0
    record = (unsaved / "record.json").read_bytes()
    (unsaved / "run.json").write_bytes(begun)
    (unsaved / "checkpoint-000001.safetensors").write_bytes(b"what it went on from")
    shutil.rmtree(place / "after", ignore_errors=True)
    code, _, err = samc_here("continue", "unsaved", "--dataset", "npz:zeros.npz", "--out", "after")
    assert (code, err) == (0, "")
    code, _, err = samc_here("run", "--resume", "unsaved")
    assert (code, err) == (
        2, "samc: unsaved is finished, there is nothing to go on with; samc report unsaved shows it\n"
    )  # fmt: skip
    assert not (unsaved / "run.json").exists()
    assert not list(unsaved.glob("checkpoint-*"))
    assert (unsaved / "record.json").read_bytes() == record


@pytest.mark.slow
def test_a_run_of_another_version_is_refused_and_two_processes_do_not_share_one(samc_here, place):
    process = begin(place, *QUICK, "--out", "older")
    wait_for(process, "checkpoint-*", place / "older", 2)
    process.send_signal(signal.SIGSTOP)  # it is there, and does nothing meanwhile
    try:
        code, _, err = samc_here("run", "--resume", "older")
        assert (code, err) == (2, "samc: older is being learnt by another process; wait for it, or stop it\n")
    finally:
        process.kill()
        finish(process)
    path = place / "older" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"samc": "0.0.1"}))
    code, _, err = samc_here("run", "--resume", "older")
    assert code == 2
    assert err.startswith("samc: older was begun with samc 0.0.1, this is samc ")
    assert err.endswith("; go on with that version, or remove older and begin again\n")


SHORTER = {"eec": ("--encoder-steps", "2"), "ewc": ("--fisher-images", "5")}


def all_left(folder):
    """The same of any method: every file but those with seconds in them, and the record without."""
    record = json.loads((folder / "record.json").read_text())
    del record["seconds"]
    timed = ("record.json", "progress.jsonl", "report.html")
    return record, {name: content for name, content in whole_files(folder).items() if name not in timed}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_survives_a_kill(name, place, samc_here):
    """What is not killed is learnt in this process: another would take seconds to start."""
    given = ("--model", name, "--preset", "none", "--lr", "0.01", *SHORTER.get(name, ()))
    how = (*QUICK, "--n-tasks", "2", *given)
    assert samc_here("run", *how, "--out", f"{name}-whole")[0] == 0
    process = begin(place, *how, "--out", f"{name}-killed")
    wait_for(process, "checkpoint-*", place / f"{name}-killed", 1 + len(name) % 2)
    time.sleep(random.Random(name).random() / 4)
    process.kill()
    finish(process)
    gone_on(place / f"{name}-killed", lambda killed: samc_here("run", "--resume", killed))
    assert all_left(place / f"{name}-killed") == all_left(place / f"{name}-whole")


WRITES = (
    "run.json",
    "checkpoint-",
    "memory.samc",
    "recollection.npz",
    "learner.safetensors",
    "record.json",
    "report.html",
)
# everything that a run writes


def inject(monkeypatch, name, fault):
    """Have every write of such a file fail: before it begins, in its middle, or when it is to get its name."""
    write, move, link = files.write_through, os.replace, os.link

    def refuse(path, target, act):
        if Path(target).name.startswith(name):
            full()
        act(path, target)

    def faulty(path, content):
        if not path.name.startswith(f".{name}"):
            write(path, content)
        else:
            (full if fault == "disk full" else short)(path, content)

    if fault == "rename refused":
        monkeypatch.setattr(os, "replace", lambda path, target: refuse(path, target, move))
        monkeypatch.setattr(os, "link", lambda path, target: refuse(path, target, link))
    else:
        monkeypatch.setattr(files, "write_through", faulty)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk full", "short write", "rename refused"])
@pytest.mark.parametrize("name", WRITES)
def test_no_fault_in_any_write_of_a_run_loses_what_was_saved(name, fault, samc_here, place, monkeypatch):
    """Refused at the beginning, gone on without, or stopped at the end with a way to go on: by what is written."""
    folder = place / f"{name}-{fault.replace(' ', '-')}"
    inject(monkeypatch, name, fault)
    code, out, err = samc_here("run", *QUICK, "--out", folder.name)
    lost = "No space left on device"
    if name == "run.json":
        assert (code, err) == (2, f"samc: cannot write to {folder.name}: {lost}; choose another --out\n")
        assert not folder.exists()
        return
    if name == "checkpoint-":
        assert (code, f"no checkpoint could be written to {folder} ({lost}); the run went on" in out) == (0, True)
    elif name == "report.html":
        assert (code, "no report was written (" in out, (folder / name).exists()) == (0, True, False)
    else:
        assert (code, err.count("\n"), lost in err) == (2, 1, True)
        assert "ACC %" in out  # the figures still come to the screen
        assert not (folder / "record.json").exists()
        assert len(Checkpoints(folder).paths) == 2
        monkeypatch.undo()
        monkeypatch.chdir(place)
        assert samc_here("run", "--resume", folder.name)[0] == 0
    assert [path.name for path in folder.glob(".*")] == []
    assert left(folder) == left(place / "whole")
