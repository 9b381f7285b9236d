"""SAMC (Bai et al. 2023), Algorithm 1: remember the pixels that mattered, complete them, stay in the cone."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from samc.completion import Completion, as_it_is, check_training, parse
from samc.errors import ConfigError, unknown
from samc.gradients import Batch
from samc.learners.agem import AGEM
from samc.learners.base import StepStats
from samc.learners.er import ER
from samc.learners.gem import GEM
from samc.learners.later import fetched
from samc.learners.rehearsal import as_array, as_bytes
from samc.memory import Selection, select
from samc.models import InpaintingAutoencoder
from samc.saliency import Mode, Target, coarse_cam
from samc.saliency import as_bytes as as_levels
from samc.streams.base import Task

RULES: dict[str, Callable[[Any, Batch, list[Batch]], tuple[Tensor, Tensor]]]
RULES = {"gem": GEM.replay_rule, "agem": AGEM.replay_rule, "er": ER.replay_rule}
# what may be done with completed memories; the paper's is GEM's


class SAMC(GEM):
    """Line numbers are those of Algorithm 1; docs/algorithm.md has the two side by side."""

    settings = (
        *GEM.settings, "replay", "threshold", "saliency_target", "saliency_mode", "completion", "autoencoder_output",
        "autoencoder_steps", "autoencoder_lr",
    )  # fmt: skip
    default_codec = "coo"

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        threshold: float = 0.7,
        completion: str = "telea+autoencoder",
        saliency_target: Target = "label",
        saliency_mode: Mode = "eval",
        autoencoder_output: Literal["whole", "correction"] = "correction",
        autoencoder_steps: int = 100,
        autoencoder_lr: float = 0.1,
        replay: Literal["gem", "agem", "er"] = "gem",
        **rehearsal: Any,
    ):
        super().__init__(num_classes, image_shape, **rehearsal)
        for name, value, known in (
            ("replay rule", replay, tuple(RULES)),
            ("saliency target", saliency_target, ("label", "predicted")),
            ("saliency mode", saliency_mode, ("eval", "train")),
            ("autoencoder output", autoencoder_output, ("whole", "correction")),
        ):
            if value not in known:
                raise unknown(name, value, known)
        if not 0 <= threshold < 1:
            raise ConfigError(f"threshold is in [0, 1), got {threshold}; the paper uses 0.7 on split-cifar100")
        check_training(autoencoder_steps, autoencoder_lr)
        self.replay, self.threshold = replay, threshold
        self.saliency_target, self.saliency_mode = saliency_target, saliency_mode
        self.autoencoder_steps, self.autoencoder_lr = autoencoder_steps, autoencoder_lr
        rule, learnt = parse(completion)
        if self.memory.codec.gist:
            rule = as_it_is  # a gist is better than any guess: completion starts from it
        self.autoencoder: InpaintingAutoencoder | None = None
        if learnt:
            # alone it paints the whole picture; after a rule it may also learn a correction: docs/fidelity.md
            residual = autoencoder_output == "correction" and completion != "autoencoder"
            self.autoencoder = InpaintingAutoencoder(image_shape[0], residual=residual, seed=self.seed).to(self.device)
        self.completion, self.bent_masks = Completion(rule, self.autoencoder, self.device), 0

    def complete(
        self, images: UInt8[np.ndarray, "n c h w"], masks: Bool[np.ndarray, "n h w"]
    ) -> Float[Tensor, "n c h w"]:
        """Line 5: M̃_k = A_ξ(R(COO⁻¹(M_k))), for every k < t, once a task."""
        with self.clock("completion"):
            return self.completion(images, masks).contiguous(memory_format=torch.channels_last)

    def observe(self, x: Tensor, y: Tensor, task: int) -> StepStats:
        batch = Batch(*self.admit(x, y, task), task)
        g, loss = self.replayed_gradient(batch)  # line 8: θ ← OPT_θ(θ, B_t, M̃_{k<t}, α)
        self.step(g)
        maps = self.maps(batch)  # line 10: Grad-CAM(x, f_θ, y), on its way to the host
        return StepStats(loss, self.soon.put(lambda: self.keep(x, y, task, maps())))

    def replay_rule(self, batch: Batch, memories: list[Batch]) -> tuple[Float[Tensor, "p"], Float[Tensor, ""]]:
        return RULES[self.replay](self, batch, memories)

    def maps(self, batch: Batch) -> Callable[[], np.ndarray]:
        with self.clock("saliency"):
            key = ("maps", len(batch.y), batch.task, self.model.task_classes[batch.task])  # a head may grow
            return fetched(*self.engine.recorder(key, partial(self.explain, batch.task), batch.x, batch.y))

    def explain(self, task: int, x: Tensor, y: Tensor) -> tuple[UInt8[Tensor, "b i j"]]:
        quick = self.engine.looking(x) if self.saliency_mode == "eval" else {}
        return (as_levels(coarse_cam(self.model, x, y, task, self.saliency_target, self.saliency_mode, **quick)),)

    def keep(self, x: Tensor, y: Tensor, task: int, maps: UInt8[np.ndarray, "b i j"]) -> Selection:
        with self.clock.on_host("encoding"):
            kept, bent = self.salient(maps)  # line 10: x' ← 1{· > μ}
            self.store.add(task, as_bytes(x), kept, as_array(y))  # line 12: M_t ← M_t ∪ (COO(x'), y)
        self.bent_masks += int(bent.sum())
        return kept

    def salient(self, maps: UInt8[np.ndarray, "b i j"]) -> tuple[Selection, Bool[np.ndarray, "b"]]:
        """The pixels to keep, and for which images the threshold had to give way."""
        _, height, width = self.image_shape
        return select(maps, self.threshold, height, width, self.store.most_pixels, gist=self.store.codec.gist)

    def end_task(self, task: Task) -> None:
        """Line 16: ξ ← OPT_ξ(ξ, M_t, D_t, β): a few steps of SGD from masked to true images of this task."""
        super().end_task(task)
        steps = self.autoencoder_steps if self.autoencoder else 0
        rows = torch.randint(len(task.x), (10 * steps,), generator=self.random)
        for some in rows.split(250) if steps else ():
            with self.clock("autoencoder"):
                x, y = self.admit(task.x[some], task.y[some], task.id)
                kept, _ = self.salient(self.explain(task.id, x, y)[0].cpu().numpy())
                # as memory would give them back, a gist included
                seen, masks = self.store.codec.decode(self.store.codec.encode(as_bytes(x), kept))
                coarse, _ = self.completion.coarse(seen, masks)
                for pair in zip(coarse.split(10), x.split(10), strict=True):
                    self.engine.recorder("autoencoder", partial(self.completion.learn, lr=self.autoencoder_lr), *pair)

    def beside_parts(self) -> dict[str, int]:
        painter = self.autoencoder.state_dict() if self.autoencoder else {}
        return {"autoencoder": sum(tensor.nbytes for tensor in painter.values())} if painter else {}

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
