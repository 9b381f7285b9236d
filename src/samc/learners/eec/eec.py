"""EEC (Ayub and Wagner 2021): images are kept as encodings or centroids of them, and painted anew to be replayed."""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from samc.config import Terms, setting
from samc.engine import Batch
from samc.errors import ConfigError
from samc.learners.answers import EVALUATION_BATCH
from samc.learners.contract import StepStats
from samc.learners.eec.encoder import Adam, learn_to_encode
from samc.learners.eec.episodes import Episodes, check_room, keep
from samc.learners.inputs import Images, Labels, TaskId
from samc.learners.rehearsal import ReplayLearner
from samc.learners.rules import Gradient
from samc.learners.settings import NetworkSettings
from samc.memory import budget_of
from samc.memory.codecs import TASKS_EXPECTED
from samc.models import InpaintingAutoencoder
from samc.models.autoencoder import WIDTHS, code_grid, decode
from samc.models.classifier import in_mode
from samc.streams.base import Task, generator

PSEUDO_IMAGES, ENCODER_BATCH = 100, 10
# painted of each past task when a new one begins, to draw from; and learnt from at a time


@dataclass(frozen=True, kw_only=True)
class EECSettings(Terms, NetworkSettings):
    """Settings of EEC."""

    encoder_steps: int = setting(200, "Adam steps of the autoencoder after each task", least=1)
    encoder_lr: float = setting(0.003, "step size of the autoencoder", above=0)
    content_weight: float = setting(
        0.1, "share of the classifier's features in the reconstruction loss", least=0, most=1
    )

    def meaningless(self) -> str:
        hidden = "eec encodes a task's images at its end, which hidden boundaries do not tell; take er, or told"
        return hidden if self.boundaries == "hidden" else super().meaningless()


class EEC(ReplayLearner):
    """θ ← θ − α·∇ mean of w·loss over B and as many pseudo-images of past tasks; w = exp(−γ·age), and 1 on B.

    Each task has an autoencoder of its own, whose decoder is kept. γ is how much accuracy is lost by painting anew.
    """

    Settings = EECSettings

    def setup(self) -> None:
        super().setup()
        self.budget_bytes = self.budget_for(self.num_classes)
        self.code_width = WIDTHS[-1] * math.prod(code_grid(*self.image_shape[1:]))
        self.episodes: dict[int, Episodes] = {}
        self.decoders: dict[int, nn.Module] = {}
        self.decay: dict[int, float] = {}
        # one for all tasks, begun anew with each: what its steps are recorded from stays where it is
        self.autoencoder = InpaintingAutoencoder(self.image_shape[0]).to(self.device)
        self.adam = Adam(self.autoencoder.parameters(), self.settings.encoder_lr)

    def budget_for(self, num_classes: int | None) -> int:
        """Bytes per task."""
        terms = self.settings
        budget = budget_of(self.image_shape, num_classes, terms.buffer_size, terms.accounting, terms.memory_bytes)
        if not budget.per_task:
            share = f"for {TASKS_EXPECTED} of them --memory-bytes {budget.total // TASKS_EXPECTED}/task"
            raise ConfigError(f"eec cannot shrink what it has encoded; say what each task may have, {share}")
        return budget.total

    def fit_classes(self, count: int) -> None:
        """What has been encoded keeps its labels as they are; tasks to come have room for larger ones."""
        super().fit_classes(count)
        self.budget_bytes = self.budget_for(self.num_classes)

    def assign(self, task: int, classes: Sequence[int]) -> None:
        most = None if self.num_classes is None else max(self.num_classes, 1 + max(classes, default=0))
        check_room(len(classes), self.code_width, most, self.budget_for(most))
        super().assign(task, classes)

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        batch = self.augmented(self.as_batch(x, y, task))
        g, loss = self.weighted_gradient(batch)
        self.step(g)
        return StepStats(loss)

    def recall(self) -> list[Batch]:
        """Pseudo-images of every other task; drawn by what task it is, so that a state can be taken up anywhere."""
        with self.clock("painting"):
            others = [task for task in self.episodes if task != self.current_task]
            return [self.paint(task, generator(self.seed, task, self.current_task or 0)) for task in others]

    def weighted_gradient(self, batch: Batch) -> Gradient:
        drawn = self.replay.draw(len(batch.y))
        others = [task for task in self.decay if task != batch.only_task]
        by_age = {task: math.exp(-self.decay[task] * age) for age, task in enumerate(reversed(others), start=1)}
        weights = torch.ones(len(batch.y))
        for replayed in drawn:
            weights = torch.cat([weights, torch.tensor([by_age[task] for task in replayed.tasks.tolist()])])
        with self.clock("current gradient"):
            return self.engine.gradient([batch, *drawn], weights if drawn else None)

    @torch.no_grad()
    def paint(self, task: int, random: torch.Generator) -> Batch:
        codes, labels = self.episodes[task].draw(PSEUDO_IMAGES, random)
        size = self.image_shape[1:]
        images = decode(self.decoders[task], codes.view(len(codes), -1, *code_grid(*size)).to(self.device), *size)
        return Batch(images.contiguous(memory_format=torch.channels_last), labels.to(self.device), task)

    def end_task(self, task: Task) -> None:
        """Learn to encode this task's images, keep what fits, and see how well the classifier knows it again."""
        super().end_task(task)
        with self.clock("autoencoder"):
            autoencoder = self.trained_autoencoder(task)
        with self.clock("encoding"), torch.no_grad():
            parts = task.x.split(EVALUATION_BATCH)
            codes = torch.cat([autoencoder.encode(self.as_images(part)).flatten(1).cpu() for part in parts])
            codes = codes.nan_to_num()  # of a network that has diverged
            random = generator(self.seed, task.id)
            self.episodes[task.id] = keep(codes, task.y, self.num_classes, self.budget_bytes, random)
            self.decoders[task.id] = autoencoder.decoder.requires_grad_(False)
        anew = self.paint(task.id, random)
        seen = float((self.answers(task.x, task.id) == task.y).float().mean())
        known = float((self.answers(anew.x.nan_to_num(), task.id) == anew.y).float().mean())
        self.decay.pop(task.id, None)  # a task that comes back is the youngest
        self.decay[task.id] = max(0.0, 1 - known / seen) if seen else 0.0

    def trained_autoencoder(self, task: Task) -> InpaintingAutoencoder:
        self.autoencoder.load_state_dict(InpaintingAutoencoder(self.image_shape[0], seed=self.seed).state_dict())
        self.adam.restart()
        steps = self.settings.encoder_steps
        draws = torch.randint(len(task.x), (steps, ENCODER_BATCH), generator=self.random)
        fixed = {"adam": self.adam, "features": self.model.features, "content_weight": self.settings.content_weight}
        with in_mode(self.model, "eval"):
            for rows in draws:
                x = self.as_images(task.x[rows])
                self.engine.recorded(learn_to_encode, x, autoencoder=self.autoencoder, **fixed)
        return copy.deepcopy(self.autoencoder).eval()

    def memory_parts(self) -> dict[str, int]:
        return Episodes.bytes_of(self.episodes.values())

    def extra_parts(self) -> dict[str, int]:
        tensors = [tensor for decoder in self.decoders.values() for tensor in decoder.state_dict().values()]
        return {"decoders": sum(tensor.nbytes for tensor in tensors)}

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {
            "budget_images": self.settings.buffer_size,
            "budget_bytes": self.budget_bytes,
            "images_per_task": [len(self.episodes[task].codes) for task in sorted(self.episodes)],
            "accounting": self.settings.accounting,
            "decay": {str(task): decay for task, decay in self.decay.items()},
        }

    def kept_labels(self) -> dict[int, Iterable[int]]:
        return {task: episodes.labels.tolist() for task, episodes in self.episodes.items()}

    def terms(self) -> dict[str, Any]:
        return super().terms() | {"memory": f"{self.budget_bytes:,} bytes per task"}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "episodes": {task: episodes.state_dict() for task, episodes in self.episodes.items()},
            "decoders": {task: copy.deepcopy(decoder.state_dict()) for task, decoder in self.decoders.items()},
            "decay": dict(self.decay),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.episodes = {task: Episodes.of(saved) for task, saved in state["episodes"].items()}
        self.decay = dict(state["decay"])
        self.decoders = {}
        for task, saved in state["decoders"].items():
            decoder = InpaintingAutoencoder(self.image_shape[0]).decoder.to(self.device).requires_grad_(False)
            decoder.load_state_dict(saved)
            self.decoders[task] = decoder
        if not set(self.episodes) == set(self.decoders) == set(self.decay):
            raise ConfigError("the state has not a decoder for each task that it keeps")
