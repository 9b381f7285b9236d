"""A multilayer perceptron on the pixels: the network of permuted and rotated MNIST, without its classifier."""

from math import prod

from jaxtyping import Float
from torch import Tensor, nn

WIDTH = 256


class MLP(nn.Module):
    """Two hidden layers with ReLU; images of one size to a vector."""

    def __init__(self, image_shape: tuple[int, int, int], width: int = WIDTH):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(prod(image_shape), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d"]:
        return self.layers(x)
