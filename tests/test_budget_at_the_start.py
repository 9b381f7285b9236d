"""What can be known before the first step is checked before it: a budget in which a later task could hold no image."""

import re

import numpy as np
import pytest
import torch

import samc
from networks import Small
from samc.errors import ConfigError
from samc.learners import LEARNERS
from samc.protocol import run
from toys import coloured_squares, random_batch

SHAPE = (3, 12, 12)
TASKS = tuple((2 * task, 2 * task + 1) for task in range(5))
RAW = 3 * 12 * 12 + 1
# with its label


def learner(name, **settings):
    return LEARNERS[name](**{"num_classes": 10, "image_shape": SHAPE, "model": Small(), **settings})


class Counted(samc.protocol.Watcher):
    def __init__(self):
        self.steps = 0

    def before_step(self, task, number, x, y):
        self.steps += 1


KEEPING = [name for name, kind in LEARNERS.items() if "codec" in kind.Settings.names()]
CODECS = [
    *((name, {"codec": "raw"}) for name in KEEPING),
    *(("samc", {"codec": codec}) for codec in ("coo", "bitmask", "bitmask+deflate", "cam", "cam+deflate")),
    ("samc", {"codec": "coo", "accounting": "values", "replay": "gem"}),
    *(("er", {"codec": codec}) for codec in ("thumb:4", "jpeg:50", "webp:50", "jpeg:80@8")),
    ("gem", {"accounting": "values"}),
    ("der", {"codec": "jpeg:50"}),
]


@pytest.mark.parametrize(("name", "settings"), CODECS)
def test_the_least_budget_is_told_before_the_first_step_and_is_the_least(name, settings):
    """One byte less is refused; with what is told, the run comes to its end."""
    stream, count = coloured_squares(tasks=5, per_class=4), Counted()
    with pytest.raises(ConfigError, match="cannot hold one image; raise it: one takes") as told:
        run(stream, learner(name, memory_bytes="2", **settings), watchers=[count])
    each = int(re.search(r"one takes (\d+) bytes", str(told.value))[1])
    with pytest.raises(ConfigError, match=r"cannot hold one image; raise it: one takes \d+") as told:
        run(stream, learner(name, memory_bytes=str(5 * each - 1), **settings), watchers=[count])
    enough = int(re.search(r"--memory-bytes (\d+)$", str(told.value))[1])
    assert enough == 5 * each or name == "der"  # the logits that it keeps too are known with the classes
    with pytest.raises(ConfigError, match=f"give at least --memory-bytes {enough}$"):
        run(stream, learner(name, memory_bytes=str(enough - 1), **settings), watchers=[count])
    assert count.steps == 0
    subject = learner(name, memory_bytes=str(enough), **settings)
    run(stream, subject)
    kept = subject.memory_report()["images_per_task"]
    assert kept[-1] >= 1
    assert (
        all(kept) or subject.memory.codec.selective
    )  # with more pixels than are left to it in the end, one is dropped


def test_a_common_budget_that_the_last_of_five_tasks_would_be_the_first_to_miss():
    with pytest.raises(ConfigError) as told:
        learner("gem", memory_bytes="2100", task_classes=TASKS)
    assert str(told.value) == (
        "a budget of 2,100 bytes for all tasks, 420 bytes for each of 5, cannot hold one image; raise it: one takes "
        "433 bytes as raw, so give at least --memory-bytes 2165"
    )
    learner("gem", memory_bytes="2165", task_classes=TASKS)
    learner("gem", memory_bytes="2100", task_classes=TASKS[:4])


def test_on_the_command_line(command, tmp_path):
    code, _, err = command("run", "--model", "gem", "--memory-bytes", "15KB", "--out", tmp_path / "run")
    assert code == 2
    assert err.endswith("one takes 3073 bytes as raw, so give at least --memory-bytes 15365\n")


def test_tasks_that_nobody_announced_are_refused_before_the_others_give_up_their_images():
    subject = learner("gem", memory_bytes=str(2 * RAW))
    for task in range(2):
        subject.observe(*random_batch(4, SHAPE, TASKS[task]), task)
    before = torch.cat([p.detach().flatten() for p in subject.model.parameters()])
    with pytest.raises(ConfigError, match=f"433 bytes as raw, so give at least --memory-bytes {3 * RAW}"):
        subject.observe(*random_batch(4, SHAPE, TASKS[2]), 2)
    assert torch.equal(before, torch.cat([p.detach().flatten() for p in subject.model.parameters()]))
    assert subject.memory.images_per_task == {0: 1, 1: 1}


def test_a_picture_that_is_larger_than_its_share_is_found_at_the_start():
    """Only one image of the last task is noise, and too large once it is packed."""
    flat, noise = np.full((4, 12, 12, 3), 99, np.uint8), np.random.default_rng(0).integers(0, 256, (1, 12, 12, 3))
    items = [(flat, [0, 1, 0, 1]), (np.concatenate([flat[:3], noise.astype(np.uint8)]), [2, 3, 2, 3])]
    count = Counted()
    with pytest.raises(ConfigError, match="as jpeg:50, so give at least --memory-bytes") as told:
        run(items, learner("er", codec="jpeg:50", memory_bytes="100/task"), watchers=[count])
    assert count.steps == 0
    enough = re.search(r"--memory-bytes (\S+)$", str(told.value))[1]
    assert enough.endswith("/task")
    run(items, learner("er", codec="jpeg:50", memory_bytes=enough))
