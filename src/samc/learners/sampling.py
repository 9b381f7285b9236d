"""Drawing images from the memories of several tasks."""

from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from samc.engine import Batch
from samc.models.classifier import confined


def mixed(batches: Sequence[Batch]) -> Batch:
    """Several batches as one, in which each image has its own task."""
    x, y = torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])
    return Batch(x, y, torch.cat([batch.tasks for batch in batches]), confined(batches))


def sample(batches: Sequence[Batch], size: int, random: torch.Generator) -> list[Batch]:
    """A uniform sample without replacement over all images, as one batch in the order of theirs; or none."""
    count = sum(len(batch.y) for batch in batches)
    return [pick(batches, torch.randperm(count, generator=random)[:size])] if count else []


def pick(batches: Sequence[Batch], rows: Int64[Tensor, "n"]) -> Batch:
    """Some images of several batches, by their place in all of them together, in that order."""
    rows, picked, first = rows.sort().values, [], 0
    for batch in batches:
        last = first + len(batch.y)
        mine = (rows[(rows >= first) & (rows < last)] - first).to(batch.y.device)
        if len(mine):
            among = None if batch.among is None else batch.among[mine]
            picked.append(Batch(batch.x[mine], batch.y[mine], batch.tasks[mine], among))
        first = last
    return mixed(picked) if len(picked) > 1 else picked[0]
