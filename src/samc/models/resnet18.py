"""ResNet-18 as torchvision builds it, without its classifier: the same layers under the same names.

Its state dicts load here, and these there. For small images the reduced ResNet-18 in resnet.py is the better choice:
this one divides each side by 32.
"""

from jaxtyping import Float
from torch import Tensor, nn

from samc.models.resnet import BatchNorm

WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which has a 1x1 convolution where the shape changes."""

    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm(width)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = BatchNorm(width)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or width_in != width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), BatchNorm(width))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        residual = x if self.downsample is None else self.downsample(x)
        inner = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(inner)) + residual)


class ResNet18(nn.Module):
    """Images of any size to a map of 512 channels."""

    def __init__(self, channels: int = 3):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, WIDTHS[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = BatchNorm(WIDTHS[0])
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = stage(WIDTHS[0], WIDTHS[0], stride=1)
        self.layer2 = stage(WIDTHS[0], WIDTHS[1], stride=2)
        self.layer3 = stage(WIDTHS[1], WIDTHS[2], stride=2)
        self.layer4 = stage(WIDTHS[2], WIDTHS[3], stride=2)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):  # torchvision's start; torch's own is smaller
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 512 i j"]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))


def stage(width_in: int, width: int, stride: int) -> nn.Sequential:
    """Two blocks, of which the first may change the shape."""
    return nn.Sequential(BasicBlock(width_in, width, stride), BasicBlock(width, width, 1))
