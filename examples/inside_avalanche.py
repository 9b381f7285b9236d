"""Inside Avalanche: its strategy, loop, logger and metrics, and our memory by one line. Needs samc[avalanche]."""

import sys

import torch
from avalanche.benchmarks import nc_benchmark
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.logging import TextLogger
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import TensorDataset

import samc
from samc.avalanche import CompressedReplayPlugin

PER_CLASS = int(sys.argv[1]) if sys.argv[1:] else 140  # images; give a smaller number to try it out


class Labelled(TensorDataset):
    targets = property(lambda self: self.tensors[1].tolist())


stream = samc.streams.split_synthetic(seed=0, train_per_class=PER_CLASS)
train = Labelled(torch.cat([task.x / 255 for task in stream]), torch.cat([task.y for task in stream]))
test = Labelled(torch.cat([task.test_x / 255 for task in stream]), torch.cat([task.test_y for task in stream]))
benchmark = nc_benchmark(train, test, n_experiences=5, task_labels=False, shuffle=False)
sizes = ((3, 16), (16, 32), (32, 64))
body = [layer for i, o in sizes for layer in (nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU())]
model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 20))
plugin = CompressedReplayPlugin("150KB", codec="jpeg:20", batch_size_mem=30)  # the one line
metrics = EvaluationPlugin(accuracy_metrics(stream=True), loggers=[TextLogger()])
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
strategy = Naive(model=model, optimizer=sgd, train_mb_size=10, plugins=[plugin], evaluator=metrics)
for experience in benchmark.train_stream:
    strategy.train(experience)
    strategy.eval(benchmark.test_stream)  # among all 20 classes, no task is told
print(plugin.memory)
