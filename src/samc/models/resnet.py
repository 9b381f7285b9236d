"""The reduced ResNet-18 of GEM and SAMC as a backbone: a third of the usual widths, a 3x3 stem, no pooling."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (20, 40, 80, 160)


@runtime_checkable
class Layers(Protocol):
    """How a network's layers treat a batch: a convolution, and a batch norm with the sum and the ReLU that follow it.

    A network whose forward pass is written in these two calls tells the engine all that it does (engine/program.py).
    """

    def conv(self, layer: Any, x: Any) -> Any: ...
    def norm(self, layer: Any, x: Any, residual: Any = None, relu: bool = True) -> Any: ...


class PlainLayers:
    """As torch does."""

    def conv(self, layer: nn.Module, x: Tensor) -> Tensor:
        return layer(x)

    def norm(self, layer: nn.Module, x: Tensor, residual: Tensor | None = None, relu: bool = True) -> Tensor:
        y = layer(x)
        y = y if residual is None else y + residual
        return F.relu(y) if relu else y


PLAIN = PlainLayers()


class BatchNorm(nn.BatchNorm2d):
    """Batch norm that also takes a single value per channel: it has no variance, so running statistics serve."""

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

    def forward(self, x: Any, layers: Layers = PLAIN) -> Any:
        inner = layers.norm(self.norm1, layers.conv(self.conv1, x))
        residual = x
        if len(self.shortcut):
            conv, norm = self.shortcut
            residual = layers.norm(norm, layers.conv(conv, x), relu=False)
        return layers.norm(self.norm2, layers.conv(self.conv2, inner), residual)


class ReducedResNet18(nn.Module):
    """Images of any size to a map of 160 channels, an eighth of their height and width."""

    channels_last = True  # faster with images and weights that lie so in memory

    def __init__(self, channels: int = 3):
        super().__init__()
        blocks: list[nn.Module] = []
        for width_in, width, stride in zip((WIDTHS[0], *WIDTHS), WIDTHS, (1, 2, 2, 2), strict=False):
            blocks += [Block(width_in, width, stride), Block(width, width, 1)]
        self.stem = nn.Sequential(nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False), BatchNorm(WIDTHS[0]))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Any, layers: Layers = PLAIN) -> Any:
        """Images (b, c, h, w) to a map (b, d, i, j), or whatever stands for them among other layers."""
        conv, norm = self.stem
        x = layers.norm(norm, layers.conv(conv, x))
        for block in self.blocks:
            x = block(x, layers)
        return x
