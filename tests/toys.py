"""Small things that tests share: a tiny stream that a network learns in seconds, networks, and random batches."""

import importlib.util

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from samc.engine.graphs import Constants, CudaGraphCache
from samc.experiments.worth import NO_PART
from samc.models import Classifier, Heads, ReducedResNet18, probe
from samc.models.start import seeded
from samc.streams.base import Dataset, Stream, split

PLAIN = NO_PART | {"keeps": "newest"}
# settings of a method that replays, with every part off
PLAIN_CONE = {name: value for name, value in PLAIN.items() if name not in ("replay_weight", "replay_current")}
# of one to which memory is a constraint: it has no others
needs_triton = pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="triton is not installed")


def coloured_squares(tasks: int = 3, per_class: int = 40, side: int = 12, seed: int = 0) -> Stream:
    """Two classes per task: a bright patch on the left or on the right, each task in a channel or mix of its own."""
    rng = np.random.default_rng(seed)
    tints = np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)])

    def images(labels):
        x = rng.integers(0, 60, (len(labels), side, side, 3))
        half = side // 2
        for image, label in zip(x, labels, strict=True):
            columns = slice(0, half) if label % 2 == 0 else slice(side - half, side)
            image[side // 4 : -side // 4, columns] += 180 * tints[label // 2]
        return x.astype(np.uint8)

    y, test_y = (np.repeat(np.arange(2 * tasks), n) for n in (per_class, 10))
    names = tuple(f"class {c}" for c in range(2 * tasks))
    dataset = Dataset("toy", images(y), y, images(test_y), test_y, names, "made by the test")
    return split(dataset, classes_per_task=2, seed=seed)


def reduced(num_classes: int, channels: int = 3, side: int = 12, seed: int = 0) -> Classifier:
    """The reduced ResNet-18 with heads, as a learner builds it from a seed; no task has its classes yet."""
    with seeded(seed):
        backbone = ReducedResNet18(channels)
        found = probe(backbone, (channels, side, side))
        return Classifier(backbone, Heads(found.width, num_classes, seed), found)


def random_batch(count: int, shape=(3, 12, 12), classes=(0, 1), seed: int = 0):
    """Random uint8 images and labels."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, *shape), generator=random, dtype=torch.uint8)
    y = torch.tensor(classes)[torch.randint(0, len(classes), (count,), generator=random)]
    return x, y


class Tape(TorchDispatchMode):
    """What a function does, as a GPU's graph knows it: kernels, and the tensors that they read and write."""

    def __init__(self):
        super().__init__()
        self.kernels, self.replays = [], -1  # recording it here has done it once

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        found = kernel(*args, **(kwargs or {}))
        self.kernels.append((kernel, args, kwargs or {}, found))
        return found

    @torch.no_grad()
    def replay(self):
        self.replays += 1
        for kernel, args, kwargs, found in unversioned(self.kernels) if self.replays else ():
            for place, value in zip(tree_leaves(found), tree_leaves(kernel(*args, **kwargs)), strict=True):
                # where it lies elsewhere it is neither a view nor written in place
                if isinstance(place, torch.Tensor) and place.data_ptr() != value.data_ptr():
                    place.copy_(value)


def unversioned(values):
    """The same, with tensors whose versions nobody sees: a GPU writes behind torch's back."""
    return tree_map(lambda value: value.data if isinstance(value, torch.Tensor) else value, values)


def losses_of(learner, first_steps: int) -> torch.Tensor:
    """Of every step of a toy stream, after some on one class: the first task's head grows once it has been recorded."""
    losses = [learner.observe(*random_batch(5, classes=(0,), seed=step), 0).loss for step in range(first_steps)]
    for task in coloured_squares(per_class=25):
        losses += [learner.observe(x, y, task.id).loss for x, y in task.batches(5)]
        learner.end_task(task)
    return torch.stack(losses)


class Replaying(CudaGraphCache):
    """A cache that records here as on a GPU: what is replayed asks nothing of Python."""

    def __init__(self):
        super().__init__(torch.device("cpu"), Constants())
        self.active, self.tapes = True, []

    def capture(self, function, inputs):
        self.tapes.append(Tape())
        with self.tapes[-1] as tape:
            return tape, function(*inputs)
