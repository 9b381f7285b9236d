"""What a run was computed on: its device and versions, as a record has them."""

import math
import platform
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy
import torch

from samc.values import is_scalar, is_text
from samc.version import VERSION

PLACE = {"device": ("name",), "versions": ("samc", "torch")}
# what tables need of a place


def place(device: torch.device) -> dict[str, Any]:
    """The device and versions that compute here."""
    return {"device": describe_device(device), "versions": versions()}


def is_part(value: Any) -> bool:
    """A place, and until where a run was learnt there."""
    if not isinstance(value, dict) or set(value) != {*PLACE, "until"} or not is_text(value["until"]):
        return False
    if not all(isinstance(value[name], dict) and {*keys} <= {*value[name]} for name, keys in PLACE.items()):
        return False
    device, used = value["device"], value["versions"]
    return is_text(device["name"]) and all(map(is_scalar, device.values())) and all(map(is_text, used.values()))


def in_turn(names: Iterable[str]) -> str:
    """One after the other, each once while it lasts."""
    return ", then ".join(name for name, _ in groupby(names))


def versions() -> dict[str, str]:
    return {
        "samc": VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # its own is no plain text, which a checkpoint would not hold
        "numpy": numpy.__version__,
        "opencv": cv2.__version__,
    }


def describe_device(device: torch.device) -> dict[str, Any]:
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        memory = math.ceil(properties.total_memory / 2**30)
        return {"type": "cuda", "name": properties.name, "memory_gib": memory}
    return {"type": device.type, "name": processor_name(), "threads": torch.get_num_threads()}


def processor_name() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
