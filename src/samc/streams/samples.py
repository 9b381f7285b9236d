"""Batches of a DataLoader and samples of a Dataset: which part is the image and which the label, and both read."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from samc.errors import DataError
from samc.streams.pixels import CHANNELS, Normalisation, PixelReader, as_labels, as_tensor, by_sides, described

IMAGE_KEYS = ("image", "x", "pixel_values", "img")
LABEL_KEYS = ("label", "y", "labels", "fine_label")
READ_AT_ONCE = 512
# images of a Dataset that are turned into bytes together


def image_and_label(found: Any, where: str) -> tuple[Any, Any]:
    """The two parts of a batch, or of a Dataset's sample."""
    if isinstance(found, Mapping):
        images = [found[key] for key in IMAGE_KEYS if key in found]
        labels = [found[key] for key in LABEL_KEYS if key in found]
        if images and labels:
            return images[0], labels[0]
    elif isinstance(found, tuple | list) and len(found) == 2:
        return found[0], found[1]
    raise DataError(
        f"{where} come as {described(found)}; expected pairs (image, label), or dicts with one of "
        f"{', '.join(IMAGE_KEYS)} and one of {', '.join(LABEL_KEYS)}"
    )


def read_pair(found: Any, reader: PixelReader) -> tuple[Tensor, Int64[Tensor, "n"]]:
    """A batch of images, bytes or floats as they came, and its labels."""
    images, labels = image_and_label(found, reader.where)
    x = reader.read(images)
    return x, as_labels(labels, len(x), reader.where)


def read_dataset(
    dataset: Any, where: str, normalisation: Normalisation | None
) -> tuple[UInt8[Tensor, "n c h w"], Int64[Tensor, "n"]]:
    """Every sample of a torch Dataset, as bytes."""
    reader = PixelReader(where, normalisation)
    parts, images, labels = list[Tensor](), list[Tensor](), list[Any]()
    announced, most_bytes = length(dataset) or 0, physical_memory() // 2  # they are joined in the end
    for sample in samples(dataset):
        image, label = image_and_label(sample, where)
        images.append(one_image(image, where))
        if images[-1].numel() * max(announced, len(labels) + 1) > most_bytes:
            how_many = f"{announced:,}" if announced else f"more than {len(labels):,}"
            remedy = "take fewer or smaller ones, or a DataLoader for each task, which is read as it is learnt"
            raise DataError(f"{where}, {how_many} of {by_sides(tuple(images[-1].shape))}, fill this machine; {remedy}")
        labels.append(label.item() if isinstance(label, Tensor | np.ndarray) and label.ndim == 0 else label)
        if len(images) == READ_AT_ONCE:
            parts.append(joined(images, reader))
            images = []
    if images:
        parts.append(joined(images, reader))
    if not parts:
        raise DataError(f"{where} are none: the {type(dataset).__name__} is empty")
    reader.finish()
    return torch.cat(parts), as_labels(labels, len(labels), where)


def samples(dataset: Any) -> Iterator[Any]:
    """A Dataset's samples in order, whether it is indexed or iterated."""
    count = length(dataset)
    if count is None:
        yield from dataset
    else:
        for index in range(count):
            yield dataset[index]


def length(dataset: Any) -> int | None:
    """How many samples a Dataset has, if it can tell."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def physical_memory() -> int:
    """Of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def one_image(image: Any, where: str) -> Tensor:
    """A sample's image with its channels first; what has neither shape of an image is left for the reader to refuse."""
    if isinstance(image, Image.Image):
        if image.mode.startswith(("I", "F")):
            raise DataError(f"{where} have more than 8 bits per pixel, cut off at 255; convert them to 8-bit")
        array = np.array(image.convert("L" if image.mode in ("1", "L") else "RGB"))
        return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))
    tensor = as_tensor(image, where)
    if tensor.ndim == 2:
        return tensor[None]
    last = tensor.ndim == 3 and tensor.shape[0] not in CHANNELS and tensor.shape[2] in CHANNELS
    return tensor.permute(2, 0, 1) if last else tensor


def joined(images: list[Tensor], reader: PixelReader) -> UInt8[Tensor, "n c h w"]:
    """Images of one size as bytes."""
    odd = next((image for image in images if image.shape != images[0].shape), None)
    if odd is not None:
        sizes = f"{by_sides(tuple(images[0].shape))} and {by_sides(tuple(odd.shape))}"
        raise DataError(f"{reader.where} differ in size: {sizes}; bring them to one size in the Dataset's transform")
    return reader.to_bytes(reader.read(torch.stack(images)))
