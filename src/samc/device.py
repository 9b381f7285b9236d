"""Which device to learn on, and the switches that make it repeat itself."""

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
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts, which is after this
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32
    torch.use_deterministic_algorithms(True)
    # everything that is read has been written, and writing it twice takes time
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return torch.device("cuda")
