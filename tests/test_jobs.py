"""Jobs, the store of their records, and the executors of this machine: nothing is lost, nothing is learnt twice."""

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from record_makers import of_job
from samc.config import RunConfig, with_default
from samc.errors import DataError, OutputError
from samc.experiments import local
from samc.experiments.jobs import Job, Outcome, defaults_of, learn, make_job
from samc.experiments.local import InProcess, LocalProcesses, pickled_end
from samc.experiments.perform import Listener, perform
from samc.experiments.pictures import PICTURES
from samc.experiments.record_store import RecordStore, is_of_job
from samc.files import CLAIM
from samc.learners.samc import SAMC
from samc.learners.settings import MemorySettings
from samc.memory import EpisodicMemory

CPU = torch.device("cpu")
FILE = Path(tempfile.gettempdir()) / f"samc-tiny-{os.getpid()}.npz"
ABSENT = object()
TINY = {"dataset": f"npz:{FILE}", "n_tasks": 2}


@pytest.fixture(scope="module", autouse=True)
def tiny_data():
    """A stream that is quickly read and learnt, in this process and in others."""
    x = np.random.default_rng(0).integers(0, 256, (80, 10, 10, 3), dtype=np.uint8)
    np.savez(FILE, x=x, y=np.arange(80) % 4)
    yield
    FILE.unlink()


def tiny(model="finetune", seed=0, **settings):
    return make_job({"model": model, "seed": seed, **TINY, **settings})


def without_seconds(record):
    return {name: value for name, value in vars(record).items() if name != "seconds"}


@pytest.fixture(scope="module")
def outcome():
    """A finished run, for those who need any."""
    return learn(tiny(), None, CPU)


class FakeExecutor:
    """Learns nothing: every job ends with what `end` gives for it, as if it were its own."""

    def __init__(self, end):
        self.end, self.jobs = end, []

    def run(self, jobs, on_progress):
        for job in jobs:
            self.jobs.append(job)
            yield job, adapted(self.end(job), job)


def adapted(end, job):
    """An outcome as that job's would look."""
    return end if isinstance(end, Exception) else Outcome(replace(end.record, config=job.config.as_dict()))


def test_a_job_has_a_place_of_its_own():
    jobs = [
        tiny(), tiny(seed=1), tiny("gem"), tiny("gem", memory_strength=0.1), tiny("gem", tested_on="held-out"),
        replace(tiny(), diagnose=True), replace(tiny(), pictures=True),
    ]  # fmt: skip
    assert len({job.name for job in jobs}) == len(jobs)
    assert tiny(preset="none").name == tiny().name  # where a value came from does not matter
    assert tiny(seed=7).name == tiny().name.removesuffix("seed0") + "seed7"
    assert make_job({"model": "finetune"}).name.startswith("split-synthetic/finetune-")


@pytest.mark.slow
def test_files_next_to_the_record():
    job = tiny("samc", preset="paper", autoencoder_steps=1)
    end = learn(replace(job, keep_memory=True, pictures=True, diagnose=True), None, CPU)
    assert set(end.files) == {"memory.samc", "learner.safetensors", "pictures.npz", "recollection.npz"}
    assert end.record.diagnosis is not None
    assert without_seconds(replace(end.record, diagnosis=None)) == without_seconds(learn(job, None, CPU).record)


@pytest.mark.slow
def test_kept_memories_are_those_of_the_learner(tmp_path):
    (tmp_path / "memory.samc").write_bytes(
        learn(replace(tiny("gem"), keep_memory=True), None, CPU).files["memory.samc"]
    )
    assert sum(EpisodicMemory.load(tmp_path / "memory.samc").images_per_task.values()) == 20


@pytest.mark.slow
def test_held_out_images_are_training_images_that_are_not_learnt_from():
    tested, held = (learn(tiny(tested_on=where), None, CPU).record for where in ("test", "held-out"))
    assert tested.fingerprint["training_images"] == [32, 32]
    assert held.fingerprint["training_images"] == [28, 28]
    assert held.fingerprint["test_images"] == [4, 4]
    assert "tenth of the training images" in held.fingerprint["source"]


def test_the_store_gives_back_what_it_keeps(tmp_path, outcome):
    store = RecordStore(tmp_path / "store")
    assert store.find(tiny()) is None
    store.keep(tiny(), Outcome(outcome.record, {"memory.samc": b"bytes"}))
    assert store.find(tiny()) == outcome.record
    assert (store.place(tiny()) / "memory.samc").read_bytes() == b"bytes"
    assert store.find(tiny(seed=1)) is None


def test_names_outlive_new_settings(tmp_path, outcome):
    """A setting that is added keeps its default out of the names; a record of other settings is not the job's."""
    written = {"n_epochs", "batch_size", "buffer_size", "accounting", "class_order", "tested_on"}
    assert all(getattr(tiny().config, name) == getattr(RunConfig(), name) for name in written)
    older = replace(outcome.record, config={k: v for k, v in outcome.record.config.items() if k != "tested_on"})
    RecordStore(tmp_path).keep(tiny(), Outcome(older))
    assert RecordStore(tmp_path).find(tiny()) == older
    RecordStore(tmp_path).keep(tiny(), Outcome(replace(older, config={**older.config, "batch_size": 20})))
    assert RecordStore(tmp_path).find(tiny()) is None


def test_a_record_outlives_a_default_that_changes(tmp_path, monkeypatch):
    """Names leave defaults out, so that another default is another name; the record is found by what it states."""
    job, kept = tiny("gem"), of_job(tiny("gem"))
    place = RecordStore(tmp_path).place(job)
    RecordStore(tmp_path).keep(job, Outcome(kept))
    monkeypatch.setattr(Job, "name", property(lambda job: f"renamed/seed{job.config.seed}"))
    store = RecordStore(tmp_path)
    assert store.locate(job) == (place, kept)
    assert store.find(tiny("gem", seed=1)) is None
    assert store.find(tiny("gem", lr=0.5)) is None
    other = of_job(tiny("gem", seed=1))
    RecordStore(tmp_path).keep(tiny("gem", seed=1), Outcome(other))  # by another process, meanwhile
    assert store.find(tiny("gem", seed=1)) == other


GEM = {"model": "gem", "dataset": "split-synthetic", "seed": 0}


@pytest.mark.parametrize(
    ("stated", "settings", "found"),
    [
        ({}, {}, True),
        ({"preset": "paper"}, {}, True),
        ({"seed": 1}, {}, False),
        ({"model": "er"}, {}, False),
        ({"lr": 0.5}, {}, False),
        ({"lr": 0.5}, {"lr": 0.5}, True),
        # a setting that the record does not state was at what is its default now
        ({"tested_on": ABSENT}, {}, True),
        ({"tested_on": ABSENT}, {"tested_on": "held-out"}, False),
        ({"memory_strength": None}, {"memory_strength": 0.5}, True),
        ({"memory_strength": None}, {"memory_strength": 0.1}, False),
        ({"n_tasks": None}, {"n_tasks": 2}, False),
        ({"n_tasks": 2}, {}, False),
        # one that the job does not have
        ({"gone": None}, {}, True),
        ({"gone": 3}, {}, False),
        # a run from Python states no stream, and may be of any
        ({"dataset": ABSENT}, {}, False),
        ({"dataset": None}, {}, False),
    ],
)
def test_what_a_record_states_is_the_job_s(tmp_path, stated, settings, found):
    made = of_job(make_job(GEM))
    config = {name: value for name, value in {**made.config, **stated}.items() if value is not ABSENT}
    (tmp_path / "anywhere").mkdir()
    replace(made, config=config).save(tmp_path / "anywhere")
    job = make_job({**GEM, **settings})
    assert (RecordStore(tmp_path).find(job) is not None) == found
    assert is_of_job(replace(made, config=config), job) == found


@dataclass(frozen=True, kw_only=True)
class ThirtySettings(SAMC.Settings):
    """SAMC's, with a number where other methods have 0, and another default than it had."""

    replay_size: int = with_default(MemorySettings, "replay_size", 30)
    keeps: str = with_default(SAMC.Settings, "keeps", "sample", before="newest")


@pytest.mark.parametrize(("stated", "size"), [(0, 0), (30, 30), (7, 7), (ABSENT, 0)])
def test_nought_is_a_value_where_the_default_is_another_number(stated, size):
    jobs = {n: Job(RunConfig(model="samc", settings=ThirtySettings(replay_size=n))) for n in (0, 30, 7)}
    made = of_job(jobs[30])
    config = {name: value for name, value in {**made.config, "replay_size": stated}.items() if value is not ABSENT}
    # a record that does not state it is of a time when there was no number
    assert {n for n, job in jobs.items() if is_of_job(replace(made, config=config), job)} == {size}
    assert RunConfig.from_dict(config, ThirtySettings).settings.replay_size == size
    assert len({job.name for job in jobs.values()}) == 3


def test_a_record_of_before_a_default_changed_is_of_what_it_was():
    job, other = (Job(RunConfig(model="samc", settings=ThirtySettings(keeps=keeps))) for keeps in ("newest", "sample"))
    made = of_job(job)
    for gap in ({"keeps": None}, {}):
        old = replace(made, config={**{k: v for k, v in made.config.items() if k != "keeps"}, **gap})
        assert (is_of_job(old, job), is_of_job(old, other)) == (True, False)
        assert RunConfig.from_dict(old.config, ThirtySettings) == job.config


def test_a_none_or_nought_that_is_given_is_over_preset_and_default():
    assert ThirtySettings.made({}, "samc").replay_size == 30
    assert ThirtySettings.made({"replay_size": 0}, "samc").replay_size == 0
    assert ThirtySettings.made({"replay_size": 0}, "samc", {"replay_size": 30}).replay_size == 0
    assert ThirtySettings.made({"memory_bytes": None}, "samc", {"memory_bytes": "2KB"}).memory_bytes is None


SETTINGS = st.fixed_dictionaries(
    {"seed": st.integers(0, 1)},
    optional={
        "lr": st.sampled_from((0.1, 0.5)),
        "n_tasks": st.sampled_from((2, 3)),
        "memory_strength": st.sampled_from((0.5, 0.1)),
        "codec": st.sampled_from(("raw", "jpeg:5")),
        "preset": st.sampled_from(("auto", "none")),
    },
)


@given(SETTINGS, SETTINGS, st.data())
def test_a_record_is_of_the_jobs_with_its_settings_and_of_no_other(first, second, data):
    job, other = make_job({**GEM, **first}), make_job({**GEM, **second})
    made, defaults = of_job(job), defaults_of(job.config)
    assert is_of_job(made, job)
    assert is_of_job(made, other) == (replace(job.config, preset="auto") == replace(other.config, preset="auto"))
    at_default = sorted(
        name
        for name, value in made.config.items()
        if value == defaults[name] and name not in ("model", "dataset", "seed")
    )
    left_out = data.draw(st.sets(st.sampled_from(at_default)))
    shorter = replace(made, config={name: value for name, value in made.config.items() if name not in left_out})
    assert is_of_job(shorter, job)
    assert is_of_job(shorter, other) == is_of_job(made, other)


def test_a_run_elsewhere_stands_for_jobs_with_the_same_extras(tmp_path):
    plain = make_job(GEM)
    diagnosed, pictured = replace(plain, diagnose=True), replace(plain, pictures=True)
    folder = tmp_path / "anywhere"
    folder.mkdir()
    of_job(plain).save(folder)
    assert [RecordStore(tmp_path).find(job) is not None for job in (plain, diagnosed, pictured)] == [True, False, False]
    (folder / PICTURES).touch()
    assert [RecordStore(tmp_path).find(job) is not None for job in (plain, diagnosed, pictured)] == [False, False, True]
    (folder / PICTURES).unlink()
    replace(of_job(plain), diagnosis={"tasks": []}).save(folder, replace=True)
    assert [RecordStore(tmp_path).find(job) is not None for job in (plain, diagnosed, pictured)] == [False, True, False]


def test_a_damaged_record_is_reported_in_its_place_and_passed_over_elsewhere(tmp_path):
    store, job = RecordStore(tmp_path), make_job(GEM)
    for folder in (tmp_path / "damaged", tmp_path / "whole"):
        folder.mkdir()
    (tmp_path / "damaged" / "record.json").write_text("{}")
    of_job(job).save(tmp_path / "whole")
    assert store.find(job) == of_job(job)
    store.place(job).mkdir(parents=True)
    (store.place(job) / "record.json").write_text("{}")
    with pytest.raises(DataError, match="is not a run's record"):
        store.find(job)


def test_a_store_that_cannot_be_written_is_one_line(tmp_path, outcome):
    (tmp_path / "store").write_text("a file")
    with pytest.raises(OutputError, match="cannot write to"):
        RecordStore(tmp_path / "store").keep(tiny(), outcome)
    with pytest.raises(OutputError, match="choose another --out"), RecordStore(tmp_path / "store").claim(tiny()):
        pass


@pytest.mark.slow
def test_a_claim_is_one_process_s_and_ends_with_it(tmp_path):
    store = RecordStore(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from samc.experiments.record_store import RecordStore; "
        "from samc.experiments.jobs import make_job; "
        f"job = make_job({ {'model': 'finetune', 'seed': 0, **TINY}!r}); "
        f"claim = RecordStore(Path({str(tmp_path)!r})).claim(job); print(claim.__enter__(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with store.claim(tiny()) as mine:
            assert not mine
        with store.claim(tiny(seed=1)) as mine:
            assert mine
        other.kill()
    with store.claim(tiny()) as mine:
        assert mine
    assert not list(tmp_path.rglob(CLAIM))


def test_finished_jobs_are_not_learnt_again_and_failed_ones_are(tmp_path, outcome):
    store, jobs = RecordStore(tmp_path), [tiny(seed=seed) for seed in range(3)]
    first = FakeExecutor(lambda job: DataError("spoilt") if job.config.seed == 1 else outcome)
    failures = perform([*jobs, jobs[0]], store, first, Listener())
    assert first.jobs == jobs
    assert {job.config.seed: str(error) for job, error in failures.items()} == {1: "spoilt"}
    second = FakeExecutor(lambda job: outcome)
    assert perform(jobs, store, second, Listener()) == {}
    assert second.jobs == [jobs[1]]


def test_what_another_process_learns_is_left_to_it_or_taken_over(tmp_path, outcome):
    store, told = RecordStore(tmp_path), []

    class Waiting(Listener):
        def elsewhere(self, jobs):
            told.append([job.config.seed for job in jobs])

    claims = {seed: RecordStore(tmp_path).claim(tiny(seed=seed)) for seed in (0, 1)}
    assert all(claim.__enter__() for claim in claims.values())

    def sleep(seconds):
        """Meanwhile the other process finishes one of its jobs, and is gone before the other one."""
        if len(told) == 1:
            store.keep(tiny(seed=0), outcome)
        for claim in claims.values():
            claim.__exit__(None, None, None)
        claims.clear()

    executor = FakeExecutor(lambda job: outcome)
    assert perform([tiny(seed=seed) for seed in range(3)], store, executor, Waiting(), sleep) == {}
    assert [job.config.seed for job in executor.jobs] == [2, 1]
    assert told == [[0, 1]]


def test_an_executor_is_started_for_work_only(tmp_path, outcome):
    """Not once a second, with all that it brings up, while another process has what is left."""
    store, executor, waits = RecordStore(tmp_path), FakeExecutor(lambda job: outcome), []
    executor.run, runs = (lambda jobs, on_progress: runs.append(1) or FakeExecutor.run(executor, jobs, on_progress)), []
    claim = RecordStore(tmp_path).claim(tiny())
    assert claim.__enter__()

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            claim.__exit__(None, None, None)

    assert perform([tiny()], store, executor, Listener(), sleep) == {}
    assert (len(waits), len(runs)) == (3, 1)


def test_an_executor_is_closed_if_a_record_cannot_be_written(tmp_path, outcome, monkeypatch):
    closed = []

    class Closing:
        def run(self, jobs, on_progress):
            try:
                for job in jobs:
                    yield job, outcome
            finally:
                closed.append(bool(list(tmp_path.rglob(CLAIM))))

    monkeypatch.setattr(RecordStore, "keep", lambda *_: (_ for _ in ()).throw(OutputError("full")))
    with pytest.raises(OutputError, match="full"):
        perform([tiny(), tiny(seed=1)], RecordStore(tmp_path), Closing(), Listener())
    assert closed == [True]


def test_a_claim_that_has_been_removed_meanwhile_is_no_claim(tmp_path, monkeypatch):
    """A second process opens the file, the first removes it, a third makes a new one: only the third has it."""
    import fcntl

    store, lock = RecordStore(tmp_path), fcntl.flock

    def late(file, how):
        (store.place(tiny()) / CLAIM).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with store.claim(tiny()) as mine:
        assert not mine
    monkeypatch.undo()
    with store.claim(tiny()) as mine:
        assert mine


@pytest.mark.slow
def test_a_process_that_dies_while_it_is_idle_is_replaced():
    executor = LocalProcesses(2, "cpu", threads=1)

    def jobs():
        yield from (tiny(seed=0), tiny(seed=1))
        idle = next(worker for worker in executor.workers if worker.job is None)
        idle.process.kill()
        idle.process.join()
        yield tiny(seed=2)

    ends = dict(executor.run(jobs(), None))
    assert [type(ends[tiny(seed=seed)]) for seed in range(3)] == [Outcome] * 3


@pytest.mark.slow
def test_processes_give_the_records_of_one(tmp_path):
    jobs = [tiny(model, seed) for model in ("finetune", "gem") for seed in (0, 1)]
    told = []
    ends = dict(LocalProcesses(2, "cpu", threads=1).run(iter(jobs), lambda job, fields: told.append((job, fields))))
    assert set(ends) == set(jobs)
    for job, end in InProcess(CPU).run(jobs, None):
        assert without_seconds(ends[job].record) == without_seconds(end.record)
    assert {job for job, _ in told} == set(jobs)
    assert any("acc" in fields for _, fields in told)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_an_error_in_a_process_is_the_job_s_end_and_no_other_s(tmp_path):
    spoilt = Job(replace(tiny().config, dataset=f"npz:{tmp_path / 'nowhere.npz'}"))
    ends = dict(LocalProcesses(1, "cpu", threads=1).run([spoilt, tiny()], None))
    assert isinstance(ends[spoilt], DataError)
    assert "nowhere.npz" in str(ends[spoilt])
    assert isinstance(ends[tiny()], Outcome)


def killer(times):
    """Kills the process of a job when it tells of its progress, so many times."""
    killed = []

    def watch(executor):
        def on_progress(job, fields):
            if "total" in fields and len(killed) < times and job.config.seed == 0:
                worker = next(worker for worker in executor.workers if worker.job == job)
                os.kill(worker.process.pid, signal.SIGKILL)
                killed.append(job)

        return on_progress

    return watch


@pytest.mark.slow
def test_a_process_that_dies_costs_nothing_but_time():
    executor = LocalProcesses(2, "cpu", threads=1)
    ends = dict(executor.run([tiny(seed=0), tiny(seed=1)], killer(1)(executor)))
    for job, end in ends.items():
        assert without_seconds(end.record) == without_seconds(learn(job, None, CPU).record)
    assert len(ends) == 2


class OnThreads(LocalProcesses):
    """Threads instead of processes, whose jobs find memory as long as there are not too many of them."""

    fit: int

    def start_worker(self):
        ours, theirs = multiprocessing.Pipe()

        def serve():
            with suppress(EOFError):
                while True:
                    job, *_ = pickle.loads(theirs.recv_bytes())
                    busy = sum(worker.job is not None for worker in self.workers)
                    self.seen.append(busy)
                    end = torch.OutOfMemoryError("none left") if busy > self.fit else job.config.seed
                    theirs.send_bytes(pickle.dumps(("end", end)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.terminate, thread.exitcode = (lambda: None), 0
        thread.start()
        self.workers.append(local.Worker(thread, ours))
        return self.workers[-1]


@pytest.mark.parametrize(("fit", "lost"), [(5, 0), (2, 0), (1, 0), (0, 1)])
def test_a_job_that_finds_no_memory_is_learnt_beside_fewer(fit, lost):
    executor = OnThreads(4, "cpu")
    executor.fit, executor.seen = fit, []
    jobs = [tiny(seed=seed) for seed in range(6)]
    ends = list(executor.run(iter(jobs), None))
    assert sorted(job.config.seed for job, _ in ends) == list(range(6))
    if lost:  # alone, none of them finds any
        assert all(isinstance(end, torch.OutOfMemoryError) for _, end in ends)
    else:
        assert all(end == job.config.seed for job, end in ends)
    assert max(executor.seen) <= 4


@pytest.mark.slow
def test_a_job_whose_processes_die_is_given_up():
    executor = LocalProcesses(1, "cpu", threads=1)
    ends = dict(executor.run([tiny(seed=0), tiny(seed=1)], killer(9)(executor)))
    assert "ended 2 times with code -9; out of memory, most likely: try fewer --jobs" in str(ends[tiny(seed=0)])
    assert isinstance(ends[tiny(seed=1)], Outcome)


@pytest.mark.slow
def test_an_interrupt_leaves_no_process_behind():
    def interrupt(job, fields):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(LocalProcesses(2, "cpu", threads=1).run([tiny(seed=0), tiny(seed=1)], interrupt))
    deadline = time.monotonic() + local.CLOSING_SECONDS
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not multiprocessing.active_children()


def test_errors_that_cannot_travel_are_told_in_words():
    import pickle

    class OddError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def work():
        raise OddError("this", "that")

    kind, error = pickle.loads(pickled_end(work))
    assert kind == "end"
    assert str(error) == "OddError: this and that"


def test_a_record_in_the_store_is_whole(tmp_path, outcome):
    store = RecordStore(tmp_path)
    place = store.place(tiny())
    place.mkdir(parents=True)
    (place / "record.json").touch()  # the name is taken before the content arrives
    assert store.find(tiny()) is None
    store.keep(tiny(), outcome)
    assert json.loads((place / "record.json").read_text())["acc"] == outcome.record.acc


@pytest.mark.slow
def test_a_finished_run_needs_no_room_for_temporary_files(monkeypatch, tmp_path):
    """A full or missing $TMPDIR once cost a finished run its record."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    job = make_job({"model": "er", "n_tasks": 1, "samples_per_task": 10, "lr": 0.01})
    outcome = learn(replace(job, keep_memory=True), None, torch.device("cpu"))
    assert set(outcome.files) == {"memory.samc", "learner.safetensors", "recollection.npz"}
