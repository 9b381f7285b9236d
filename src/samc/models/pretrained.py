"""The autoencoder's weights at first: the package's own, or a file of `samc pretrain`; never of the stream's images."""

import hashlib
import json
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from safetensors import safe_open

from samc.errors import ConfigError
from samc.models.autoencoder import InpaintingAutoencoder
from samc.models.weights import load_weights, read_safetensors
from samc.tensor_files import open_tensors

STREAM = "stream"
# weights at random, which learn from the stream alone
PACKAGED = {"pretrained": "cifar10", "pretrained:cifar100": "cifar100"}
# the package's weights, by the data set whose training images they were learnt from
DIGEST, DIGITS = " sha256:", 10
# what follows a file's name once its content is known, and how many digits tell two contents apart

MOST_BYTES = 2**22
# of a file of weights; an autoencoder's has some hundred thousand
REMEDY = "give a file of samc pretrain"


def with_digest(start: str) -> str:
    """A file's name with a digest of its content, so that a record says which weights it means; others as they are."""
    if start == STREAM or start in PACKAGED:
        return start
    name, _, digest = start.partition(DIGEST)
    path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"--autoencoder is {STREAM}, {', '.join(PACKAGED)} or a file of samc pretrain; there is no file {name}"
        )
    read_safetensors(path, MOST_BYTES)
    origin(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]
    if digest not in ("", found):
        raise ConfigError(f"--autoencoder {name} has sha256:{found} by now, not sha256:{digest}; put that file back")
    return f"{name}{DIGEST}{found}"


def located(start: str) -> AbstractContextManager[Path]:
    if start in PACKAGED:
        return as_file(files("samc.models").joinpath(f"autoencoder-{PACKAGED[start]}.safetensors"))
    return nullcontext(Path(start.partition(DIGEST)[0]))


def origin(path: Path) -> dict[str, Any]:
    """What a file says of the images that it was learnt from."""
    open_tensors(path, REMEDY, MOST_BYTES).close()
    with safe_open(path, "pt") as file:
        try:
            found = json.loads(file.metadata()["pretrained"])
            return {"dataset": str(found["dataset"]), "source": str(found["source"])}
        except (TypeError, KeyError, ValueError):
            raise ConfigError(
                f"{path} does not say which images it was learnt from; make it with samc pretrain"
            ) from None


def has_seen(start: str, stream: str, source: str) -> bool:
    """Whether weights were learnt from a stream's images: those of its name, or, whatever the name, of its source."""
    with located(start) as path:
        learnt = origin(path)
    return learnt["dataset"] == stream or source.startswith(learnt["source"])


def start_for(start: str, stream: str, source: str) -> str:
    """Weights that know nothing of a stream: `pretrained` stands for another data set than its own."""
    if start == STREAM or not has_seen(start, stream, source):
        return start
    if start != "pretrained":
        raise ConfigError(f"--autoencoder {start} was learnt from the images of {stream}; use pretrained")
    return next(other for other in PACKAGED if not has_seen(other, stream, source))


def load_pretrained(autoencoder: InpaintingAutoencoder, start: str) -> None:
    """Fill an autoencoder that paints whole images of three channels; other ones have no weights."""
    channels = next(autoencoder.parameters()).shape[1]
    if channels != 3:
        found = f"images of three channels, these have {channels}"
        raise ConfigError(f"--autoencoder {start} is for {found}; use {STREAM}, with --autoencoder-steps 100")
    if autoencoder.residual:
        raise ConfigError(f"--autoencoder {start} paints the whole image; add --autoencoder-output whole")
    with located(start) as path:
        load_weights(autoencoder, path)
