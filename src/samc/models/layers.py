"""How a network's layers treat a batch; who wants them to treat it otherwise passes something else of this shape."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.nn import functional as F


@runtime_checkable
class Layers(Protocol):
    """A convolution, and a batch norm with what follows it: the sum with a shortcut, and the ReLU."""

    def convolve(self, layer: Any, x: Tensor) -> Tensor: ...
    def normalise(self, layer: Any, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor: ...


class Plain:
    """As torch does."""

    def convolve(self, layer: Any, x: Tensor) -> Tensor:
        return layer(x)

    def normalise(self, layer: Any, x: Tensor, beside: Tensor | None = None, rectify: bool = True) -> Tensor:
        y = layer(x)
        y = y if beside is None else y + beside
        return F.relu(y) if rectify else y


PLAIN = Plain()
