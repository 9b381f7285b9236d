"""The reduced ResNet-18 of GEM and SAMC: a third of the usual widths, one linear layer, one head a task."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError

WIDTHS = (20, 40, 80, 160)


class BatchNorm(nn.BatchNorm2d):
    """Batch norm that also takes a single value a channel: it has no variance, so running statistics serve."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.norm1 = BatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = BatchNorm(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or width_in != width:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), BatchNorm(width))

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ReducedResNet18(nn.Module):
    """Any size of image; `features` is everything before the pooling, `head` the logits of one task's classes."""

    def __init__(self, num_classes: int, channels: int = 3, seed: int = 0):
        super().__init__()
        # the global random state is borrowed for torch's own initialisation and given back as it was
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            blocks: list[nn.Module] = []
            for width_in, width, stride in zip((WIDTHS[0], *WIDTHS), WIDTHS, (1, 2, 2, 2), strict=False):
                blocks += [Block(width_in, width, stride), Block(width, width, 1)]
            self.stem = nn.Sequential(
                nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False), BatchNorm(WIDTHS[0]), nn.ReLU()
            )
            self.blocks = nn.Sequential(*blocks)
            self.linear = nn.Linear(WIDTHS[-1], num_classes)
        self.num_classes = num_classes
        self.task_classes: dict[int, tuple[int, ...]] = {}

    def assign(self, task: int, classes: Sequence[int]) -> None:
        """Say which classes a task chooses between."""
        if not all(0 <= c < self.num_classes for c in classes):
            raise ConfigError(f"task {task} has classes {tuple(classes)}, the network only 0 to {self.num_classes - 1}")
        self.task_classes[task] = tuple(sorted(set(classes)))

    def features(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 160 i j"]:
        return self.blocks(self.stem(x))

    def head(self, features: Float[Tensor, "b 160 i j"], task: int) -> Float[Tensor, "b k"]:
        """Logits of the task's classes, in ascending order of class."""
        rows = as_index(self.task_classes[task])
        return F.linear(features.mean((2, 3)), self.linear.weight[rows], self.linear.bias[rows])

    def local(self, y: Int64[Tensor, "b"], task: int) -> Int64[Tensor, "b"]:
        """Labels of the stream as positions in the task's logits."""
        return torch.searchsorted(torch.tensor(self.task_classes[task], device=y.device), y)

    def forward(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        return self.head(self.features(x), task)

    def get_extra_state(self) -> dict:
        return {"task_classes": self.task_classes}

    def set_extra_state(self, state: dict) -> None:
        self.task_classes = dict(state["task_classes"])


def as_index(classes: tuple[int, ...]) -> slice | list[int]:
    """Neighbouring classes as a slice, whose gradient is a copy and not a scattered sum."""
    if classes == tuple(range(classes[0], classes[-1] + 1)):
        return slice(classes[0], classes[-1] + 1)
    return list(classes)
