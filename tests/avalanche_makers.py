"""Small Avalanche benchmarks and strategies; skips every test of a module where Avalanche is not installed."""

import io
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from avalanche_import import import_avalanche

if import_avalanche() is None:
    pytest.skip("Avalanche is not installed: make test installs it", allow_module_level=True)

from avalanche.benchmarks import nc_benchmark
from avalanche.evaluation.metrics import accuracy_metrics, loss_metrics
from avalanche.logging import TextLogger
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive

from avalanche_side import WithHeads

__all__ = ["WithHeads", "benchmark_of", "learn", "network", "strategy_of"]


def benchmark_of(stream, task_labels=False, **more):
    """A stream's tasks as the experiences of a benchmark, images in [0, 1], sorted by class as the toys are."""

    def joined(parts):
        x, y = (torch.cat(part) for part in zip(*parts, strict=True))
        dataset = TensorDataset(x.float() / 255, y)
        dataset.targets = y.tolist()
        return dataset

    train, test = joined([(task.x, task.y) for task in stream]), joined([(task.test_x, task.test_y) for task in stream])
    return nc_benchmark(train, test, n_experiences=len(stream), task_labels=task_labels, shuffle=False, **more)


def network(width=8):
    """Images to a vector. Batch norm's statistics move in every forward pass; no kink blows up a rounding."""
    return nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU(), nn.Flatten())


def strategy_of(model, *plugins, lr=0.05, kind=Naive, **more):
    """A strategy with Avalanche's own logger and metrics; `log` is where the logger writes."""
    log = io.StringIO()
    metrics = accuracy_metrics(minibatch=True, experience=True), loss_metrics(minibatch=True)
    evaluator = EvaluationPlugin(*metrics, loggers=[TextLogger(log)])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    common = {"train_mb_size": 10, "eval_mb_size": 100, "train_epochs": 1, "evaluator": evaluator}
    strategy = kind(model=model, optimizer=optimizer, plugins=list(plugins), **common, **more)
    strategy.log = log
    return strategy


def learn(strategy, benchmark, shuffle=False):
    """Rows of accuracy on every test experience, after each experience that was learnt."""
    rows = []
    for experience in benchmark.train_stream:
        strategy.train(experience, shuffle=shuffle)
        found = strategy.eval(benchmark.test_stream)
        rows.append(
            [found[name] for name in sorted(found, key=lambda name: name[-6:]) if name.startswith("Top1_Acc_Exp")]
        )
    return rows
