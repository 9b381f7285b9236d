"""Your own DataLoaders, one per task: their order, batch size and random transforms; the loop may be yours too."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import samc

PER_CLASS = int(sys.argv[1]) if sys.argv[1:] else 140  # images; give a smaller number to try it out
MEAN, STD, SIZES = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), ((3, 16), (16, 32), (32, 64))


def loader(x: torch.Tensor, y: torch.Tensor, shuffle: bool) -> DataLoader:
    """Normalised floats, as most pipelines give them: the learner is told mean and std, and keeps pixels."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    dataset = TensorDataset((x.float() / 255 - mean) / std, y)
    return DataLoader(dataset, batch_size=16, shuffle=shuffle, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    return nn.Sequential(*(part for i, o in SIZES for part in (nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU())))


stream = samc.streams.split_synthetic(seed=0, train_per_class=PER_CLASS)
trains = [loader(task.x, task.y, shuffle=True) for task in stream]
tests = [loader(task.test_x, task.test_y, shuffle=False) for task in stream]
known = {"image_shape": (3, 32, 32), "mean": MEAN, "std": STD, "lr": 0.1, "average": 0.9}
record = samc.run(list(zip(trains, tests, strict=True)), samc.SAMC(model=network(), **known))  # with samc's own loop
print(record)
learner = samc.ER(model=network(), codec="jpeg:20", replay_size=30, **known)
for task, batches in enumerate(trains):  # with yours: observe, and predict at any time
    for x, y in batches:
        learner.observe(x, y, task)
for task, batches in enumerate(tests):
    right = [(learner.predict(x, task) == y).float() for x, y in batches]
    print(f"task {task}: {100 * torch.cat(right).mean():.1f} %")
print(learner.memory)
