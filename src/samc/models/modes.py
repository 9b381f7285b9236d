"""Train and eval mode, borrowed for a block of code: every module's own mode comes back after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn

Mode = Literal["eval", "train"]


@contextmanager
def in_mode(model: nn.Module, mode: Mode) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules()]
    model.train(mode == "train")
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
