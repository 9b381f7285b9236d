"""SAMC (Bai et al. 2023), Algorithm 1: remember the pixels that mattered, complete them, stay in the cone."""

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from samc.completion import Completion, parse_completion, unchanged
from samc.config import setting
from samc.learners.completing import CompletionSettings
from samc.learners.contract import StepStats
from samc.learners.gem import choose_rule, no_cone
from samc.learners.inputs import Images, Labels, TaskId, as_labels, told_task
from samc.learners.rehearsal import RehearsalLearner
from samc.learners.rules import RULES
from samc.memory import Selection, select
from samc.models import InpaintingAutoencoder
from samc.saliency import byte_maps
from samc.streams.base import Task

AUTOENCODER_BATCH = 10
SALIENCY_BATCH = 250
# images of a task that are masked at a time, for the autoencoder to learn from


@dataclass(frozen=True, kw_only=True)
class SAMCSettings(CompletionSettings):
    """Settings of SAMC. The defaults did best in a budget of bytes; --preset paper is the paper's SAMC."""

    replay: str = setting("er", "how memory is used", choices=tuple(RULES))
    threshold: float = setting(
        0.5,
        "a pixel is kept if its saliency in [0, 1] is above this",
        least=0,
        below=1,
        hint="the paper uses 0.7 on split-cifar100",
    )
    saliency_target: str = setting("label", "class that Grad-CAM explains", choices=("label", "predicted"))
    saliency_mode: str = setting(
        "eval",
        "mode of the network under Grad-CAM; train moves statistics, batch is train with statistics put back",
        choices=("eval", "train", "batch"),
    )

    @property
    def constrains(self) -> bool:
        return self.replay != "er"

    def idle(self) -> dict[str, str]:
        cone = () if self.constrains else ("memory_strength", "constraints", "reference_precision")
        return super().idle() | dict.fromkeys(cone, "with --replay er; add --replay gem, or leave it out")

    def meaningless(self) -> str:
        if self.boundaries == "hidden" and self.replay == "gem" and (reason := no_cone(self)):
            return reason
        if self.boundaries == "hidden" and self.completion.endswith("autoencoder") and self.autoencoder_steps:
            return (
                "the autoencoder learns at a task's end, which hidden boundaries do not tell; add --autoencoder-steps 0"
            )
        return super().meaningless()


class SAMC(RehearsalLearner):
    """Line numbers are those of Algorithm 1; docs/algorithm.md has the two side by side."""

    Settings = SAMCSettings
    salient = True

    def setup(self) -> None:
        super().setup()
        self.rule = choose_rule(self.settings.replay, self.settings)
        target, mode = self.settings.saliency_target, self.settings.saliency_mode  # of Grad-CAM
        self.explained = {"model": self.model, "target": target, "mode": mode, "infer": self.engine.features}
        fill, _ = parse_completion(self.settings.completion)
        if self.stored.codec.gist:
            fill = unchanged  # a gist is better than any guess: completion starts from it
        made = self.settings.make_autoencoder(self.image_shape[0], self.seed)
        self.autoencoder: InpaintingAutoencoder | None = made and made.to(self.device)
        self.completion = Completion(fill, self.autoencoder, self.device)
        self.bent_masks = 0

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Line 5: M̃_k = A_ξ(R(COO⁻¹(M_k))), for every k < t, when a task begins."""
        with self.clock("completion"):
            return self.completion(images, masks).contiguous(memory_format=torch.channels_last)

    def observe(self, x: Images, y: Labels, task: TaskId | None = None) -> StepStats:
        number, batch, pixels, labels = told_task(task), self.as_batch(x, y, task), self.as_bytes(x), as_labels(y)
        for _ in range(self.steps_per_batch):  # once, in the paper
            g, loss = self.rule(self.engine, self.augmented(batch), self.replay)
            self.step(g)  # line 8: θ ← OPT_θ(θ, B_t, M̃_{k<t}, α)
        if not self.stored.codec.selective:  # whole pictures: nothing is to be chosen
            self.remember(x, y, number)
            return StepStats(loss)
        with self.clock("saliency"):  # line 10: Grad-CAM(x, f_θ, y)
            (maps,) = self.engine.recorded(byte_maps, batch.x, batch.y, task=number, **self.explained)
        keep = partial(self.keep, pixels, labels, number)  # lines 10 to 12, on the host
        return StepStats(loss, self.engine.when_on_host(maps, keep))

    def keep(
        self, x: UInt8[np.ndarray, "b c h w"], y: np.ndarray, task: int, maps: UInt8[np.ndarray, "b i j"]
    ) -> Selection:
        with self.clock.on_host("encoding"):
            kept, bent = self.select(maps)  # line 10: x' ← 1{· > μ}
            self.stored.add(task, x, kept, y)  # line 12: M_t ← M_t ∪ (COO(x'), y)
        self.bent_masks += int(bent.sum())
        return kept

    def select(self, maps: UInt8[np.ndarray, "b i j"]) -> tuple[Selection, Bool[np.ndarray, "b"]]:
        """The pixels to keep, and for which images the threshold had to give way."""
        _, height, width = self.image_shape
        most, gist = self.stored.max_pixels, self.stored.codec.gist
        return select(maps, self.settings.threshold, height, width, most, gist=gist)

    def end_task(self, task: Task) -> None:
        """Line 16: ξ ← OPT_ξ(ξ, M_t, D_t, β): a few steps of SGD from masked to true images of this task."""
        steps = self.settings.autoencoder_steps if self.autoencoder else 0
        rows = torch.randint(len(task.x), (AUTOENCODER_BATCH * steps,), generator=self.random) if steps else None
        for some in () if rows is None else rows.split(SALIENCY_BATCH):
            with self.clock("autoencoder"):
                batch = self.as_batch(task.x[some], task.y[some], task.id)
                kept, _ = self.select(byte_maps(batch.x, batch.y, task=task.id, **self.explained)[0].cpu().numpy())
                # as memory would give them back, a gist included
                codec = self.stored.codec
                seen, masks = codec.decode(codec.encode(self.as_bytes(task.x[some]), kept))
                coarse, _ = self.completion.coarse(seen, masks)
                for pair in zip(coarse.split(AUTOENCODER_BATCH), batch.x.split(AUTOENCODER_BATCH), strict=True):
                    self.engine.recorded(self.completion.learn, *pair, lr=self.settings.autoencoder_lr)
        super().end_task(task)  # only now: memories are completed by what was learnt here

    def extra_parts(self) -> dict[str, int]:
        weights = self.autoencoder.state_dict() if self.autoencoder else {}
        return {"autoencoder": sum(tensor.nbytes for tensor in weights.values())} if weights else {}

    def memory_report(self) -> dict[str, Any]:
        return super().memory_report() | {"bent_masks": self.bent_masks}

    def state_dict(self) -> dict[str, Any]:
        weights = copy.deepcopy(self.autoencoder.state_dict()) if self.autoencoder else {}
        return super().state_dict() | {"autoencoder": weights, "bent_masks": self.bent_masks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.bent_masks = state["bent_masks"]
        if self.autoencoder is not None:
            self.autoencoder.load_state_dict(state["autoencoder"])
