"""ER (Chaudhry et al. 2019): each batch is learnt together with as many images from a reservoir of the past."""

from dataclasses import dataclass

from samc.config import setting, with_default
from samc.learners import rules
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.settings import KeepingSettings


@dataclass(frozen=True, kw_only=True)
class ReservoirSettings(KeepingSettings):
    """Settings of methods whose memory is a uniform sample."""

    keeps: str = with_default(KeepingSettings, "keeps", "sample")


@dataclass(frozen=True, kw_only=True)
class ERSettings(ReservoirSettings):
    """Settings of ER."""

    replay_one_by_one: bool = setting(
        False,
        "whether each replayed image goes through the network alone, and batch norm normalises it by itself",
        before=False,
    )


class ER(RehearsalLearner):
    """θ ← θ − α·∇ mean loss over B ∪ B_M, with B_M drawn uniformly from the memories of past tasks."""

    Settings = ERSettings
    rule = staticmethod(rules.er)
