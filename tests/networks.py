"""Networks of all kinds that a user might bring, small enough for tests."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from samc.models.resnet import BatchNorm, ReducedResNet18
from samc.models.vit import VisionTransformer

SHAPE = (3, 16, 16)


class BasicBlock(nn.Module):
    """As torchvision writes it: a ReLU in place, a downsample that may be None."""

    def __init__(self, width_in: int, width: int, stride: int, norm=nn.BatchNorm2d, **conv):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False, **conv)
        self.bn1 = norm(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.downsample = None
        if stride != 1 or width_in != width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), norm(width))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + identity)


class TorchvisionLike(nn.Module):
    """ResNet-18 as torchvision has it (7x7 stem, max pool), narrow."""

    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = norm(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = (8, 8, 12, 16, 16)
        blocks = []
        for width_in, width, stride in zip(widths, widths[1:], (1, 2, 1, 1), strict=False):
            blocks += [BasicBlock(width_in, width, stride, norm), BasicBlock(width, width, 1, norm)]
        self.layers = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))


class Small(nn.Module):
    """Two convolutions with whatever attributes, flattened by view as older code does it, if asked."""

    def __init__(self, norm=nn.BatchNorm2d, flat: bool = False, **conv):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.norm1 = norm(8)
        self.conv2 = nn.Conv2d(8, 8, 3, 1, **{"padding": 1, **conv})
        self.norm2 = norm(8)
        self.flat = flat

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        return x.view(len(x), -1) if self.flat else x


class Subclass(ReducedResNet18):
    """Other layers than its parent: what ran with ER and failed with GEM."""

    channels_last = False

    def __init__(self):
        super().__init__(3)
        self.extra = nn.Conv2d(160, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.extra(super().forward(x)).tanh()


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(768, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def changed(**attributes):
    """The reduced network with attributes of its layers set otherwise."""

    def make() -> nn.Module:
        network = ReducedResNet18(3)
        for module in network.modules():
            for name, value in attributes.items():
                if isinstance(module, BatchNorm) and hasattr(module, name):
                    setattr(module, name, value)
        return network

    return make


def dilated() -> nn.Module:
    network = ReducedResNet18(3)
    network.blocks[1].conv1.dilation = network.blocks[1].conv1.padding = (2, 2)
    return network


def frozen_stem() -> nn.Module:
    network = ReducedResNet18(3)
    network.stem.requires_grad_(False)
    return network


def group_norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(4, width)


NETWORKS = {
    "reduced": lambda: ReducedResNet18(3),
    "reduced, momentum 0.01": changed(momentum=0.01),
    "reduced, momentum None": changed(momentum=None),
    "reduced, dilation 2": dilated,
    "reduced, frozen stem": frozen_stem,
    "reduced, subclass": Subclass,
    "torchvision-like": TorchvisionLike,
    "group norm": lambda: TorchvisionLike(group_norm),
    "dilation 2": lambda: Small(dilation=2, padding=2),
    "grouped": lambda: Small(groups=4),
    "biases": lambda: Small(bias=True),
    "flattened": lambda: Small(flat=True),
    "mlp": MLP,
    "vit": lambda: VisionTransformer(SHAPE, width=24, depth=2, heads=2),
}
FAST = {"reduced", "reduced, momentum 0.01"}
# those that the engine knows down to every layer


def make(name: str, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[name]()
