"""The settings of SAMC's completion, and the autoencoder that they describe."""

from dataclasses import dataclass, replace

from samc.completion import parse_completion
from samc.config import setting
from samc.learners.best import BestSettings
from samc.models import InpaintingAutoencoder
from samc.models.pretrained import PRETRAINED, load_pretrained, start_for


@dataclass(frozen=True, kw_only=True)
class CompletionSettings(BestSettings):
    """What fills the pixels that memory dropped, and how it learns to."""

    completion: str = setting(
        "zero",
        "what fills dropped pixels: zero, telea, navier-stokes, autoencoder, or a rule and it: telea+autoencoder",
    )
    autoencoder_start: str = setting(
        "drawn",
        "the autoencoder's weights at first, at random or learnt from images that are not the stream's",
        choices=("drawn", *PRETRAINED),
        before="drawn",
    )
    autoencoder_output: str = setting(
        "correction", "what the autoencoder paints after a rule", choices=("whole", "correction")
    )
    autoencoder_steps: int = setting(100, "SGD steps of the autoencoder after each task", least=0)
    autoencoder_lr: float = setting(0.1, "step size of the autoencoder", above=0)

    def idle(self) -> dict[str, str]:
        if self.completion.endswith("autoencoder"):
            return super().idle()
        return super().idle() | {"autoencoder_start": "without an autoencoder; add --completion telea+autoencoder"}

    def on(self, stream: str) -> "CompletionSettings":
        return replace(self, autoencoder_start=start_for(self.autoencoder_start, stream))

    def autoencoder(self, channels: int, seed: int) -> InpaintingAutoencoder | None:
        """As the settings have it, or None where completion is a rule alone."""
        _, learnt = parse_completion(self.completion)
        if not learnt:
            return None
        # alone it paints the whole picture; after a rule it may also learn a correction: docs/fidelity.md
        residual = self.autoencoder_output == "correction" and self.completion != "autoencoder"
        made = InpaintingAutoencoder(channels, residual=residual, seed=seed)
        if self.autoencoder_start in PRETRAINED:
            load_pretrained(made, self.autoencoder_start)
        return made
