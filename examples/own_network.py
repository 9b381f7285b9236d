"""Your own network: any nn.Module that turns images into a map, tokens or a vector; heads are samc's."""

import sys

from torch import nn

import samc

PER_CLASS = int(sys.argv[1]) if sys.argv[1:] else 140  # images; give a smaller number to try it out


class Network(nn.Module):
    """Two convolutions and a residual one: a map of 64 channels, a quarter of the image's sides."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU())

    def forward(self, x):
        x = self.down(self.stem(x))
        return x + self.block(x)


stream = samc.streams.split_synthetic(seed=0, train_per_class=PER_CLASS)
learner = samc.SAMC(image_shape=(3, 32, 32), model=Network(), lr=0.05, average=0.9, memory_bytes="30KB/task")
record = samc.run(stream, learner)
print(learner.model.found)  # what the network gives: kind, width, grid
print(learner.engine.way)  # how its gradients are computed, and why
print(learner)
for tasks, row in enumerate(record.accuracy_matrix):
    print(f"after {tasks} tasks: " + "  ".join(f"{100 * accuracy:5.1f} %" for accuracy in row))
print(f"ACC {100 * record.acc:.1f} %, BWT {100 * record.bwt:+.1f}")
