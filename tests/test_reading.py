"""Algorithm 1 can be read in one sitting: few lines, few files, and a step that rarely leaves a file."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import samc

ROOT = Path(samc.__file__).parent
ALGORITHM = ("learners/samc.py", "learners/rules.py", "saliency/grad_cam.py")
MOST_LINES = 300
STEPS = {
    "the paper's": ({"preset": "paper:split-cifar100"}, 25),
    "the default's": ({}, 30),
    "the default's in a small memory": ({"memory_bytes": "3073/task"}, 39),
}
# settings, and the most changes of file. The default's step does more than the paper's: it flips images, draws from
# past and current memories, holds old heads to the average of the network, and has that average follow, each in a file
# of its own; in a small memory it also looks for what is salient, and smooths and shrinks the rest

TRACE = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import samc

root = Path(samc.__file__).parent
settings = json.loads(sys.argv[1])
learner = samc.SAMC(4, (3, 32, 32), task_classes=((0, 1), (2, 3)), **settings)
random = torch.Generator().manual_seed(0)

def step(task):
    x = torch.randint(256, (10, 3, 32, 32), generator=random, dtype=torch.uint8)
    learner.observe(x, torch.arange(10) % 2 + 2 * task, task)

for task in (0, 0, 0):
    step(task)
learner.begin(1)  # line 5: memories are completed when a task begins
calls = []

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and Path(code.co_filename).is_relative_to(root):
        calls.append((str(Path(code.co_filename).relative_to(root)), code.co_qualname))

sys.setprofile(note)
step(1)
sys.setprofile(None)
print(json.dumps(calls))
"""


def calls_of_a_step(settings):
    """File and function of every call, in a process of its own: here functions are wrapped by checks of their types."""
    command = [sys.executable, "-c", TRACE, json.dumps(settings)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tuple(call) for call in json.loads(output)]


def in_reading_order(calls):
    """Every function once, where it is first called, as one would read them; what stands inside one is read with it."""
    return list(dict.fromkeys((file, function) for file, function in calls if "<" not in function))


def changes_of_file(calls):
    files = [file for file, _ in calls]
    return sum(file != following for file, following in pairwise(files))


def test_a_change_of_file_is_counted_once():
    calls = [("a", "f"), ("b", "g"), ("a", "h"), ("a", "h.<locals>.<lambda>"), ("b", "g"), ("c", "k")]
    assert in_reading_order(calls) == [("a", "f"), ("b", "g"), ("a", "h"), ("c", "k")]
    assert changes_of_file(in_reading_order(calls)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_the_second_task_rarely_leaves_a_file(name):
    settings, most = STEPS[name]
    calls = in_reading_order(calls_of_a_step(settings))
    assert calls[0] == ("learners/samc.py", "SAMC.observe")
    looks = {} if name == "the default's" else {"saliency/grad_cam.py"}
    assert {file for file, _ in calls} & set(ALGORITHM) == {*ALGORITHM[:2], *looks}
    sequence = "\n".join(f"{file}: {function}" for file, function in calls)
    assert changes_of_file(calls) <= most, sequence


def test_algorithm_1_is_short():
    lines = {file: len((ROOT / file).read_text().splitlines()) for file in ALGORITHM}
    assert sum(lines.values()) < MOST_LINES, lines
