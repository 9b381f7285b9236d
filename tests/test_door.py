"""What a learner is given: taken in every form that means the same, refused in one line where it means nothing.

Mistakes are made in a process of their own: here functions are wrapped by checks of their types, which users have not.
"""

import copy
import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

import samc
from networks import Small
from samc.errors import ConfigError, DataError
from samc.learners import LEARNERS
from toys import random_batch

SHAPE = (3, 8, 8)
MISTAKES = """
import json, torch, numpy as np, samc
from samc.errors import UserError

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3, 2, 1)
    def forward(self, x):
        return self.layer(x).relu()

x, y = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
def make(name="ER", **given):
    return getattr(samc, name)(**{"num_classes": 4, "image_shape": (3, 8, 8), "model": Net(), **given})
def call(name, method, *args):
    learner = make(name)
    learner.observe(x, y, 0)
    before = learner.memory_report(), [p.clone() for p in learner.model.parameters()]
    try:
        getattr(learner, method)(*args)
    finally:
        assert learner.memory_report() == before[0]
        assert all(torch.equal(a, b) for a, b in zip(before[1], learner.model.parameters()))
found = {}
def tried(name, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
        found[name] = "nothing was said"
    except UserError as error:
        found[name] = str(error)
    except Exception as error:
        found[name] = f"{type(error).__name__} from the depths: {error}"

for value in (True, 1.0, "0", None, torch.tensor([0]), torch.tensor(0.0), torch.tensor(True), np.array([0]), 2**70):
    for name in ("Finetune", "SAMC", "DER"):
        tried(f"task {value!r} {name}", call, name, "observe", x, y, value)
    tried(f"task {value!r} predict", call, "ER", "predict", x, value)
for value in (list("abab"), np.array(list("abab")), y.bool(), y.float(), y[:3], y[:, None], None, 3, [0.5, 1, 0, 1],
              y.numpy().astype(object), [0, 1, 0, 9], [-1, 0, 0, 0], y - 1, y + 10**12, y.to(torch.complex64)):
    for name in ("Finetune", "SAMC", "EBM"):
        tried(f"labels {value!r} {name}", call, name, "observe", x, value, 0)
for value in (None, "abc", x.tolist(), x[:0], x[0], x[:, :2], x.int(), x.bool(), x.numpy().astype("U")):
    kind = f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}"
    tried(f"images {kind}", call, "ER", "observe", value, y, 0)
    tried(f"images {kind} predict", call, "ER", "predict", value, 0)
for method in ("begin_task", "end_task"):
    for name in ("Finetune", "ER", "ICaRL", "EWC", "EEC", "SAMC"):
        tried(f"task itself {method} {name}", call, name, method, 0)
for name in ("ER", "ICaRL", "EWC", "EEC"):
    tried(f"seen {name}", call, name, "end_task", samc.Task.from_arrays(x, y, id=7))
tried("full head", call, "ER", "begin_task", samc.Task.from_arrays(x, y + 4, id=1))
for name, values in {
    "image_shape": (24, (3, 8), (3, 8.0, 8), "abc", (3, 8, 0), None, (3, True, 8)),
    "num_classes": (0, -3, "4", 2.5, True),
    "seed": (-1, 1.5, "a", True),
    "device": ("gpu", "cuda:99"),
    "memory-bytes": (10, 1.5, "ten", "0"),
    "task_classes": ((0, 1), [["a"]], [(0, 9)], [()]),
    "buffer-size": ("3", 0, 1.5),
}.items():
    for value in values:
        tried(f"{name} {value!r}", make, **{name.replace("-", "_"): value})
print(json.dumps(found))
"""
WORDS = {
    "task ": "task is the number of one task, such as 0; got",
    "labels ": "abel",
    "images ": "images are",
    "task None": "needs the task that",
    "task itself": "takes the task itself, not its number: some methods look at its images again; got 0; samc.Task",
    "seen": "task 7 has not been seen yet; known: [0]",
    "full head": "the network only 0 to 3; make it with num_classes=6, or without num_classes, and heads grow",
    "image_shape": "image_shape is (channels, height, width), such as (3, 32, 32); got",
    "num_classes": "num_classes is how many classes there are; left out, heads grow; got",
    "seed": "seed is a whole number from 0 below 2**63; got",
    "device": "cannot be used here",
    "memory-bytes": "memory-bytes is",
    "task_classes": "task 0",
    "buffer-size": "buffer-size is",
}


@pytest.fixture(scope="module")
def told():
    command = [sys.executable, "-W", "error", "-c", MISTAKES]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("kind", WORDS)
def test_a_mistake_is_one_clear_line_and_changes_nothing(kind, told):
    longer = [other for other in WORDS if other != kind and other.startswith(kind)]
    mine = {name: text for name, text in told.items() if name.startswith(kind)}
    mine = {name: text for name, text in mine.items() if not name.startswith(tuple(longer))} if longer else mine
    assert mine
    expected = "the network only" if kind == "labels " else None
    wrong = {
        name: text
        for name, text in mine.items()
        if (WORDS[kind] not in text and (expected is None or expected not in text)) or "\n" in text or "depths" in text
    }
    assert wrong == {}


def fresh(name="er", **given):
    return LEARNERS[name](**{"num_classes": 4, "image_shape": SHAPE, "model": Small(), **given})


@pytest.mark.parametrize(
    "task", [np.int64(0), np.uint8(0), torch.tensor(0), torch.tensor(0, dtype=torch.int8), np.array(0)]
)
@pytest.mark.parametrize("name", ["finetune", "er", "samc", "der", "icarl", "joint", "ebm"])
def test_a_number_of_numpy_or_torch_is_the_number_it_holds(name, task):
    subject = fresh(name)
    for step in range(3):
        subject.observe(*random_batch(4, SHAPE, seed=step), task)
    assert list(subject.model.heads.task_classes) == [0]
    assert [type(number) for number in subject.begun_tasks] == [int]
    assert len(subject.memory_report()["images_per_task"]) <= 1
    assert subject.predict(random_batch(4, SHAPE)[0], task).shape == (4,)


def test_a_method_of_your_own_that_hands_the_task_on_as_it_came_keeps_the_budget():
    class Own(samc.ER):
        def observe(self, x, y, task):
            stats = super().observe(x, y, task)
            self.stored.add(task, self.as_bytes(x), samc.memory.full_selection(len(y), *SHAPE[1:]), y.numpy())
            return stats

    subject = Own(4, SHAPE, model=Small(), buffer_size=2)
    for step in range(10):
        subject.observe(*random_batch(4, SHAPE, seed=step), torch.tensor(0))
    report = subject.memory_report()
    assert report["images_per_task"] == [2]
    assert report["memory_bytes"] <= report["budget_bytes"]


@pytest.mark.parametrize("name", ["finetune", "samc", "ebm"])
def test_images_and_labels_in_every_form_are_the_same_step(name):
    x, y = random_batch(4, SHAPE)
    backwards = torch.flip(x, (0,)).numpy()[::-1], torch.flip(y, (0,)).numpy()[::-1]  # of negative strides
    frozen = x.numpy().copy(), y.numpy().copy()
    for array in frozen:
        array.flags.writeable = False
    forms = [
        (x, y), (x.numpy(), y.numpy()), backwards, frozen, (x, y.tolist()), (x, y.to(torch.uint8)),
        (x, y.numpy().astype(np.uint16)), (x.float() / 255, y), (x.numpy().astype(np.float64) / 255, y),
        (x.permute(0, 2, 3, 1).numpy(), y),
    ]  # fmt: skip
    network = Small()
    ends = []
    for images, labels in forms:
        subject = fresh(name, model=copy.deepcopy(network))
        subject.observe(images, labels, 0)
        ends.append(torch.cat([p.detach().flatten() for p in subject.model.parameters()]))
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0])


def test_labels_out_of_range_are_refused_before_a_head_grows():
    subject = samc.Finetune(image_shape=SHAPE, model=Small())
    x, _ = random_batch(2, SHAPE)
    with pytest.raises(DataError, match=r"labels number the classes 0, 1, 2, ...; task 0 has 0 to 1000000000000"):
        subject.observe(x, torch.tensor([0, 10**12]), 0)
    assert subject.model.heads.num_classes == 0


def test_a_head_grows_only_where_the_number_of_classes_was_left_open():
    growing = samc.ER(image_shape=SHAPE, model=Small())
    for task in range(3):
        growing.begin_task(samc.Task.from_arrays(*random_batch(4, SHAPE, (2 * task, 2 * task + 1)), id=task))
    assert growing.model.heads.num_classes == 6
    fixed = samc.ER(2, SHAPE, model=Small())
    with pytest.raises(ConfigError, match=r"only 0 to 1; make it with num_classes=4, or without num_classes"):
        fixed.begin_task(samc.Task.from_arrays(*random_batch(4, SHAPE, (2, 3)), id=1))
    assert fixed.model.heads.task_classes == {}


# Threads

CALLS = 2_000
# of predict, by all threads together; five times as many where there is time
THREADS = 4


class Together(nn.Module):
    """Two numbers that every step changes together; asked, it shows how far they are from each other."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 2, 1)
        self.register_buffer("first", torch.zeros(()))
        self.register_buffer("second", torch.zeros(()))

    def forward(self, x):
        if not self.training:
            first = self.first.clone()
            features = self.body(x).mean((2, 3))
            return features * 0 + (first - self.second).abs()
        self.first += 1
        features = self.body(x).mean((2, 3))
        self.second += 1
        return features


class Compared(samc.ER):
    """Answers class 1 where the two numbers differ."""

    def scores(self, x, task):
        features = self.answering.features(x)
        return torch.stack([torch.full((len(x),), 0.5), features[:, 0]], 1)


def answers_under_load(subject, calls):
    x, y = random_batch(2, SHAPE)
    subject.observe(x, y, 0)
    answers, errors = [], []

    def ask():
        try:
            for _ in range(calls // THREADS):
                answers.append(subject.predict(x, 0).tolist())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    steps = 0
    while any(thread.is_alive() for thread in threads):
        subject.observe(x, y, steps // 50 % 2)  # tasks change too, and with them what is replayed
        steps += 1
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(answers) == calls
    return answers, steps


@pytest.mark.parametrize("calls", [CALLS, pytest.param(5 * CALLS, marks=pytest.mark.slow)])
def test_predict_answers_from_between_two_steps_whatever_thread_it_is_asked_from(calls):
    answers, steps = answers_under_load(Compared(2, SHAPE, model=Together(), task_classes=((0, 1), (0, 1))), calls)
    assert steps > 5
    assert {tuple(answer) for answer in answers} == {(0, 0)}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
@pytest.mark.parametrize("name", ["finetune", "er", "samc", "icarl"])
def test_a_copy_has_a_lock_of_its_own_and_goes_on_alike(name, copied):
    subject = fresh(name)
    subject.observe(*random_batch(4, SHAPE), 0)
    other = copied(subject)
    assert other.guard.lock is not subject.guard.lock
    with subject.guard.lock:  # who holds one does not hold up the other
        waiting = threading.Thread(target=other.observe, args=(*random_batch(4, SHAPE, seed=1), 0), daemon=True)
        waiting.start()
        waiting.join(20)
        assert not waiting.is_alive()
    subject.observe(*random_batch(4, SHAPE, seed=1), 0)
    for mine, theirs in zip(subject.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_waits_for_the_lock(name):
    """Also what a method overrides, and what is written by somebody who never heard of threads."""

    class Own(LEARNERS[name]):
        def predict(self, x, task):
            return super().predict(x, task)

    subject = Own(num_classes=4, image_shape=SHAPE, model=Small(), task_classes=((0, 1),))
    x, y = random_batch(4, SHAPE)
    for call in (lambda: subject.observe(x, y, 0), lambda: subject.predict(x, 0), subject.memory_report):
        with subject.guard.lock:
            thread = threading.Thread(target=call, daemon=True)
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
        thread.join(20)
        assert not thread.is_alive()
