"""Learning that goes nowhere is told: a run that diverges stops with one line, a task that stays at chance is noted."""

import json
import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import samc
from networks import Small, make
from samc.errors import DivergenceError
from samc.health import ChanceWatch, LossMonitor, at_chance, binomial_tail
from samc.learners import LEARNERS
from samc.learners.contract import StepStats
from samc.protocol import run
from toys import coloured_squares

SHAPE = (3, 12, 12)
QUICK = ("--samples-per-task", "20", "--n-tasks", "2", "--preset", "none")


@pytest.mark.parametrize(
    ("model", "lr", "told"),
    [
        ("finetune", "1e38", r"the loss is nan at step 2 of task 1; learning has diverged with lr 1e\+38; .*--lr 0.1"),
        ("samc", "1e38", "the loss is nan at step 2 of task 1"),
        ("gem", "1e30", "diverged with lr 1e"),
    ],
)
def test_a_run_that_diverges_ends_with_one_line_and_leaves_no_record(model, lr, told, command, tmp_path):
    folder = tmp_path / "run"
    code, out, err = command("run", "--model", model, "--lr", lr, "--out", folder, *QUICK)
    assert (code, err.count("\n")) == (2, 1)
    assert not folder.exists()
    assert re.search(told, err), err
    assert "ACC" not in out


@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_stops_where_it_diverges(name):
    settings = {"encoder_steps": 1, "fisher_images": 2, "buffer_size": 2, "lr": 1e30}
    known = {key: value for key, value in settings.items() if key in LEARNERS[name].Settings.names()}
    learner = LEARNERS[name](6, SHAPE, model=Small(), **known)
    with pytest.raises(DivergenceError, match=r"diverged with lr 1e\+30"):
        run(coloured_squares(per_class=10), learner)


def test_what_is_left_of_a_network_after_a_single_step_is_looked_at_too():
    """No loss was ever infinite: it is the step after which the network is none."""

    class Breaks(samc.Finetune):
        def observe(self, x, y, task):
            stats = super().observe(x, y, task)
            next(self.model.parameters()).data.flatten()[0] = math.nan
            return stats

    learner = Breaks(6, SHAPE, model=Small())
    with pytest.raises(DivergenceError, match="parameters are not finite after task 1"):
        run(coloured_squares(per_class=4), learner, batch_size=100)


def losses(monitor, values, task=0):
    for value in values:
        monitor.step(task, torch.tensor(value))


def test_losses_are_looked_at_together_and_late_and_the_step_is_still_told():
    monitor = LossMonitor(samc.Finetune(2, SHAPE, model=Small()), every=4)
    losses(monitor, [1.0] * 5 + [math.inf] + [math.nan] * 2)  # sent at step 8
    losses(monitor, [1.0] * 3)
    with pytest.raises(DivergenceError, match="the loss is inf at step 6 of task 0"):
        losses(monitor, [1.0])
    other = LossMonitor(samc.Finetune(2, SHAPE, model=Small()), every=4)
    losses(other, [1.0] * 9)
    other.end_task(0)
    losses(other, [1.0, math.nan], task=1)
    with pytest.raises(DivergenceError, match="the loss is nan at step 2 of task 1"):
        other.end_task(1)


def test_a_gpu_is_asked_once_in_many_steps(monkeypatch):
    sent = []
    monkeypatch.setattr("samc.health.to_host_async", lambda tensor: sent.append(len(tensor)) or tensor.numpy)
    monitor = LossMonitor(samc.Finetune(2, SHAPE, model=Small()), every=50)
    losses(monitor, [1.0] * 120)
    assert sent == [50, 50]
    monitor.end_task(0)
    assert sent == [50, 50, 20]


def test_a_learner_that_tells_no_rate_is_watched_too():
    class Told(nn.Module):
        pass

    monitor = LossMonitor(Told())
    with pytest.raises(DivergenceError, match="learning has diverged; take smaller steps"):
        losses(monitor, [math.nan])


@given(st.integers(1, 60), st.integers(0, 60), st.floats(0.01, 0.99))
def test_the_binomial_tail_equals_the_plain_sum(tested, right, guess):
    plain = sum(math.comb(tested, k) * guess**k * (1 - guess) ** (tested - k) for k in range(right, tested + 1))
    assert binomial_tail(right, tested, guess) == pytest.approx(plain, rel=1e-9, abs=1e-12)


def test_the_binomial_tail_of_many_images_is_computed_at_once():
    """Of a checkpoint that claims 2**53 test images it once took gigabytes and minutes."""
    half = 2**30
    assert binomial_tail(half, 2 * half, 0.5) == pytest.approx(0.5, abs=1e-4)
    assert binomial_tail(half + 2**18, 2 * half, 0.5) == pytest.approx(0, abs=1e-9)
    assert binomial_tail(half - 2**18, 2 * half, 0.5) == pytest.approx(1, abs=1e-9)


def test_the_binomial_test_by_hand():
    assert binomial_tail(2, 2, 0.5) == pytest.approx(0.25)
    assert binomial_tail(1, 3, 0.5) == pytest.approx(7 / 8)
    assert binomial_tail(0, 9, 0.1) == 1
    assert binomial_tail(60, 100, 0.5) == pytest.approx(0.0284, abs=1e-4)
    assert at_chance(0.58, 100, 0.5)
    assert not at_chance(0.6, 100, 0.5)
    assert not at_chance(0.0, 4, 0.5)  # of four images a guess may have all right: nothing can be told
    assert not at_chance(1.0, 100, 1.0)  # nor where there is one class


class Stubborn:
    """Learns the first task only."""

    def __init__(self):
        self.learnt = set()

    declare = begin_task = lambda self, *_: None

    def observe(self, x, y, task):
        return StepStats(torch.tensor(0.0))

    def end_task(self, task):
        self.learnt |= {task.id} & {0}
        self.truth = {**getattr(self, "truth", {}), task.id: task.test_y}

    def predict(self, x, task):
        return self.truth[task] if task in self.learnt else torch.full((len(x),), 2 * task)

    def memory_report(self):
        return {"bytes": 0, "bytes_by_part": {}, "images_per_task": [], "accounting": "bytes"}

    def seconds(self):
        return {}

    state_dict = load_state_dict = lambda self, *_: {}


def test_a_task_that_stays_at_chance_is_in_the_records_notes(tmp_path):
    record = run(coloured_squares(per_class=4), Stubborn())
    (note,) = record.notes
    assert note.startswith(
        "not learnt: tasks 1, 2; 50.0 % of its test images right, where a guess has 50.0 %; try another --lr"
    )
    path = record.save(tmp_path)
    assert json.loads(path.read_text())["notes"] == [note]
    assert samc.RunRecord.load(path) == record


def test_a_run_that_learns_has_no_notes(tmp_path):
    learner = samc.Finetune(2, SHAPE, model=make("biases"), lr=0.1)
    record = run(coloured_squares(tasks=1), learner, n_epochs=5)
    assert record.acc > 0.8
    assert record.notes is None
    assert "notes" not in json.loads(record.save(tmp_path).read_text())


def test_more_images_of_one_class_make_a_guess_better():
    x, y = torch.zeros(100, *SHAPE, dtype=torch.uint8), torch.tensor([0] * 80 + [1] * 20)
    task = samc.Task.from_arrays(x, y, x, y)
    watch = ChanceWatch(samc.Finetune(2, SHAPE, model=Small(), lr=0.3))
    watch.tested(task, 0.8, 100)
    assert "with lr 0.3: task 0; 80.0 % of its test images right, where a guess has 80.0 %" in watch.notes()[0]
    better = ChanceWatch(None)
    better.tested(task, 0.9, 100)
    assert better.notes() == []


def test_the_command_line_says_that_a_task_was_not_learnt(command, tmp_path):
    code, out, _ = command("run", "--model", "finetune", "--lr", "1e-9", "--out", tmp_path / "run", *QUICK)
    assert code == 0
    assert "not learnt with lr 1e-09: task" in " ".join(out.split())
    assert samc.RunRecord.load(tmp_path / "run").notes
