"""EBM's heads: a class opens or closes the features of an image before they are weighed into one energy."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.models.heads import Heads
from samc.models.start import seeded

HIDDEN = 1024
# as in the authors' network for CIFAR-10


class EnergyHeads(Heads):
    """E(x, y) = −Σ_i w_i·gate_i(y)·h_i(x) − b: one number for an image and a class together.

    h is a linear layer on the pooled features. A class's gates are positive and one on average: softmax of its
    embedding, times its width. What is returned is −E, so that the most likely class has the highest, as everywhere.
    """

    def build(self, count: int) -> None:
        with seeded(self.seed):  # whatever the network before them has drawn
            self.hidden = nn.Linear(self.width, HIDDEN)
            self.embedding = nn.Embedding(count, HIDDEN)
            self.linear = nn.Linear(HIDDEN, 1)

    @property
    def num_classes(self) -> int:
        return len(self.embedding.weight)

    @torch.no_grad()
    def grow(self, count: int) -> None:
        before = self.num_classes
        with seeded(self.seed + before):
            new = nn.Embedding(count - before, HIDDEN).to(self.embedding.weight)
        self.embedding.weight = nn.Parameter(torch.cat([self.embedding.weight, new.weight]))
        self.embedding.num_embeddings = count
        self.changed()

    def forward(self, pooled: Float[Tensor, "b d"], task: int) -> Float[Tensor, "b k"]:
        embedded = self.embedding.weight[self.columns(task)]
        gates = F.softmax(embedded, dim=1) * HIDDEN
        return F.linear(self.hidden(pooled), gates * self.linear.weight) + self.linear.bias
