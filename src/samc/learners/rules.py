"""Replay rules: a batch and the memories of past tasks to one gradient. Functions that any method can use."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from samc.engine import Batch, Engine
from samc.learners.sampling import sample
from samc.projection import project

REFERENCE_IMAGES = 256
# the most images behind A-GEM's one reference gradient, as in its authors' code for Split CIFAR
Gradient = tuple[Float[Tensor, "p"], Float[Tensor, ""]]
# and the loss of the batch
Rule = Callable[[Engine, Batch, list[Batch], torch.Generator], Gradient]


def er(engine: Engine, batch: Batch, past: list[Batch], random: torch.Generator) -> Gradient:
    """ER (Chaudhry et al. 2019): of the mean loss over the batch and as many images of past tasks, drawn uniformly."""
    replayed = sample(past, len(batch.y), random)
    with engine.clock("current gradient"):
        return engine.gradient([batch, *replayed])


def agem(engine: Engine, batch: Batch, past: list[Batch], random: torch.Generator) -> Gradient:
    """A-GEM (Chaudhry et al. 2019): g − min(0, ⟨g, r⟩/⟨r, r⟩)·r, where r is the gradient on a sample of the past."""
    if not past:
        return er(engine, batch, past, random)
    with engine.clock("gradients"):
        rows, loss = engine.gradients([sample(past, REFERENCE_IMAGES, random)], batch)
    with engine.clock("projection"):
        # a half-space instead of a cone: no margin, and nothing that a ridge would have to tell apart
        return project(rows[-1], rows[:-1], margin=0.0, ridge=0.0), loss


def gem(
    engine: Engine, batch: Batch, past: list[Batch], random: torch.Generator, *, margin: float, most: float = math.inf
) -> Gradient:
    """GEM (Lopez-Paz and Ranzato 2017): the gradient nearest to g with ⟨g, g_k⟩ ≥ 0 for every past task k.

    `most` past tasks constrain a step, drawn anew where there are more.
    """
    if not past:
        return er(engine, batch, past, random)
    if len(past) > most:
        drawn = torch.randperm(len(past), generator=random)[: int(most)].sort().values
        past = [past[place] for place in drawn.tolist()]
    with engine.clock("gradients"):
        rows, loss = engine.gradients([[memory] for memory in past], batch)
    with engine.clock("projection"):
        return project(rows[-1], rows[:-1], margin), loss


RULES: dict[str, Callable[..., Gradient]] = {"gem": gem, "agem": agem, "er": er}
