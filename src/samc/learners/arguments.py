"""What a constructor is given: checked, and said in one line what is right."""

from typing import Any

import torch

from samc.errors import ConfigError
from samc.learners.inputs import task_number

LARGEST_IMAGE = 2**24
# numbers of an image: of 3x2364x2364; no network here takes as many


def checked_shape(shape: Any) -> tuple[int, int, int]:
    """Three whole numbers from 1."""
    try:
        channels, height, width = (task_number(side) for side in shape)
    except (TypeError, ValueError):
        channels = height = width = 0
    if min(channels, height, width) < 1:
        raise ConfigError(f"image_shape is (channels, height, width), such as (3, 32, 32); got {shape!r}")
    if channels * height * width > LARGEST_IMAGE:
        found = f"{channels}x{height}x{width}"
        raise ConfigError(f"an image has at most {LARGEST_IMAGE:,} numbers, these have {found}; make them smaller")
    return channels, height, width


def check_number(name: str, value: Any, least: int, meaning: str) -> None:
    """Refuse what is no whole number, or out of range; None is for whoever does not know."""
    try:
        right = value is None or least <= task_number(value)
    except ConfigError:
        right = False
    if not right:
        raise ConfigError(f"{name} is {meaning}; got {value!r}")


def checked_device(device: Any) -> torch.device:
    """A device that is there."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(". ")[:100]
        raise ConfigError(f"device {device!r} cannot be used here ({reason}); use cpu or cuda") from None
