"""Jobs, the shelf that their records lie on, and the engine of processes: nothing is lost, nothing is learnt twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from samc.config import RunConfig
from samc.errors import DataError, OutputError
from samc.experiments import local
from samc.experiments.jobs import Job, Outcome, job, learn
from samc.experiments.local import Alone, Local, attempt
from samc.experiments.perform import Audience, perform
from samc.experiments.shelf import CLAIM, Shelf
from samc.memory import EpisodicMemory

CPU = torch.device("cpu")
FILE = Path(tempfile.gettempdir()) / f"samc-tiny-{os.getpid()}.npz"
TINY = {"dataset": f"npz:{FILE}", "n_tasks": 2}


@pytest.fixture(scope="module", autouse=True)
def tiny_data():
    """A stream that is quickly read and learnt, in this process and in others."""
    x = np.random.default_rng(0).integers(0, 256, (80, 10, 10, 3), dtype=np.uint8)
    np.savez(FILE, x=x, y=np.arange(80) % 4)
    yield
    FILE.unlink()


def tiny(model="finetune", seed=0, **settings):
    return job({"model": model, "seed": seed, **TINY, **settings})


def figures(record):
    """All of a record but its seconds."""
    return {name: value for name, value in vars(record).items() if name != "seconds"}


@pytest.fixture(scope="module")
def outcome():
    """A finished run, for those who need any."""
    return learn(tiny(), None, CPU)


class Fake:
    """An engine that learns nothing: every job ends with what it is told, as if it were its own."""

    def __init__(self, end):
        self.end, self.asked = end, []

    def run(self, jobs, news):
        for asked in jobs:
            self.asked.append(asked)
            yield asked, of(asked, self.end(asked))


def of(asked, end):
    """An outcome as that job's would look."""
    return end if isinstance(end, Exception) else Outcome(replace(end.record, config=asked.config.as_dict()))


def test_a_job_has_a_place_of_its_own():
    jobs = [
        tiny(), tiny(seed=1), tiny("gem"), tiny("gem", memory_strength=0.1), tiny("gem", tested_on="held-out"),
        replace(tiny(), diagnose=True), replace(tiny(), pictures=True),
    ]  # fmt: skip
    assert len({asked.name for asked in jobs}) == len(jobs)
    assert tiny(preset="none").name == tiny().name  # where a value came from does not matter
    assert tiny(seed=7).name == tiny().name.removesuffix("seed0") + "seed7"
    assert job({"model": "finetune"}).name.startswith("split-synthetic/finetune-")


def test_files_beside_the_record():
    asked = tiny("samc", autoencoder_steps=1)
    end = learn(replace(asked, keep_memory=True, pictures=True, diagnose=True), None, CPU)
    assert set(end.files) == {"memory.samc", "pictures.npz"}
    assert end.record.diagnosis is not None
    assert figures(replace(end.record, diagnosis=None)) == figures(learn(asked, None, CPU).record)


def test_kept_memories_are_those_of_the_learner(tmp_path):
    (tmp_path / "memory.samc").write_bytes(
        learn(replace(tiny("gem"), keep_memory=True), None, CPU).files["memory.samc"]
    )
    assert sum(EpisodicMemory.load(tmp_path / "memory.samc").images_per_task.values()) == 20


def test_held_out_images_are_training_images_that_are_not_learnt_from():
    tested, held = (learn(tiny(tested_on=where), None, CPU).record for where in ("test", "held-out"))
    assert tested.fingerprint["training_images"] == [32, 32]
    assert held.fingerprint["training_images"] == [28, 28]
    assert held.fingerprint["test_images"] == [4, 4]
    assert "tenth of the training images" in held.fingerprint["source"]


def test_the_shelf_gives_back_what_it_keeps(tmp_path, outcome):
    shelf = Shelf(tmp_path / "shelf")
    assert shelf.find(tiny()) is None
    shelf.keep(tiny(), Outcome(outcome.record, {"memory.samc": b"bytes"}))
    assert shelf.find(tiny()) == outcome.record
    assert (shelf.place(tiny()) / "memory.samc").read_bytes() == b"bytes"
    assert shelf.find(tiny(seed=1)) is None


def test_names_outlive_new_settings_and_not_other_defaults(tmp_path, outcome):
    """A setting that is added keeps its default out of the names; a default that moves leaves old records behind."""
    written = {"n_epochs", "batch_size", "buffer_size", "accounting", "class_order", "tested_on"}
    assert all(getattr(tiny().config, name) == getattr(RunConfig(), name) for name in written)
    shelf = Shelf(tmp_path)
    shelf.keep(tiny(), outcome)
    older = replace(outcome.record, config={k: v for k, v in outcome.record.config.items() if k != "tested_on"})
    shelf.keep(tiny(), Outcome(older))
    assert shelf.find(tiny()) == older
    shelf.keep(tiny(), Outcome(replace(older, config={**older.config, "batch_size": 20})))
    assert shelf.find(tiny()) is None


def test_a_shelf_that_cannot_be_written_is_one_line(tmp_path, outcome):
    (tmp_path / "shelf").write_text("a file")
    with pytest.raises(OutputError, match="cannot write to"):
        Shelf(tmp_path / "shelf").keep(tiny(), outcome)
    with pytest.raises(OutputError, match="choose another --out"), Shelf(tmp_path / "shelf").claim(tiny()):
        pass


def test_a_claim_is_one_process_s_and_ends_with_it(tmp_path):
    shelf = Shelf(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from samc.experiments.shelf import Shelf; "
        "from samc.experiments.jobs import job; "
        f"asked = job({ {'model': 'finetune', 'seed': 0, **TINY}!r}); "
        f"claim = Shelf(Path({str(tmp_path)!r})).claim(asked); print(claim.__enter__(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with shelf.claim(tiny()) as mine:
            assert not mine
        with shelf.claim(tiny(seed=1)) as mine:
            assert mine
        other.kill()
    with shelf.claim(tiny()) as mine:
        assert mine
    assert not list(tmp_path.rglob(CLAIM))


def test_finished_jobs_are_not_learnt_again_and_failed_ones_are(tmp_path, outcome):
    shelf, asked = Shelf(tmp_path), [tiny(seed=seed) for seed in range(3)]
    first = Fake(lambda each: DataError("spoilt") if each.config.seed == 1 else outcome)
    failures = perform([*asked, asked[0]], shelf, first, Audience())
    assert first.asked == asked
    assert {each.config.seed: str(error) for each, error in failures.items()} == {1: "spoilt"}
    second = Fake(lambda each: outcome)
    assert perform(asked, shelf, second, Audience()) == {}
    assert second.asked == [asked[1]]


def test_what_another_process_learns_is_left_to_it_or_taken_over(tmp_path, outcome):
    shelf, told = Shelf(tmp_path), []

    class Listener(Audience):
        def elsewhere(self, jobs):
            told.append([each.config.seed for each in jobs])

    claims = {seed: Shelf(tmp_path).claim(tiny(seed=seed)) for seed in (0, 1)}
    assert all(claim.__enter__() for claim in claims.values())

    def sleep(seconds):
        """Meanwhile the other process finishes one of its jobs, and is gone before the other one."""
        if len(told) == 1:
            shelf.keep(tiny(seed=0), outcome)
        for claim in claims.values():
            claim.__exit__(None, None, None)
        claims.clear()

    engine = Fake(lambda each: outcome)
    assert perform([tiny(seed=seed) for seed in range(3)], shelf, engine, Listener(), sleep) == {}
    assert [each.config.seed for each in engine.asked] == [2, 1]
    assert told == [[0, 1]]


def test_an_engine_is_started_for_work_only(tmp_path, outcome):
    """Not once a second, with all that it brings up, while another process has what is left."""
    shelf, engine, waits = Shelf(tmp_path), Fake(lambda each: outcome), []
    engine.run, runs = (lambda jobs, news: runs.append(1) or Fake.run(engine, jobs, news)), []
    claim = Shelf(tmp_path).claim(tiny())
    assert claim.__enter__()

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            claim.__exit__(None, None, None)

    assert perform([tiny()], shelf, engine, Audience(), sleep) == {}
    assert (len(waits), len(runs)) == (3, 1)


def test_an_engine_is_closed_if_a_record_cannot_be_written(tmp_path, outcome, monkeypatch):
    closed = []

    class Engine:
        def run(self, jobs, news):
            try:
                for asked in jobs:
                    yield asked, outcome
            finally:
                closed.append(bool(list(tmp_path.rglob(CLAIM))))

    monkeypatch.setattr(Shelf, "keep", lambda *_: (_ for _ in ()).throw(OutputError("full")))
    with pytest.raises(OutputError, match="full"):
        perform([tiny(), tiny(seed=1)], Shelf(tmp_path), Engine(), Audience())
    assert closed == [True]


def test_a_claim_that_has_been_removed_meanwhile_is_no_claim(tmp_path, monkeypatch):
    """A second process opens the file, the first removes it, a third makes a new one: only the third has it."""
    import fcntl

    shelf, lock = Shelf(tmp_path), fcntl.flock

    def late(file, how):
        (shelf.place(tiny()) / CLAIM).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with shelf.claim(tiny()) as mine:
        assert not mine
    monkeypatch.undo()
    with shelf.claim(tiny()) as mine:
        assert mine


def test_a_process_that_dies_while_it_is_idle_is_replaced():
    engine = Local(2, "cpu", threads=1)

    def jobs():
        yield from (tiny(seed=0), tiny(seed=1))
        idle = next(worker for worker in engine.workers if worker.job is None)
        idle.process.kill()
        idle.process.join()
        yield tiny(seed=2)

    ends = dict(engine.run(jobs(), None))
    assert [type(ends[tiny(seed=seed)]) for seed in range(3)] == [Outcome] * 3


def test_processes_give_the_records_of_one(tmp_path):
    asked = [tiny(model, seed) for model in ("finetune", "gem") for seed in (0, 1)]
    news = []
    ends = dict(Local(2, "cpu", threads=1).run(iter(asked), lambda each, fields: news.append((each, fields))))
    assert set(ends) == set(asked)
    for each, end in Alone(CPU).run(asked, None):
        assert figures(ends[each].record) == figures(end.record)
    assert {each for each, _ in news} == set(asked)
    assert any("acc" in fields for _, fields in news)
    assert not multiprocessing.active_children()


def test_an_error_in_a_process_is_the_job_s_end_and_no_other_s(tmp_path):
    spoilt = Job(replace(tiny().config, dataset=f"npz:{tmp_path / 'nowhere.npz'}"))
    ends = dict(Local(1, "cpu", threads=1).run([spoilt, tiny()], None))
    assert isinstance(ends[spoilt], DataError)
    assert "nowhere.npz" in str(ends[spoilt])
    assert isinstance(ends[tiny()], Outcome)


def killer(times):
    """News of a job, on which its process is killed, so many times."""
    killed = []

    def news(engine):
        def tell(asked, fields):
            if "total" in fields and len(killed) < times and asked.config.seed == 0:
                worker = next(worker for worker in engine.workers if worker.job == asked)
                os.kill(worker.process.pid, signal.SIGKILL)
                killed.append(asked)

        return tell

    return news


def test_a_process_that_dies_costs_nothing_but_time():
    engine = Local(2, "cpu", threads=1)
    ends = dict(engine.run([tiny(seed=0), tiny(seed=1)], killer(1)(engine)))
    for asked, end in ends.items():
        assert figures(end.record) == figures(learn(asked, None, CPU).record)
    assert len(ends) == 2


def test_a_job_whose_processes_die_is_given_up():
    engine = Local(1, "cpu", threads=1)
    ends = dict(engine.run([tiny(seed=0), tiny(seed=1)], killer(9)(engine)))
    assert "ended 2 times with code -9; out of memory, most likely: try fewer --jobs" in str(ends[tiny(seed=0)])
    assert isinstance(ends[tiny(seed=1)], Outcome)


def test_an_interrupt_leaves_no_process_behind():
    def interrupt(asked, fields):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Local(2, "cpu", threads=1).run([tiny(seed=0), tiny(seed=1)], interrupt))
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

    kind, error = pickle.loads(attempt(work))
    assert kind == "end"
    assert str(error) == "OddError: this and that"


def test_a_record_on_the_shelf_is_whole(tmp_path, outcome):
    shelf = Shelf(tmp_path)
    place = shelf.place(tiny())
    place.mkdir(parents=True)
    (place / "record.json").touch()  # the name is taken before the content arrives
    assert shelf.find(tiny()) is None
    shelf.keep(tiny(), outcome)
    assert json.loads((place / "record.json").read_text())["acc"] == outcome.record.acc
