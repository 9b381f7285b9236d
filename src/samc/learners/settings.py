"""Settings that methods share: of every network, of an average that old heads are held to, of an episodic memory."""

from dataclasses import dataclass, replace
from typing import Any

from samc.config import Settings, Terms, setting
from samc.errors import ConfigError
from samc.learners.augmentation import AUGMENTATIONS
from samc.learners.scenario import BOUNDARIES, SCENARIOS
from samc.memory.budget import parse_budget


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Settings of every method."""

    lr: float = setting(0.1, "step size of plain SGD", above=0, hint="the paper uses 0.1")
    backbone: str = setting(
        "reduced-resnet18",
        "the network: reduced-resnet18, resnet18, mlp, vit-tiny, timm:NAME or package.module:factory",
        group="what to learn",
    )
    weights: str | None = setting(
        None,
        "a local file that the network starts from: safetensors, or torch's own of weights only",
        group="what to learn",
    )
    average: float = setting(
        0.0,
        "an exponential average of the network answers, over about 1/(1 - this) steps: fewer than a task has; 0: the "
        "network itself",
        least=0,
        below=1,
        hint="0.99 is a good start",
        before=0.0,
    )
    augment: str = setting(
        "none", "what is done to images before each step, replayed ones too", choices=AUGMENTATIONS, before="none"
    )
    scenario: str = setting(
        "task",
        "whether images are tested with their task, or alone among all classes seen, or in domains of the same classes",
        choices=SCENARIOS,
        group="what to learn",
    )
    boundaries: str = setting(
        "told",
        "whether a learner is told when a task begins and ends; hidden needs scenario class or domain",
        choices=BOUNDARIES,
        group="what to learn",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boundaries == "hidden" and self.scenario == "task":
            raise ConfigError("where boundaries are hidden no task is known at test; add --scenario class or domain")
        if reason := self.meaningless():
            raise ConfigError(reason)

    def meaningless(self) -> str:
        """Why a method means nothing in its scenario, and what to do instead; most mean something in all."""
        return ""

    def without_files(self) -> Any:
        return replace(self, weights=None)


@dataclass(frozen=True, kw_only=True)
class HoldingSettings(NetworkSettings):
    """Settings of methods that can hold old heads to the average of the network."""

    distil: float = setting(
        0.0,
        "weight of the mean squared difference of old heads' logits to the average's",
        least=0,
        hint="1 is a good start",
        before=0.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distil and not self.average:
            raise ConfigError("--distil holds old heads to the average of the network; add --average 0.99")


@dataclass(frozen=True, kw_only=True)
class MemorySettings(Terms, NetworkSettings):
    """Settings of methods with an episodic memory."""

    codec: str = setting(
        "raw",
        "how images are kept: auto (by the budget), raw, thumb:N, jpeg:Q or webp:Q, at N pixels a side with @N; samc "
        "also coo, bitmask or cam, each with +deflate too, gist:jpeg:Q+cam, focus:jpeg:Q, crop:N:jpeg:Q",
        group="memory",
    )
    replay_size: int = setting(
        0, "remembered images that a step draws; 0: as many as the method's paper says", least=0, before=0
    )
    replay_weight: float = setting(
        0.0,
        "loss = mean over the batch + this times the mean over the replay; 0: as the method's paper says",
        least=0,
        hint="1 is a good start",
        before=0.0,
    )

    def meaningless(self) -> str:
        if self.boundaries == "hidden" and (self.memory_bytes is None or parse_budget(self.memory_bytes).per_task):
            return "where boundaries are hidden no budget is per task; say one for all, such as --memory-bytes 600KB"
        return super().meaningless()


@dataclass(frozen=True, kw_only=True)
class KeepingSettings(MemorySettings, HoldingSettings):
    """Settings of methods that keep images as they come."""

    keeps: str = setting(
        "newest",
        "what a full memory holds of a task, its newest images or a uniform sample of all",
        choices=("newest", "sample"),
        group="memory",
    )
    replay_current: bool = setting(
        False, "whether what is remembered of the current task is replayed too", before=False
    )
    steps_per_batch: int = setting(
        1,
        "steps on each batch, every one with another draw from memory, and augmented anew",
        least=1,
        hint="2 to 10 are usual",
    )
    batch_classes: str = setting(
        "seen",
        "classes that a batch's loss runs over where there is one head, its replay's over all: all that were seen, the "
        "batch's own (as in ER-ACE), or its task's",
        choices=("seen", "batch", "task"),
    )

    def idle(self) -> dict[str, str]:
        found = super().idle()
        if self.scenario == "task":
            found["batch_classes"] = "where each task has a head; add --scenario class, or leave it out"
        if self.boundaries == "hidden":
            found["replay_current"] = "where boundaries are hidden: all memory is replayed; leave it out"
        return found

    def meaningless(self) -> str:
        if self.boundaries == "hidden" and self.batch_classes == "task":
            return "hidden boundaries do not tell a task's classes; take --batch-classes batch or seen"
        if self.boundaries == "hidden" and self.keeps == "newest":
            return "where boundaries are hidden the newest images are none of the past's; add --keeps sample"
        return super().meaningless()


@dataclass(frozen=True, kw_only=True)
class ConstraintSettings(KeepingSettings):
    """Settings of methods to which memory is a constraint, and no part of the loss."""

    @property
    def constrains(self) -> bool:
        return True

    def idle(self) -> dict[str, str]:
        constrained = "where memory only constrains a step; leave it out"
        return super().idle() | (
            dict.fromkeys(("replay_weight", "replay_current"), constrained) if self.constrains else {}
        )
