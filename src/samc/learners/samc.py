"""SAMC (Bai et al. 2023), Algorithm 1: remember the pixels that mattered, complete them, stay in the cone."""

import copy
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from samc.completion import Completion, as_it_is, parse
from samc.errors import ConfigError, unknown
from samc.gradients import Batch
from samc.learners.agem import AGEM
from samc.learners.base import StepStats
from samc.learners.er import ER
from samc.learners.gem import GEM
from samc.learners.rehearsal import as_bytes
from samc.memory import Selection, select
from samc.models import InpaintingAutoencoder
from samc.saliency import Target, coarse_cam
from samc.saliency import as_bytes as maps_as_bytes
from samc.streams.base import Task

RULES: dict[str, Callable[[Any, Batch, list[Batch]], tuple[Tensor, Tensor]]]
RULES = {"gem": GEM.replay_rule, "agem": AGEM.replay_rule, "er": ER.replay_rule}
# what may be done with completed memories; the paper's is GEM's


class SAMC(GEM):
    """Line numbers are those of Algorithm 1; docs/algorithm.md has the two side by side."""

    settings = (
        *GEM.settings,
        "replay",
        "threshold",
        "saliency_target",
        "completion",
        "autoencoder_output",
        "autoencoder_steps",
        "autoencoder_lr",
    )
    default_codec = "coo"

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        threshold: float = 0.7,
        completion: str = "telea+autoencoder",
        saliency_target: Target = "label",
        autoencoder_output: Literal["whole", "correction"] = "correction",
        autoencoder_steps: int = 100,
        autoencoder_lr: float = 0.1,
        replay: Literal["gem", "agem", "er"] = "gem",
        **rehearsal: Any,
    ):
        super().__init__(num_classes, image_shape, **rehearsal)
        if replay not in RULES:
            raise unknown("replay rule", replay, RULES)
        self.replay = replay
        if not 0 <= threshold < 1:
            raise ConfigError(f"threshold is in [0, 1), got {threshold}; the paper uses 0.7 on split-cifar100")
        if saliency_target not in ("label", "predicted"):
            raise unknown("saliency target", saliency_target, ("label", "predicted"))
        if autoencoder_output not in ("whole", "correction"):
            raise unknown("autoencoder output", autoencoder_output, ("whole", "correction"))
        if autoencoder_steps < 0 or not 0 < autoencoder_lr < math.inf:
            found = f"{autoencoder_steps} and {autoencoder_lr}"
            raise ConfigError(f"autoencoder-steps is at least 0 and autoencoder-lr above 0, got {found}")
        self.threshold = threshold
        self.saliency_target: Target = saliency_target
        self.autoencoder_steps = autoencoder_steps
        self.autoencoder_lr = autoencoder_lr
        rule, learnt = parse(completion)
        if self.memory.codec.gist:
            rule = as_it_is  # a gist is better than any guess: completion starts from it
        self.autoencoder: InpaintingAutoencoder | None = None
        if learnt:
            # alone it paints the whole picture; after a rule it may also learn a correction: docs/fidelity.md
            residual = autoencoder_output == "correction" and completion != "autoencoder"
            self.autoencoder = InpaintingAutoencoder(image_shape[0], residual=residual, seed=self.seed).to(self.device)
        self.completion = Completion(rule, self.autoencoder, self.device)
        self.bent_masks = 0

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Line 5: M̃_k = A_ξ(R(COO⁻¹(M_k))), for every k < t, once a task."""
        with self.clock("completion"):
            return self.completion(images, masks).contiguous(memory_format=torch.channels_last)

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        x, y = self.admit(x, y, task)
        batch = Batch(x, y, task)
        g, loss = self.replayed_gradient(batch)  # line 8: θ ← OPT_θ(θ, B_t, M̃_{k<t}, α)
        self.step(g)
        kept, bent = self.salient(batch)  # line 10: x' ← 1{Grad-CAM(x, f_θ, y) > μ}
        self.remember(batch, kept)  # line 12: M_t ← M_t ∪ (COO(x'), y)
        self.bent_masks += int(bent.sum())
        return StepStats(loss, kept)

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        return RULES[self.replay](self, batch, memories)

    def salient(self, batch: Batch) -> tuple[Selection, Bool[np.ndarray, "b"]]:
        """The pixels to keep, and for which images the threshold had to give way."""
        with self.clock("saliency"):
            maps = coarse_cam(self.model, batch.x, batch.y, batch.task, self.saliency_target)
            _, height, width = self.image_shape
            coarse, codec = maps_as_bytes(maps).cpu().numpy(), self.memory.codec
            return select(coarse, self.threshold, height, width, self.memory.most_pixels, gist=codec.gist)

    def end_task(self, task: Task) -> None:
        """Line 16: ξ ← OPT_ξ(ξ, M_t, D_t, β): a few steps of SGD from masked to true images of this task."""
        super().end_task(task)
        if self.autoencoder is None:
            return
        for rows in torch.randint(len(task.x), (self.autoencoder_steps, 10), generator=self.random):
            x, y = self.admit(task.x[rows], task.y[rows], task.id)
            kept, _ = self.salient(Batch(x, y, task.id))
            with self.clock("autoencoder"):
                # as memory would give them back, a gist included
                seen, masks = self.memory.codec.decode(self.memory.codec.encode(as_bytes(x), kept))
                self.completion.learn(as_bytes(x), seen, masks, self.autoencoder_lr)

    def beside_parts(self) -> dict[str, int]:
        return (
            {"autoencoder": sum(t.nbytes for t in self.autoencoder.state_dict().values())} if self.autoencoder else {}
        )

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"bent_masks": self.bent_masks}

    def state_dict(self) -> dict[str, Any]:
        painter = copy.deepcopy(self.autoencoder.state_dict()) if self.autoencoder else {}
        return super().state_dict() | {"autoencoder": painter, "bent_masks": self.bent_masks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.bent_masks = state["bent_masks"]
        if self.autoencoder is not None:
            self.autoencoder.load_state_dict(state["autoencoder"])
