"""Replay rules: a batch and the memories of past tasks to one gradient. Functions that any method can use."""

import math
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from samc.engine import Batch, Engine
from samc.learners.replay import Replay
from samc.projection import project

REFERENCE_IMAGES = 256
# the most images behind A-GEM's one reference gradient, as in its authors' code for Split CIFAR
Gradient = tuple[Float[Tensor, "p"], Float[Tensor, ""]]
# and the loss of the batch
Rule = Callable[[Engine, Batch, Replay], Gradient]


def er(engine: Engine, batch: Batch, replay: Replay) -> Gradient:
    """ER (Chaudhry et al. 2019): of the mean loss over the batch and as many images of past tasks, drawn uniformly."""
    drawn = replay.draw(len(batch.y))
    weights, held = replay.weights(batch, drawn), replay.held()
    with engine.clock("current gradient"):
        return engine.gradient([batch, *drawn], weights, held, apart=replay.alone)


def agem(engine: Engine, batch: Batch, replay: Replay) -> Gradient:
    """A-GEM (Chaudhry et al. 2019): g − min(0, ⟨g, r⟩/⟨r, r⟩)·r, where r is the gradient on a sample of the past."""
    drawn = replay.draw(REFERENCE_IMAGES)
    if not drawn:
        return er(engine, batch, replay)
    g, past, loss = replay.gradients(engine, batch, [drawn])
    with engine.clock("projection"):
        # a half-space instead of a cone: no margin, and nothing that a ridge would have to tell apart
        return project(g, past, margin=0.0, ridge=0.0), loss


def gem(engine: Engine, batch: Batch, replay: Replay, *, margin: float, most: float = math.inf) -> Gradient:
    """GEM (Lopez-Paz and Ranzato 2017): the gradient nearest to g with ⟨g, g_k⟩ ≥ 0 for every past task k.

    `most` past tasks constrain a step, drawn anew where there are more.
    """
    if not replay.past:
        return er(engine, batch, replay)
    memories = replay.memories(most)
    g, past, loss = replay.gradients(engine, batch, [[memory] for memory in memories])
    with engine.clock("projection"):
        return project(g, past, margin), loss


RULES: dict[str, Callable[..., Gradient]] = {"gem": gem, "agem": agem, "er": er}
