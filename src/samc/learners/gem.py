"""GEM (Lopez-Paz and Ranzato 2017): whole images in memory, and a step that no past task's gradient objects to."""

from dataclasses import dataclass

from samc.config import setting
from samc.engine import PRECISIONS
from samc.learners.rehearsal import KeepingSettings, RehearsalLearner
from samc.learners.rules import choose_rule


@dataclass(frozen=True, kw_only=True)
class ConeSettings(KeepingSettings):
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


class GEM(RehearsalLearner):
    """θ ← θ − α·project(g, {g_k : k < t}); the last images of each task are kept whole."""

    Settings = ConeSettings

    def setup(self) -> None:
        super().setup()
        self.rule = choose_rule("gem", self.settings)
