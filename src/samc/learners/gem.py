"""GEM (Lopez-Paz and Ranzato 2017): whole images in memory, and a step that no past task's gradient objects to."""

import math
from dataclasses import dataclass
from functools import partial

from samc.config import setting
from samc.engine import PRECISIONS
from samc.errors import ConfigError
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.rules import RULES, Rule, agem, gem
from samc.learners.settings import ConstraintSettings


@dataclass(frozen=True, kw_only=True)
class ConeSettings(ConstraintSettings):
    """Settings of GEM's cone."""

    memory_strength: float = setting(
        0.5,
        "GEM's margin: the least weight of each past task in a projection",
        least=0,
        hint="the paper uses 0.5",
    )
    constraints: str = setting(
        "all", "past tasks that a step must not harm: all, sampled:K (drawn anew), or their mean"
    )
    reference_precision: str = setting(
        "float32", "of past tasks' gradients; the batch's own is float32", choices=tuple(PRECISIONS)
    )


@dataclass(frozen=True, kw_only=True)
class GEMSettings(ConeSettings):
    """Settings of GEM."""

    def meaningless(self) -> str:
        return no_cone(self) or super().meaningless()


class GEM(RehearsalLearner):
    """θ ← θ − α·project(g, {g_k : k < t}); the last images of each task are kept whole."""

    Settings = GEMSettings

    def setup(self) -> None:
        super().setup()
        self.rule = choose_rule("gem", self.settings)


def choose_rule(name: str, settings: ConeSettings) -> Rule:
    """A rule by its name, with the settings of GEM's cone where it has one; a mean constraint is A-GEM's."""
    if name != "gem":
        return RULES[name]
    mean, most = parse_constraints(settings.constraints)
    return agem if mean else partial(gem, margin=settings.memory_strength, most=most)


def no_cone(settings: ConeSettings) -> str:
    """Why there is none: its constraints are one per task."""
    if settings.boundaries == "told" or settings.constraints == "mean":
        return ""
    remedy = "--constraints mean --keeps sample, agem or er have one memory of all"
    return f"gem has a constraint per task, and hidden boundaries tell of none; {remedy}, or take told"


def parse_constraints(text: str) -> tuple[bool, float]:
    """Whether one mean gradient stands for all past tasks, and how many of them constrain a step."""
    kind, _, number = text.partition(":")
    if text in ("all", "mean"):
        return text == "mean", math.inf
    if kind == "sampled" and number.isdecimal() and int(number) > 0:
        return False, float(number)
    raise ConfigError(f"constraints are all, mean, or sampled:K with K from 1; got {text!r}")
