"""One GPU for several processes at once: NVIDIA's Multi-Process Service (MPS), started for the time it is needed."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

PIPE, LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
CONTROL = "nvidia-cuda-mps-control"
DEFAULT = "/tmp/nvidia-mps"
# where a service that the machine runs anyway listens, unless the environment names another place
PROBE = (
    "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); device, context = ctypes.c_int(), ctypes.c_void_p(); "
    "failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) "
    "or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device); raise SystemExit(int(failed != 0))"
)
# whether a process can work on the GPU: some machines let the service start and then no process in
PROBE_SECONDS = 60


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Processes that are started within run on the GPU at the same time.

    Without the service they take turns, with equal results: five runs then took half as long again
    (docs/performance.md). A service that runs already is used as it is.
    """
    control = shutil.which(CONTROL)
    if control is None or PIPE in os.environ or os.path.exists(DEFAULT):
        yield
        return
    with ExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="samc-mps-", ignore_cleanup_errors=True))
        service = {PIPE: folder, LOG: folder}
        # before its start, since an interrupt may come any time
        closing.callback(succeeds, control, text=b"quit\n", environment=service)
        if succeeds(control, "-d", environment=service) and succeeds(sys.executable, "-c", PROBE, environment=service):
            closing.callback(clear_environment)
            os.environ.update(service)
        yield


def clear_environment() -> None:
    for name in (PIPE, LOG):
        os.environ.pop(name, None)


def succeeds(*command: str, environment: dict[str, str], text: bytes = b"") -> bool:
    """Run a command with some text as its input, without showing what it prints; returns whether it succeeded."""
    merged = {**os.environ, **environment}
    try:
        done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=PROBE_SECONDS, env=merged)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
