"""The autoencoder's weights that come with the package: learnt from one data set, to complete images of others."""

from importlib.resources import as_file, files

from samc.errors import ConfigError
from samc.models.autoencoder import InpaintingAutoencoder
from samc.models.weights import load_weights

PRETRAINED = {"pretrained": "cifar10", "pretrained-cifar100": "cifar100"}
# a start, and the data set whose training images its weights were learnt from: samc pretrain
OWN_STREAMS = {"cifar10": "split-cifar10", "cifar100": "split-cifar100"}
# the stream that a data set must not be used for: its images are that stream's own


def start_for(start: str, stream: str) -> str:
    """The start whose weights know nothing of a stream: `pretrained` stands for another data set than its own."""
    if OWN_STREAMS.get(PRETRAINED.get(start, "")) != stream:
        return start
    if start == "pretrained":
        return "pretrained-cifar100"
    raise ConfigError(f"--autoencoder-start {start} has seen the images of {stream}; use pretrained")


def load_pretrained(autoencoder: InpaintingAutoencoder, start: str) -> None:
    """Fill an autoencoder that paints whole images of three channels; other ones have no weights here."""
    channels = next(autoencoder.parameters()).shape[1]
    if channels != 3:
        raise ConfigError(
            f"--autoencoder-start {start} is for images of three channels, these have {channels}; use drawn"
        )
    if autoencoder.residual:
        raise ConfigError(f"--autoencoder-start {start} paints the whole image; add --autoencoder-output whole")
    with as_file(files("samc.models").joinpath(f"autoencoder-{PRETRAINED[start]}.safetensors")) as path:
        load_weights(autoencoder, path)
