"""Replay rules: a batch and the memories of past tasks to one gradient. Functions that any method can use."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from samc.engine import Batch, Engine
from samc.errors import ConfigError
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


def choose_rule(name: str, settings: Any) -> Rule:
    """A rule by its name, with the settings of GEM's cone where it has one; a mean constraint is A-GEM's."""
    if name != "gem":
        return RULES[name]
    mean, most = parse_constraints(settings.constraints)
    if mean:
        return agem

    def rule(engine: Engine, batch: Batch, past: list[Batch], random: torch.Generator) -> Gradient:
        return gem(engine, batch, past, random, margin=settings.memory_strength, most=most)

    return rule


def parse_constraints(text: str) -> tuple[bool, float]:
    """Whether one mean gradient stands for all past tasks, and how many of them constrain a step."""
    kind, _, number = text.partition(":")
    if text in ("all", "mean"):
        return text == "mean", math.inf
    if kind == "sampled" and number.isdecimal() and int(number) > 0:
        return False, float(number)
    raise ConfigError(f"constraints are all, mean, or sampled:K with K from 1; got {text!r}")


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
