"""Drawing images from the memories of several tasks."""

import torch
from jaxtyping import Int64
from torch import Tensor

from samc.engine import Batch


def sample(batches: list[Batch], size: int, random: torch.Generator) -> list[Batch]:
    """A uniform sample without replacement over all images, sorted by batch."""
    count = sum(len(batch.y) for batch in batches)
    return pick(batches, torch.randperm(count, generator=random)[:size]) if count else []


def pick(batches: list[Batch], rows: Int64[Tensor, "n"]) -> list[Batch]:
    """Some images of several batches, by their place in all of them together; batches without any are left out."""
    rows, picked, first = rows.sort().values, [], 0
    for batch in batches:
        last = first + len(batch.y)
        mine = (rows[(rows >= first) & (rows < last)] - first).to(batch.y.device)
        if len(mine):
            picked.append(Batch(batch.x[mine], batch.y[mine], batch.task))
        first = last
    return picked
