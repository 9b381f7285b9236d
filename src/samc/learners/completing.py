"""The settings of SAMC's completion, and the autoencoder that they describe."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from samc.completion import parse_completion
from samc.config import setting
from samc.learners.best import BestSettings
from samc.models import InpaintingAutoencoder
from samc.models.pretrained import STREAM, load_pretrained, start_for, with_digest


@dataclass(frozen=True, kw_only=True)
class CompletionSettings(BestSettings):
    """What fills the pixels that memory dropped, and how it learns to."""

    completion: str = setting(
        "zero",
        "what fills dropped pixels: zero, telea, navier-stokes, autoencoder, or a rule and it: telea+autoencoder",
    )
    autoencoder: str = setting(
        "stream",
        "where its weights come from: the stream alone (stream), other images (pretrained), or a FILE of samc pretrain",
        before="stream",
    )
    autoencoder_output: str = setting(
        "correction", "what the autoencoder paints after a rule", choices=("whole", "correction")
    )
    autoencoder_steps: int = setting(100, "SGD steps of the autoencoder after each task", least=0)
    autoencoder_lr: float = setting(0.1, "step size of the autoencoder", above=0)

    def idle(self) -> dict[str, str]:
        if self.completion.endswith("autoencoder") or self.autoencoder == STREAM:
            return super().idle()
        return super().idle() | {"autoencoder": "without an autoencoder; add --completion telea+autoencoder"}

    @classmethod
    def made(
        cls, given: Mapping[str, Any], method: str, preset: Mapping[str, Any] | None = None
    ) -> "CompletionSettings":
        """With a file's digest, so that a record names one content of it."""
        settings = super().made(given, method, preset)
        return replace(settings, autoencoder=with_digest(settings.autoencoder))

    def on(self, stream: str, source: str) -> "CompletionSettings":
        return replace(self, autoencoder=start_for(self.autoencoder, stream, source))

    def terms(self) -> dict[str, Any]:
        _, learnt = parse_completion(self.completion)
        paints = self.autoencoder_output if learnt and self.completion != "autoencoder" else "whole"
        return super().terms() | {"autoencoder": f"one that paints the {paints}" if learnt else "none"}

    def without_files(self) -> Any:
        return replace(super().without_files(), autoencoder=STREAM)

    def make_autoencoder(self, channels: int, seed: int) -> InpaintingAutoencoder | None:
        """As the settings have it, or None where completion is a rule alone."""
        _, learnt = parse_completion(self.completion)
        if not learnt:
            return None
        # alone it paints the whole picture; after a rule it may also learn a correction: docs/fidelity.md
        residual = self.autoencoder_output == "correction" and self.completion != "autoencoder"
        made = InpaintingAutoencoder(channels, residual=residual, seed=seed)
        if self.autoencoder != STREAM:
            load_pretrained(made, self.autoencoder)
        return made
