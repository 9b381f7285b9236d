"""Avalanche, imported beside a torch without CUDA, for whose torchvision two operators have to be there."""

import warnings
from typing import Any

import torch

OPERATORS = ("nms", "qnms")
# torchvision asks for them when it is imported; of the wheel for another torch they are missing, and nobody calls them
library = torch.library.Library("torchvision", "FRAGMENT")


def import_avalanche() -> Any:
    """The module, or None where it is not installed; what it says against its own dependencies is not ours to hear."""
    for name in OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import avalanche  # noqa: PLC0415
            import avalanche.training.supervised  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "avalanche":
            raise
        return None
    return avalanche
