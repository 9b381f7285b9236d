"""Avalanche's side of a comparison: a learner's network as its model, a stream as its benchmark, its strategies."""

import copy
import warnings
from typing import Any

import torch
from avalanche.benchmarks import benchmark_from_datasets, task_incremental_benchmark, with_classes_timeline
from avalanche.benchmarks.utils import AvalancheDataset
from avalanche.models import MultiTaskModule
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import AGEM, GEM, Replay
from torch import nn
from torch.utils.data import TensorDataset

from samc.learners import NetworkLearner
from samc.streams import Stream

STRATEGIES = {"gem": GEM, "agem": AGEM, "er": Replay}


class WithHeads(MultiTaskModule):
    """A copy of a learner's network that is told each image's task: one pass for all, each among its task's classes."""

    def __init__(self, learner: NetworkLearner):
        super().__init__()
        # laid out as torch does it: Avalanche's A-GEM takes no gradients with their channels last
        self.inner = copy.deepcopy(learner.model).to(memory_format=torch.contiguous_format)

    def forward(self, x: torch.Tensor, task_labels: torch.Tensor) -> torch.Tensor:
        logits = self.inner.heads.linear(self.inner.pooled(self.inner.features(x)))
        return logits.masked_fill(~self.inner.heads.masks(task_labels), -torch.inf)


def benchmark_of(parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]) -> Any:
    """Tasks (x, y, test_x, test_y) as the experiences of a benchmark, images in [0, 1], in their very order.

    Avalanche's own generators sort a task's images by class.
    """

    def data(x: torch.Tensor, y: torch.Tensor) -> AvalancheDataset:
        return AvalancheDataset([TensorDataset(x.float() / 255, y)]).update_data_attribute("targets", y.tolist())

    train, test = [data(x, y) for x, y, _, _ in parts], [data(x, y) for _, _, x, y in parts]
    return with_classes_timeline(task_incremental_benchmark(benchmark_from_datasets(train=train, test=test)))


def as_batches(stream: Stream, batch_size: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """A stream's tasks with their images in the order in which we learn them."""
    parts = []
    for task in stream:
        x, y = (torch.cat(part) for part in zip(*task.batches(batch_size), strict=True))
        parts.append((x, y, task.test_x, task.test_y))
    return parts


def strategy_of(name: str, model: nn.Module, lr: float, batch_size: int, **memory: Any) -> Any:
    """One of Avalanche's own, without loggers and metrics."""
    given = {"train_mb_size": batch_size, "train_epochs": 1, "criterion": nn.CrossEntropyLoss()}
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = EvaluationPlugin()
        return STRATEGIES[name](model=model, optimizer=optimizer, evaluator=evaluator, **given, **memory)
