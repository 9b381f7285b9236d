"""Which device to learn on, and the switches that make it repeat itself."""

import ctypes
import importlib.util
import os

import torch

from samc.errors import ConfigError, unknown


def choose(name: str) -> torch.device:
    """The device by its flag, set so that the same seed gives the same record."""
    if name not in ("auto", "cpu", "cuda"):
        raise unknown("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch sees no CUDA device here; use --device cpu, or a CUDA build of torch")
    if name == "cpu" or not torch.cuda.is_available():
        keep_heap()
        return torch.device("cpu")
    if importlib.util.find_spec("triton") is None:
        raise ConfigError("the GPU's kernels need triton: pip install triton, or learn on the CPU with --device cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts, which is after this
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32
    torch.use_deterministic_algorithms(True)
    # everything that is read has been written, and writing it twice takes time
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return torch.device("cuda")


def keep_heap() -> None:
    """Let freed memory stay with the process: the next step needs as much again, and fresh pages cost time."""
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: its habits are not known
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    for setting, value in ((mmap_threshold, 1 << 30), (trim_threshold, 1 << 30), (top_pad, 1 << 26)):
        tune(setting, value)
