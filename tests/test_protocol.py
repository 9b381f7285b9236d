"""The training loop and its record: what was shown to whom, in which order, and what is written down."""

import errno
import json
import os

import pytest
import torch

import samc
from samc.errors import DataError, OutputError
from samc.learners.contract import StepStats
from samc.learners.scenario import Scenario
from samc.protocol import Watcher, run
from samc.record import RunRecord, claimed_folder
from toys import PLAIN_CONE, coloured_squares

UMASK = os.umask(0o022)
os.umask(UMASK)
KEYS = {
    "acc",
    "bwt",
    "bwt_by_t",
    "fwt",
    "forgetting",
    "accuracy_matrix",
    "first_task_curve",
    "memory",
    "seconds",
    "config",
}
KEYS |= {"fingerprint", "versions", "device", "class_names"}
PAPER = {"replay": "gem", "codec": "coo", "threshold": 0.7, "completion": "telea+autoencoder", "lr": 0.1, **PLAIN_CONE}
# SAMC as in the paper, in true bytes: a run of it has every phase


class Oracle:
    """Knows a task once it has been told its labels; before that it says the task's first class."""

    def __init__(self):
        self.calls, self.known, self.forgotten = [], set(), set()

    def declare(self, task, classes):
        assert tuple(classes) == (2 * task, 2 * task + 1)

    def begin_task(self, task):
        self.calls.append(("begin", task.id))

    def observe(self, x, y, task):
        self.calls.append(("observe", task, x.dtype, len(y)))
        return StepStats(torch.tensor(0.0))

    def end_task(self, task):
        self.calls.append(("end", task.id))
        self.known.add(task.id)
        if task.id == 2:
            self.forgotten.add(0)

    def predict(self, x, task):
        left = x[:, :, 3:-3, :5].float().mean((1, 2, 3)) > x[:, :, 3:-3, -5:].float().mean((1, 2, 3))
        truth = 2 * task + (~left).long()
        return truth if task in self.known - self.forgotten else torch.full_like(truth, 2 * task)

    def memory_report(self):
        return {"bytes": 0, "images_per_task": [], "accounting": "bytes"}

    def seconds(self):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_order_of_events_and_metrics():
    stream, oracle = coloured_squares(per_class=11), Oracle()
    record = run(stream, oracle, batch_size=8)
    per_task = [("observe", torch.uint8, 8)] * 2 + [("observe", torch.uint8, 6)]
    expected = []
    for task in range(3):
        expected.append(("begin", task))
        expected += [(name, task, dtype, size) for name, dtype, size in per_task]
        expected.append(("end", task))
    assert oracle.calls == expected
    assert record.accuracy_matrix == [[0.5, 0.5, 0.5], [1, 0.5, 0.5], [1, 1, 0.5], [0.5, 1, 1]]
    assert record.first_task_curve == [1, 1, 0.5]
    assert (record.acc, record.bwt, record.fwt, record.forgetting) == (2.5 / 3, -0.25, 0, 0.25)
    assert record.bwt_by_t == pytest.approx(-0.5 / 3)


def test_bwt_by_t_is_in_the_file_and_always_of_the_matrix(tmp_path):
    record = run(coloured_squares(per_class=4), samc.GEM(6, (3, 12, 12)))
    assert record.bwt_by_t == pytest.approx(record.bwt * 2 / 3)
    path = record.save(tmp_path)
    content = json.loads(path.read_text())
    assert content["bwt_by_t"] == record.bwt_by_t
    assert list(content)[:3] == ["acc", "bwt", "bwt_by_t"]
    for changed in ({**content, "bwt_by_t": 0.9}, {name: content[name] for name in content if name != "bwt_by_t"}):
        path.write_text(json.dumps(changed))  # a wrong one, and a record from before there was one
        assert RunRecord.load(path) == record
        assert RunRecord.load(path).bwt_by_t == record.bwt_by_t


def small_run(seed=0, **settings):
    stream = coloured_squares(per_class=10, seed=seed)
    learner = samc.SAMC(6, (3, 12, 12), seed=seed, autoencoder_steps=2, **PAPER | settings)
    return run(stream, learner)


@pytest.mark.slow
def test_the_record_has_all_its_keys_and_survives_the_disk(tmp_path):
    record = small_run()
    path = record.save(tmp_path)
    content = json.loads(path.read_text())
    assert set(content) - {"notes"} == KEYS  # on what was learnt no better than by chance, where there is such
    memory_keys = {"budget_bytes", "bytes", "bytes_by_part", "images_per_task", "accounting", "working_set_bytes"}
    assert memory_keys <= set(content["memory"])
    assert len(content["accuracy_matrix"]) == 4
    assert all(0 <= a <= 1 for row in content["accuracy_matrix"] for a in row)
    phases = {"current gradient", "gradients", "projection", "saliency", "encoding", "completion"}
    assert phases | {"evaluation", "total"} <= set(content["seconds"])
    assert sum(v for k, v in content["seconds"].items() if k != "total") <= content["seconds"]["total"]
    assert RunRecord.load(path) == RunRecord.load(tmp_path) == record
    assert sum(record.memory["bytes_by_part"].values()) == record.memory["bytes"]
    assert record.memory["bytes_by_part"]["autoencoder"] > 21_000 * 4
    assert record.memory["bytes"] - record.memory["memory_bytes"] == record.memory["bytes_by_part"]["autoencoder"]
    assert (path.stat().st_mode & 0o777) == 0o666 & ~UMASK  # others may read it as they may any file


@pytest.mark.slow
def test_same_seed_same_record():
    first, again, other = small_run(), small_run(), small_run(seed=1)
    untimed = [{**vars(record), "seconds": None} for record in (first, again, other)]
    assert untimed[0] == untimed[1]
    assert untimed[0]["memory"] != untimed[2]["memory"]


def test_watchers_see_every_step():
    class Count(Watcher):
        steps, tests = 0, ()

        def step(self, task, number, x, stats):
            self.steps += 1
            assert stats.kept.masks.shape == (len(x), 12, 12)

        def evaluated(self, tasks_learnt, accuracies):
            self.tests = (*self.tests, tasks_learnt)

    stream, count = coloured_squares(per_class=10), Count()
    learner = samc.SAMC(6, (3, 12, 12), task_classes=stream.task_classes, codec="coo")
    run(stream, learner, watchers=[count])
    assert count.steps == 3 * 2
    assert count.tests == (0, 1, 2, 3)


@pytest.mark.parametrize(("scenario", "asked"), [("class", [1, 2, 3]), ("task", [3, 3, 3, 3])])
def test_a_class_that_has_not_come_yet_is_not_asked_for_where_it_cannot_be_answered(scenario, asked, monkeypatch):
    stream, answered, learner = coloured_squares(per_class=10), [], samc.ER(6, (3, 12, 12), scenario=scenario)
    predict = learner.predict

    def counted(x, task=None):
        answered.append(len(learner.begun_tasks))
        return predict(x, task)

    monkeypatch.setattr(learner, "predict", counted)
    record = run(stream, learner)
    learnt = [0, 1, 2, 3] if scenario == "task" else [1, 2, 3]
    assert [answered.count(number) for number in learnt] == asked
    if scenario == "class":
        assert all(accuracy == 0 for number, row in enumerate(record.accuracy_matrix) for accuracy in row[number:])


def test_what_a_learner_knows_from_another_run_is_asked_for():
    stream = coloured_squares(per_class=20)
    learner = samc.ER(6, (3, 12, 12), scenario="class", memory_bytes="100KB")
    run(stream, learner)
    known = [(learner.predict(task.test_x) == task.test_y).float().mean().item() for task in stream]
    again = run(stream, learner)
    assert sum(known) > 0
    assert again.accuracy_matrix[0] == pytest.approx(known)


def test_a_learner_of_ones_own_with_one_head_is_asked_for_every_class():
    oracle = Oracle()
    oracle.scenario = Scenario("class", "told")
    asked = []
    oracle.predict = lambda x, task=None: asked.append(task) or torch.zeros(len(x), dtype=torch.int64)
    record = run(coloured_squares(per_class=4), oracle)
    assert asked == [None] * 9  # three tasks after each of three; none before the first
    assert record.accuracy_matrix[1][0] == 0.5


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "record.json").write_text('{"acc": 1}')
    with pytest.raises(DataError, match=r"record\.json is not a run's record"):
        RunRecord.load(tmp_path)
    with pytest.raises(DataError, match="absent is not there; give the folder of a run"):
        RunRecord.load(tmp_path / "absent")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "name"),
    [("memory", "images_per_task"), ("seconds", "total"), ("config", "seed"), ("fingerprint", "stream")],
)
def test_a_record_that_lacks_what_tables_need_is_refused(part, name, tmp_path):
    path = small_run().save(tmp_path)
    content = json.loads(path.read_text())
    assert RunRecord.load(path)
    del content[part][name]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"{part} has no {name}.; remove it or put the right one there"):
        RunRecord.load(path)
    content[part] = None
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="is not a run's record"):
        RunRecord.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("acc", None, "acc is None instead of a fraction from 0 to 1"),
        ("bwt", "much", "bwt is 'much' instead of a number from -1 to 1"),
        ("accuracy_matrix", None, "accuracy_matrix is None instead of rows"),
        ("accuracy_matrix", [[0.5], [0.5], [0.5]], "accuracy_matrix has not a row for each task"),
        ("accuracy_matrix", [["much"], [0.5]], "instead of rows of as many fractions from 0 to 1"),
        ("first_task_curve", 1, "first_task_curve is 1 instead of a list of fractions"),
        ("device", None, "device holds no names and values"),
        ("device", {}, "device has no name"),
    ],
)
def test_a_record_with_values_that_cannot_be_is_refused(name, value, why, tmp_path):
    path = small_run().save(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(DataError, match=why):
        RunRecord.load(path)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]", "3", "{}", "\x00"])
def test_a_file_that_is_nothing_like_a_record_is_refused(text, tmp_path):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(DataError, match=r"record\.json is not a run's record .*; remove it or put the right one there"):
        RunRecord.load(tmp_path)


@pytest.mark.slow
def test_a_full_disk_costs_no_data(tmp_path, monkeypatch):
    record = small_run()
    (tmp_path / "record.json").write_text("earlier")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*record.json: No space left on device; free some space"):
        record.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert (tmp_path / "record.json").read_text() == "earlier"


def test_folders_that_cannot_take_a_record(tmp_path):
    (tmp_path / "record.json").write_text("{}")
    with (
        pytest.raises(OutputError, match="already holds a run; choose another --out or remove it"),
        claimed_folder(tmp_path),
    ):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match=r"cannot write to .*file/below: Not a directory; choose another --out"),
        claimed_folder(tmp_path / "file" / "below"),
    ):
        pass


def test_a_run_that_fails_removes_the_folders_that_it_made_and_no_others(tmp_path):
    (tmp_path / "mine").mkdir()

    def fail(folder):
        with pytest.raises(RuntimeError), claimed_folder(folder):
            raise RuntimeError

    fail(tmp_path / "mine" / "deep" / "run")
    fail(tmp_path / "mine")
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


@pytest.mark.slow
def test_two_runs_into_one_folder_lose_neither(tmp_path):
    first, second = small_run(), small_run(seed=1)
    with claimed_folder(tmp_path):
        first.save(tmp_path)
        with pytest.raises(OutputError, match=r"has been written by another run meanwhile; this one is in .*record-"):
            second.save(tmp_path)
    (other,) = tmp_path.glob("record-*.json")
    assert RunRecord.load(tmp_path) == first
    assert RunRecord.load(other) == second


@pytest.mark.slow
def test_the_fingerprint_holds_the_terms_of_the_comparison():
    ten, one, values = small_run(), small_run(buffer_size=1), small_run(accounting="values")
    assert ten.fingerprint == small_run(threshold=0.2).fingerprint
    assert {k for k in ten.fingerprint if ten.fingerprint[k] != one.fingerprint[k]} == {"budget_images"}
    assert {k for k in ten.fingerprint if ten.fingerprint[k] != values.fingerprint[k]} == {"accounting"}
