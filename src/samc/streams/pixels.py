"""Images and labels as Python code hands them over, checked and turned into uint8 (n, c, h, w) and int64 (n,)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from samc.errors import ConfigError, DataError

CHANNELS = (1, 3)
HALF_A_STEP = 0.5 / 255
# how far undoing a normalisation may miss [0, 1]: no more than rounding to bytes mends
MOST_CLASSES = 1_000_000
# a label beyond is a mistake (an id, a date), and heads as wide as that would not fit anywhere


@dataclass(frozen=True)
class Normalisation:
    """(pixels / 255 − mean) / std, per channel: what was done to images before they came here."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, mean: Any, std: Any) -> "Normalisation | None":
        """From numbers, sequences or tensors with one value, or one per channel; None where neither is given."""
        if mean is None and std is None:
            return None
        if mean is None or std is None:
            raise ConfigError("mean and std come together; give both, or neither for pixels from 0 to 1")
        try:
            # six digits, so that a float32 tensor means the same as the numbers that it was made of
            values = [
                tuple(round(value, 6) for value in torch.as_tensor(part, dtype=torch.float64).flatten().tolist())
                for part in (mean, std)
            ]
        except (TypeError, ValueError, RuntimeError):
            raise ConfigError(f"mean and std are numbers, one or one per channel; got {mean!r} and {std!r}") from None
        sizes = {len(part) for part in values}
        if len(sizes) > 1 or not sizes <= set(CHANNELS) or not np.isfinite(values).all() or min(values[1]) <= 0:
            raise ConfigError(f"mean and std have one value or one per channel, std above 0; got {mean!r} and {std!r}")
        return cls(*values)

    def apply(self, images: Float[Tensor, "*n c h w"]) -> Float[Tensor, "*n c h w"]:
        """Images in [0, 1], normalised."""
        mean, std = self.by_channel(images)
        return (images - mean) / std

    def undo(self, images: Float[Tensor, "*n c h w"]) -> Float[Tensor, "*n c h w"]:
        """Normalised images back in [0, 1]."""
        mean, std = self.by_channel(images)
        return images * std + mean

    def by_channel(self, images: Float[Tensor, "*n c h w"]) -> tuple[Float[Tensor, "k 1 1"], Float[Tensor, "k 1 1"]]:
        if len(self.mean) not in (1, images.shape[-3]):
            raise DataError(f"mean and std have {len(self.mean)} channels, the images {images.shape[-3]}; give as many")
        mean, std = (torch.tensor(part, device=images.device)[:, None, None] for part in (self.mean, self.std))
        return mean, std

    def __str__(self) -> str:
        return f"(pixels / 255 - {list(self.mean)}) / {list(self.std)}"


class PixelReader:
    """Reads one set of images, piece by piece: refuses what are no images, and turns the others into bytes.

    `where` says in errors which images they are, such as "task 0's training images".
    """

    def __init__(self, where: str, normalisation: Normalisation | None = None):
        self.where = where
        self.normalisation = normalisation
        self.shape: tuple[int, int, int] | None = None
        self.floats = False
        self.beyond_unit = False  # whether any float lay outside [0, 1], as normalised ones do

    def read(self, images: Any) -> Tensor:
        """A tensor or array as (n, c, h, w), uint8 or float32 as it came; channels last in memory, for convolutions."""
        tensor = as_tensor(images, self.where)
        if tensor.ndim == 3:
            tensor = tensor[..., None]  # grey
        elif tensor.ndim == 4 and tensor.shape[1] in CHANNELS:
            tensor = tensor.permute(0, 2, 3, 1)
        if tensor.ndim != 4 or tensor.shape[3] not in CHANNELS or 0 in tensor.shape:
            raise DataError(
                f"{self.where} are (n, 1 or 3, height, width), (n, height, width, 1 or 3) or (n, height, width); "
                f"got {tuple(images.shape)}"
            )
        tensor = tensor.contiguous().permute(0, 3, 1, 2)
        _, channels, height, width = tensor.shape
        if self.shape not in (None, (channels, height, width)):
            sizes = " and ".join(by_sides(shape) for shape in (self.shape, (channels, height, width)) if shape)
            raise DataError(f"{self.where} differ in size: {sizes}; bring them to one size first")
        self.shape = channels, height, width
        if tensor.dtype != torch.uint8:
            tensor = tensor.float()
            self.check_range(tensor)
        return tensor

    def check_range(self, images: Float[Tensor, "n c h w"]) -> None:
        """Refuse floats that are no pixels from 0 to 1, once their normalisation is undone."""
        self.floats = True
        low, high = (float(value) for value in torch.aminmax(images))
        self.beyond_unit |= not (low >= 0 and high <= 1)
        if not np.isfinite((low, high)).all():
            raise DataError(f"{self.where} hold values that are no numbers (NaN or infinite); clean the data")
        if self.normalisation is None:
            if self.beyond_unit:
                raise DataError(
                    f"{self.where} are uint8 from 0 to 255 or floats from 0 to 1, got floats from {low:.3g} to "
                    f"{high:.3g}; if they are normalised, give the learner (or the task) their mean= and std="
                )
            return
        low, high = (float(value) for value in torch.aminmax(self.normalisation.undo(images)))
        if low < -HALF_A_STEP or high > 1 + HALF_A_STEP:
            raise DataError(
                f"{self.where} are floats from {low:.3g} to {high:.3g} once {self.normalisation} is undone, where "
                f"0 to 1 was expected; give the mean= and std= that they were normalised with"
            )

    def to_bytes(self, images: Tensor) -> UInt8[Tensor, "n c h w"]:
        """A piece that has been read, rounded to bytes, on the CPU."""
        images = images.cpu()
        if images.dtype == torch.uint8:
            return images
        unit = self.normalisation.undo(images) if self.normalisation else images
        return (unit * 255).round().clamp(0, 255).to(torch.uint8)

    def finish(self) -> None:
        """Once all images are read: refuse plain pixels where normalised ones were announced.

        Normalised images have values below 0 wherever a pixel is darker than the mean; taking plain pixels for them
        would store washed-out images without a word.
        """
        announced = self.normalisation is not None and max(self.normalisation.mean) > 0
        if announced and self.floats and not self.beyond_unit:
            raise DataError(
                f"{self.where} are floats from 0 to 1, but mean and std were given for normalised ones; "
                "normalise them, or pass uint8"
            )


def by_sides(shape: tuple[int, ...]) -> str:
    """A shape as in 3x32x32."""
    return "x".join(str(side) for side in shape)


def as_tensor(images: Any, where: str) -> Tensor:
    """An array or tensor of uint8 or floats as a tensor, without a copy where that can be."""
    if isinstance(images, np.ndarray):
        if images.dtype.kind == "f":
            images = images.astype(np.float32, copy=False)
        elif images.dtype != np.uint8:
            raise DataError(f"{where} are uint8 from 0 to 255 or floats from 0 to 1; got {images.dtype}")
        # torch takes neither what cannot be written to nor what runs backwards
        return torch.from_numpy(images if images.flags.writeable and images.flags.c_contiguous else images.copy())
    if not isinstance(images, Tensor):
        raise DataError(f"{where} are tensors or numpy arrays; got {described(images)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        kind = str(images.dtype).removeprefix("torch.")
        raise DataError(f"{where} are uint8 from 0 to 255 or floats from 0 to 1; got {kind}")
    return images.detach()


def as_labels(labels: Any, count: int, where: str) -> Int64[Tensor, "n"]:
    """One whole number from 0 per image."""
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy() if labels.dtype != torch.bfloat16 else labels.float().numpy()
    try:
        array = np.asarray(labels)
    except ValueError:  # a list of lists of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        kind = f"{array.dtype} {array.shape}" if array.dtype.kind in "biufcU" else described(labels)
        raise DataError(f"{where}: labels are one whole number per image, from 0; got {kind} for {count} images")
    if count and not (array.min() >= 0 and array.max() < MOST_CLASSES):
        raise DataError(
            f"{where}: labels number the classes 0, 1, 2, ...; got {array.min()} to {array.max()}; renumber them"
        )
    return torch.from_numpy(array.astype(np.int64))


def described(found: Any) -> str:
    """What came, in a few words."""
    kind = type(found).__name__
    if isinstance(found, Tensor | np.ndarray):
        return f"one {kind} of {tuple(found.shape)}"
    if isinstance(found, Mapping):
        return f"a {kind} with {', '.join(repr(key) for key in found) or 'nothing'}"
    if isinstance(found, tuple | list):
        return f"a {kind} of {len(found)}"
    return f"a {kind}"
