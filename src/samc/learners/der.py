"""DER++ (Buzzega et al. 2020): replayed images keep their labels and the logits that the network once gave them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from samc.config import setting, with_default
from samc.engine import Batch, Engine, flat_gradient
from samc.engine.plain import features_of, wanted_of
from samc.errors import ConfigError
from samc.learners.contract import StepStats
from samc.learners.er import ReservoirSettings
from samc.learners.fitting import check_state
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.settings import KeepingSettings

LOGIT = np.dtype("<f2")
# a stored logit; what the type cannot hold is no logit of a network that learns


@dataclass(frozen=True, kw_only=True)
class DERSettings(ReservoirSettings):
    """Settings of DER++. The defaults are the authors' for CIFAR-100, and for CIFAR-10 with 200 images."""

    replay_current: bool = with_default(KeepingSettings, "replay_current", True)
    alpha: float = setting(
        0.1,
        "weight of the mean squared difference of replayed images' logits to those that were stored",
        least=0,
        hint="its authors use 0.1 to 1",
    )
    beta: float = setting(
        0.5,
        "weight of the cross-entropy of replayed images; 0 is DER",
        least=0,
        hint="its authors use 0.5 and 1",
    )

    def idle(self) -> dict[str, str]:
        weighed = "beside --beta, which weighs the replay; leave it out"
        return super().idle() | {"replay_weight": weighed, "steps_per_batch": "with der, which has none; leave it out"}


class DER(RehearsalLearner):
    """θ ← θ − lr·∇(loss on B + α·mean (logits − stored logits)² on B_M + β·loss on another draw B'_M).

    An image is stored with the logits that its head's classes had in the step that learnt it, in the order in which
    these classes came: where a head has grown since, the first of them are compared.
    """

    Settings = DERSettings
    note = "logits"

    def setup(self) -> None:
        super().setup()
        self.order: dict[int, list[int]] = {}  # each head's classes as they came
        self.noted: list[tuple[int, bytes]] = []  # task and logits of each image of past tasks, as it is replayed

    def note_bytes(self) -> int:
        heads = [set(classes) for classes in self.model.heads.task_classes.values()]
        heads = [set().union(*heads)] if self.scenario.one_head else heads
        return LOGIT.itemsize * max(map(len, heads), default=0)

    def recall(self) -> list[Batch]:
        past = [task for task in self.memory.tasks if task != self.current_task]
        self.noted = [(task, image.note) for task in past for image in self.stored.by_task[task].images]
        return super().recall()

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch, heads = self.augmented(self.as_batch(x, y, task)), self.model.heads
        number, head = batch.only_task, heads.head_of(batch.only_task)
        order = self.order.setdefault(head, [])
        if len(order) < len(heads.choices[head]):
            order += [label for label in heads.choices[head] if label not in order]
        places, compared = self.replay.located_draw(len(y))
        replayed = self.replay.draw(len(y))
        with self.clock("current gradient"):
            images = self.model.joined([*compared, batch, *replayed])
            inputs = *images, *self.targets(places, batch, replayed)
            held = self.held()
            teacher, counts = (held.teacher, held[1:]) if held else (None, ())
            g, loss, logits = self.engine.recorded(self.gradient, *inputs, *counts, teacher=teacher)
            loss, seen = loss.clone(), logits[len(places) : len(places) + len(y)]
            self.step(g)
        self.engine.when_on_host(seen, partial(self.keep, x, y, number, list(order)))
        return StepStats(loss)

    def targets(self, places: list[int], batch: Batch, replayed: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
        """Each image's share of the cross-entropy; and of those compared, the stored logits and how each one counts.

        Every image counts alike, however many classes it is compared in.
        """
        wanted = torch.zeros(len(places), self.model.heads.num_classes)
        weights = torch.zeros_like(wanted)
        for place, wanted_row, weights_row in zip(places, wanted, weights, strict=True):
            task, note = self.noted_at(place)
            stored = np.frombuffer(note, LOGIT).astype(np.float32)
            known = self.order[self.model.heads.head_of(task)][: len(stored)]
            wanted_row[known] = torch.from_numpy(stored)
            weights_row[known] = self.settings.alpha / (len(places) * max(1, len(known)))
        shares = [torch.zeros(len(places)), torch.full((len(batch.y),), 1 / len(batch.y))]
        shares += [torch.full((len(part.y),), self.settings.beta / len(part.y)) for part in replayed]
        return torch.cat(shares).to(self.device), wanted.to(self.device), weights.to(self.device)

    def noted_at(self, place: int) -> tuple[int, bytes]:
        """The task and the logits of a remembered image, by its place among all."""
        if place < len(self.noted):
            return self.noted[place]
        assert self.current_task is not None
        return self.current_task, self.stored.task(self.current_task).images[place - len(self.noted)].note

    def gradient(
        self,
        x: Float[Tensor, "b c h w"],
        y: Int64[Tensor, "b"],
        masks: Bool[Tensor, "b n"],
        shares: Float[Tensor, "b"],
        wanted: Float[Tensor, "m n"],
        weights: Float[Tensor, "m n"],
        *held: Tensor,
        teacher: Engine | None,
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, ""], Float[Tensor, "b n"]]:
        """Of the whole loss, that loss, and the logits of all classes; the images to compare come first."""
        model = self.model.train()
        given = (teacher.model, held[0], held[1]) if teacher is not None else None
        features = features_of(model, x)
        logits = model.heads.linear(model.pooled(features))
        loss = model.loss(features, y, masks, shares, wanted_of(given, x))
        loss = loss + ((logits[: len(wanted)] - wanted).square() * weights).sum()
        return *flat_gradient(model, loss), logits.detach()

    def keep(self, x: Images, y: Labels, task: int, classes: Sequence[int], logits: Float32[np.ndarray, "b n"]) -> None:
        """Remember a batch with the logits from before its step."""
        largest = np.finfo(LOGIT).max
        stored = logits[:, list(classes)].clip(-largest, largest).astype(LOGIT)
        self.remember(x, y, task, [row.tobytes() for row in stored])

    def kept_labels(self) -> dict[int, Iterable[int]]:
        kept = super().kept_labels()
        return {task: [*kept.get(task, ()), *self.order.get(task, ())] for task in {**kept, **self.order}}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"order": {task: list(classes) for task, classes in self.order.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_state(self, state)
        for task, saved in state["memory"].items():
            known = LOGIT.itemsize * len(state["order"].get(self.model.heads.head_of(task), ()))
            if any(len(note) > known or len(note) % LOGIT.itemsize for _, _, note in saved["items"]):
                raise ConfigError(f"the state has logits of task {task} that are of none of its classes")
        super().load_state_dict(state)
        self.order = {task: list(classes) for task, classes in state["order"].items()}
