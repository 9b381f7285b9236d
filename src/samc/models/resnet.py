"""The reduced ResNet-18 of GEM and SAMC: a third of the usual widths, one linear layer, one head a task."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.models.layers import PLAIN, Layers
from samc.models.start import seeded

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
        self.shortcut: nn.Sequential = nn.Sequential()
        if stride != 1 or width_in != width:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), BatchNorm(width))

    def forward(self, x: Tensor, layers: Layers = PLAIN) -> Tensor:
        inner = layers.normalise(self.norm1, layers.convolve(self.conv1, x))
        beside = x
        if len(self.shortcut):
            convolution, norm = self.shortcut
            beside = layers.normalise(norm, layers.convolve(convolution, x), rectify=False)
        return layers.normalise(self.norm2, layers.convolve(self.conv2, inner), beside)


class ReducedResNet18(nn.Module):
    """Any size of image; `features` is everything before the pooling, `head` the logits of one task's classes."""

    def __init__(self, num_classes: int, channels: int = 3, seed: int = 0):
        super().__init__()
        with seeded(seed):
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
        self.table: Tensor | None = None  # both are made from task_classes, where they are needed
        self.ordered: dict[int, Tensor] = {}

    def assign(self, task: int, classes: Sequence[int]) -> None:
        """Say which classes a task chooses between."""
        if not all(0 <= c < self.num_classes for c in classes):
            raise ConfigError(f"task {task} has classes {tuple(classes)}, the network only 0 to {self.num_classes - 1}")
        known = tuple(sorted(set(classes)))
        if self.task_classes.get(task) != known:
            self.task_classes[task], self.table = known, None
            self.ordered.pop(task, None)

    def features(self, x: Float[Tensor, "b c h w"], layers: Layers = PLAIN) -> Float[Tensor, "b d i j"]:
        convolution, norm, _ = self.stem
        x = layers.normalise(norm, layers.convolve(convolution, x))
        for block in self.blocks:
            x = block(x, layers)
        return x

    def head(self, features: Float[Tensor, "b d i j"], task: int) -> Float[Tensor, "b k"]:
        """Logits of the task's classes, in ascending order of class."""
        rows = self.rows(task)
        return F.linear(features.mean((2, 3)), self.linear.weight[rows], self.linear.bias[rows])

    def rows(self, task: int) -> slice | Int64[Tensor, "k"]:
        """Where a task's classes are among all: neighbours as a slice, whose gradient is a copy, no scattered sum."""
        classes = self.task_classes[task]
        if classes == tuple(range(classes[0], classes[-1] + 1)):
            return slice(classes[0], classes[-1] + 1)
        return self.in_order(task, self.linear.weight.device)

    def in_order(self, task: int, device: torch.device) -> Int64[Tensor, "k"]:
        """A task's classes, on a device: sent there once, since nothing may be sent while a graph is recorded."""
        if task not in self.ordered or self.ordered[task].device != device:
            self.ordered[task] = torch.tensor(self.task_classes[task], device=device)
        return self.ordered[task]

    def choices(self, tasks: Int64[Tensor, "b"]) -> Bool[Tensor, "b n"]:
        """Which of all classes each image is to be told from, by its task."""
        if self.table is None or self.table.device != tasks.device:
            table = torch.zeros(max(self.task_classes) + 1, self.num_classes, dtype=torch.bool)
            for task, classes in self.task_classes.items():
                table[task, list(classes)] = True
            self.table = table.to(tasks.device)
        return self.table[tasks]

    def local(self, y: Int64[Tensor, "b"], task: int) -> Int64[Tensor, "b"]:
        """Labels of the stream as positions in the task's logits."""
        return torch.searchsorted(self.in_order(task, y.device), y)

    def forward(self, x: Float[Tensor, "b c h w"], task: int) -> Float[Tensor, "b k"]:
        return self.head(self.features(x), task)

    def get_extra_state(self) -> dict:
        return {"task_classes": self.task_classes}

    def set_extra_state(self, state: dict) -> None:
        self.task_classes, self.table, self.ordered = dict(state["task_classes"]), None, {}
