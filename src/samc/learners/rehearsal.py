"""Rehearsal: what methods share that replay past tasks: dense images while a task lasts, an episodic memory behind."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from samc.engine import Batch
from samc.engine.plain import features_of
from samc.errors import ConfigError, DataError
from samc.learners.base import NetworkLearner
from samc.learners.contract import StepStats
from samc.learners.fitting import check_state
from samc.learners.inputs import Images, Labels, TaskId, as_labels
from samc.learners.live import LiveMemory
from samc.learners.replay import Replay
from samc.learners.rules import Rule
from samc.learners.settings import KeepingSettings, MemorySettings
from samc.memory import AUTO, Budget, EpisodicMemory, budget_of, codec_for, full_selection, parse_codec
from samc.memory.stored import StoredImage
from samc.models.classifier import in_mode
from samc.streams.base import Task

ROOMY = 2
# raw images: more than the largest picture of one takes, so that none needs to be tried


class ReplayLearner(NetworkLearner):
    """Uses images of past tasks in every step; a method says which (`recall`)."""

    def setup(self) -> None:
        settings = self.settings
        self.replay = Replay(self.random, self.augmented)
        if getattr(settings, "distil", 0):
            self.replay.held = self.held
        self.replay.size, self.replay.weight = (getattr(settings, f"replay_{name}", 0) for name in ("size", "weight"))
        self.replay.alone = getattr(settings, "replay_one_by_one", False)
        if self.replay.alone:
            self.check_one_image()
        self.working_set_bytes = 0

    @torch.no_grad()
    def check_one_image(self) -> None:
        """Not every network takes a batch of one: better known now than when the second task begins."""
        x = torch.zeros(1, *self.image_shape, device=self.device)
        try:
            with in_mode(self.model, "batch"):
                features_of(self.model, x)
        except DataError:
            why = "a single image leaves this network's batch norm one value per channel, no variance"
            raise ConfigError(f"{why}; leave out --replay-one-by-one, or take larger images") from None

    @property
    def past(self) -> list[Batch]:
        """The memories of all other tasks, dense and on the device, while a task lasts."""
        return self.replay.past

    def begin(self, task: int) -> None:
        super().begin(task)
        self.replay.prepare(self.recall())
        self.working_set_bytes = self.dense_bytes()

    def dense_bytes(self) -> int:
        """Of the images that lie on the device now for steps to come."""
        return self.replay.nbytes

    def end_task(self, task: Task) -> None:
        self.working_set_bytes = self.dense_bytes()  # no less than when the task began
        super().end_task(task)
        self.replay.prepare([])  # what completes memories may change now, and dense images need not lie about

    def recall(self) -> list[Batch]:
        raise TypeError(f"{type(self).__name__} does not say what it replays: define recall")

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"working_set_bytes": self.working_set()}

    def working_set(self) -> int:
        """The dense bytes of the task that is learnt, or of the last one at its end."""
        return self.dense_bytes() if self.begun else self.working_set_bytes

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"working_set_bytes": self.working_set()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.working_set_bytes = state["working_set_bytes"]
        self.replay.prepare([])  # recalled from what is kept when the task goes on, bit for bit the same


class RehearsalLearner(ReplayLearner):
    """Replays images from an episodic memory by a `rule`; keeps each batch whole, unless a method chooses."""

    Settings: ClassVar[type[MemorySettings]] = KeepingSettings
    salient: ClassVar[bool] = False  # whether a method knows which pixels matter, and its codec may use that
    note: ClassVar[str | None] = None  # the name of what a method keeps with each image, if it does
    rule: Rule

    def setup(self) -> None:
        super().setup()
        settings = self.settings
        self.steps_per_batch = getattr(settings, "steps_per_batch", 1)  # more: RAR (Zhang et al. 2022)
        self.budget_images = settings.buffer_size if settings.memory_bytes is None else None
        budget = self.budget_for(self.num_classes)
        # of its own: images may arrive a step late, and what is drawn meanwhile must not depend on when
        self.keeping_random = torch.Generator().manual_seed(self.seed)
        reservoir = self.keeping_random if getattr(settings, "keeps", None) == "sample" else None
        spec = codec_for(budget, self.image_shape, self.salient) if settings.codec == AUTO else settings.codec
        codec = parse_codec(spec, self.image_shape, self.model.found.grid)
        self.stored = EpisodicMemory(codec, self.num_classes, budget, settings.accounting, reservoir, self.note)
        self.live = LiveMemory(self.decoded)
        self.own_classes: tuple[Hashable, Tensor] | None = None
        current = getattr(settings, "replay_current", False) and "replay_current" not in settings.idle()
        if current or not self.scenario.told:
            self.replay.current = self.current_memory

    def budget_for(self, num_classes: int | None) -> Budget:
        terms = self.settings
        return budget_of(self.image_shape, num_classes, terms.buffer_size, terms.accounting, terms.memory_bytes)

    def fit_classes(self, count: int) -> None:
        if self.num_classes is not None:  # else labels have had room for all that may come from the beginning
            self.memory.fit_classes(count, self.budget_for(count))
        super().fit_classes(count)

    def expect(self, images: Iterable[UInt8[np.ndarray, "n c h w"]] = ()) -> None:
        tasks = len(self.declared | set(self.stored.by_task))
        roomy = self.stored.share(tasks) >= ROOMY * int(np.prod(self.image_shape))
        self.stored.check_room(max(1, tasks), self.note_bytes(), () if roomy else images)

    def among(self, y: Int64[Tensor, "b"], task: int) -> Bool[Tensor, "b n"] | None:
        """ER-ACE (Caccia et al. 2022): what is new is learnt among what is new, and pushes no old class away."""
        kind, heads = getattr(self.settings, "batch_classes", "seen"), self.model.heads
        if kind == "seen":
            return None
        if kind == "batch":
            return (
                torch.zeros(heads.num_classes, dtype=torch.bool, device=y.device)
                .index_fill(0, y, True)
                .expand(len(y), -1)
            )
        key = heads.task_classes[task], heads.num_classes
        if self.own_classes is None or self.own_classes[0] != key:  # sent to the device once
            row = torch.zeros(heads.num_classes, dtype=torch.bool)
            row[list(heads.task_classes[task])] = True
            self.own_classes = key, row.to(y.device)
        return self.own_classes[1].expand(len(y), -1)

    def note_bytes(self) -> int:
        """The most bytes that the method keeps with an image."""
        return 0

    @property
    def memory(self) -> EpisodicMemory:
        """The episodic memory; what is still on its way into it arrives first."""
        self.engine.deferred.flush()
        return self.stored

    def begin(self, task: int) -> None:
        self.memory.task(task)  # a common budget is shared out before anything is chosen for it
        super().begin(task)

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        self.live = LiveMemory(self.decoded)  # as with those of past tasks: should this one go on, they are made anew

    def dense_bytes(self) -> int:
        return super().dense_bytes() + self.live.nbytes

    def recall(self) -> list[Batch]:
        return [self.dense_memory(task) for task in self.memory.tasks if task != self.current_task]

    def dense_memory(self, task: int) -> Batch:
        """A task's memory as the network takes it."""
        images, masks, labels = self.memory.recall(task)
        return Batch(self.complete(images, masks), torch.from_numpy(labels).to(self.device), task)

    def current_memory(self) -> LiveMemory:
        """What is remembered of the current task so far: images of earlier steps."""
        assert self.current_task is not None
        held = self.memory.task(self.current_task)
        with self.clock.on_host("decoding"):
            self.live.look(held.images, self.current_task)
        return self.live

    def decoded(self, images: Sequence[StoredImage]) -> tuple[Tensor, Tensor]:
        pixels, masks = self.stored.codec.decode([image.blob for image in images])
        return self.complete(pixels, masks), torch.from_numpy(self.stored.labels(images)).to(self.device)

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Remembered images in [0, 1]; of methods that keep them whole, as they are."""
        return torch.from_numpy(images).to(self.device, memory_format=torch.channels_last).float() / 255

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.as_batch(x, y, task)
        for _ in range(self.steps_per_batch):
            g, loss = self.rule(self.engine, self.augmented(batch), self.replay)
            self.step(g)
        self.remember(x, y, batch.only_task)
        return StepStats(loss)

    def remember(self, x: Images, y: Labels, task: int, notes: Sequence[bytes] | None = None) -> None:
        """Offer a batch to the memory of its task, all of its pixels."""
        with self.clock.on_host("encoding"):
            selection = full_selection(len(y), *self.image_shape[1:])
            self.memory.add(task, self.as_bytes(x), selection, as_labels(y), notes)

    def memory_parts(self) -> dict[str, int]:
        return self.memory.nbytes_by_part

    def memory_report(self) -> dict[str, Any]:
        images = self.memory.images_per_task
        return super().memory_report() | {
            "budget_images": self.budget_images,
            "budget_bytes": self.memory.budget_bytes,
            "codec": self.memory.codec.spec,
            "images_per_task": [images[task] for task in sorted(images)],
            "accounting": self.memory.accounting,
        }

    def kept_labels(self) -> dict[int, Iterable[int]]:
        return {task: self.memory.labels(held.images).tolist() for task, held in self.memory.by_task.items()}

    def terms(self) -> dict[str, Any]:
        return super().terms() | self.stored.terms()

    def state_dict(self) -> dict[str, Any]:
        memory = self.memory.state_dict()  # first: what is still on its way into a reservoir draws
        kept = {"memory": memory, "keeping_random": self.keeping_random.get_state(), "live_room": self.live.room}
        return super().state_dict() | kept

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_state(self, state)
        self.live = LiveMemory(self.decoded, state["live_room"])
        self.memory.load_state_dict(state["memory"])  # may draw; what follows sets the random state
        self.keeping_random.set_state(state["keeping_random"])
        super().load_state_dict(state)
