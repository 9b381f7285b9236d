"""Every part on: the settings with which a memory is used best, chosen on held-out training images."""

from dataclasses import dataclass

from samc.config import with_default
from samc.learners.gem import ConeSettings
from samc.learners.settings import HoldingSettings, KeepingSettings, MemorySettings, NetworkSettings


@dataclass(frozen=True, kw_only=True)
class BestSettings(ConeSettings):
    """Settings of a method that replays, with other defaults."""

    lr: float = with_default(NetworkSettings, "lr", 0.03)
    codec: str = with_default(MemorySettings, "codec", "auto")
    keeps: str = with_default(KeepingSettings, "keeps", "sample", before="newest")
    average: float = with_default(NetworkSettings, "average", 0.99)
    augment: str = with_default(NetworkSettings, "augment", "flip")
    distil: float = with_default(HoldingSettings, "distil", 1.0)
    replay_size: int = with_default(MemorySettings, "replay_size", 30)
    replay_weight: float = with_default(MemorySettings, "replay_weight", 1.0)
    replay_current: bool = with_default(KeepingSettings, "replay_current", True)
