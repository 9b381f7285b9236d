"""Starting a Triton kernel; in a thread that only compiles, no further than that."""

import threading
from typing import Any


class Mode(threading.local):
    """What this thread does with kernels.

    Threads may compile at the same time, but not start: Triton loads what starts a kernel under one name for all of
    them, so that a thread can be handed another kernel's.
    """

    only_compile = False


MODE = Mode()


def only_compile() -> None:
    """From now on this thread compiles kernels and starts none."""
    MODE.only_compile = True


def launch_kernel(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    if MODE.only_compile:
        kernel.warmup(*arguments, grid=grid, **options)
    else:
        kernel[grid](*arguments, **options)
