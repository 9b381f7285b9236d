"""The energy network of EBM: the reduced ResNet-18, whose features a class opens or closes before they are weighed."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.models.resnet import WIDTHS, ReducedResNet18
from samc.models.start import seeded

HIDDEN = 1024
# as in the authors' network for CIFAR-10


class EnergyNetwork(ReducedResNet18):
    """E(x, y) = −Σ_i w_i·gate_i(y)·h_i(x) − b: one number for an image and a class together.

    h is a linear layer on the pooled features. A class's gates are positive and one on average: softmax of its
    embedding, times its width. `head` returns −E, so that the most likely class has the highest score, as everywhere.
    """

    def __init__(self, num_classes: int, channels: int = 3, seed: int = 0):
        super().__init__(num_classes, channels, seed)
        with seeded(seed):
            self.hidden = nn.Linear(WIDTHS[-1], HIDDEN)
            self.embedding = nn.Embedding(num_classes, HIDDEN)
            self.linear = nn.Linear(HIDDEN, 1)

    def head(self, features: Float[Tensor, "b d i j"], task: int) -> Float[Tensor, "b k"]:
        embedded = self.embedding.weight[self.rows(task)]
        gates = F.softmax(embedded, dim=1) * HIDDEN
        return F.linear(self.hidden(features.mean((2, 3))), gates * self.linear.weight) + self.linear.bias
