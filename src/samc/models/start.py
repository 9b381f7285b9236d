"""The weights that a network starts from: torch's own, drawn from a seed, for one network at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

DRAWING = threading.RLock()
# torch draws them from a random state that all threads share


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global random state, borrowed for torch's own initialisation and given back as it was."""
    with DRAWING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
