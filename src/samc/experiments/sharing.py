"""One GPU for several processes at once: NVIDIA's own service for that, started for the time it is needed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

PIPE, LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
CONTROL = "nvidia-cuda-mps-control"
DEFAULT = "/tmp/nvidia-mps"
# where a service of the machine's own listens, unless the environment names another place


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Processes that are started meanwhile run on the GPU at the same time.

    Without the service they take turns, with equal results: five runs then took half as long again
    (docs/performance.md). A service that runs already is used as it is.
    """
    control = shutil.which(CONTROL)
    if control is None or PIPE in os.environ or os.path.exists(DEFAULT):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="samc-mps-", ignore_cleanup_errors=True) as folder:
        own, started = {PIPE: folder, LOG: folder}, True  # until it is known better: an interrupt may come in between
        os.environ.update(own)
        try:
            started = subprocess.run([control, "-d"], capture_output=True, check=False).returncode == 0
            if not started:
                for name in own:
                    del os.environ[name]
            yield
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", capture_output=True, check=False)
            for name in own:
                os.environ.pop(name, None)
