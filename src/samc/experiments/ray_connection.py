"""A connection to Ray: one that prints nothing, and leaves Ray and the process as it found them."""

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from samc.errors import ConfigError
from samc.experiments.sharing import shared_gpu

SOURCES = Path(__file__).parents[1]
# of this package: every machine of a cluster learns with these
ANSWER_SECONDS = 5.0
# Ray itself would wait for ever at an address where nothing listens


def import_ray() -> Any:
    """Ray, which is an extra and slow to import."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics are sent
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")  # no stack trace when a user kills a worker
    try:
        import ray  # noqa: PLC0415
        import ray.util.queue  # noqa: PLC0415
    except ImportError:
        raise ConfigError("--executor ray needs Ray: pip install 'samc[ray]'") from None
    return ray


@contextmanager
def connected(address: str | None, cores: int | None, shared: bool) -> Iterator[None]:
    """Connected to the Ray at an address, or to one of our own with so many cores, which is gone afterwards.

    `shared` is whether several of our jobs are to be on a GPU at once. A Ray that this process is connected to already
    is used instead, and stays.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    with ExitStack() as closing:
        closing.enter_context(quiet(ray))
        common = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if address is None:
            if shared:
                closing.enter_context(shared_gpu())
            # a folder of its own, so that nothing is left; in /tmp, as the path of a socket has to be short
            own = tempfile.TemporaryDirectory(prefix="samc-ray-", dir="/tmp", ignore_cleanup_errors=True)
            folder = closing.enter_context(own)
            closing.callback(ray.shutdown, wait_for_processes=True)
            ray.init("local", num_cpus=cores, include_dashboard=False, _temp_dir=folder, **common)
        else:
            check_answers(address)
            closing.callback(ray.shutdown)
            try:
                ray.init(address, runtime_env={"py_modules": [str(SOURCES)]}, **common)
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise ConfigError(f"cannot join the Ray cluster at {address}: {reason}") from None
        yield


def check_answers(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if address == "auto":
        return
    try:
        socket.create_connection((host.removeprefix("ray://"), int(port)), ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or error) if colon else "it is no host:port"
        raise ConfigError(f"no Ray cluster answers at {address} ({reason}); start one: ray start --head") from None


@contextmanager
def quiet(ray: Any) -> Iterator[None]:
    """Nothing is printed to the terminal, and afterwards signals are handled as before."""
    main = threading.current_thread() is threading.main_thread()
    handler, worker = signal.getsignal(signal.SIGTERM), ray._private.worker
    worker._worker_logs_enabled = False  # no public switch hides what it prints on lost workers, which we report
    try:
        yield
    finally:
        worker._worker_logs_enabled = True
        if main:
            signal.signal(signal.SIGTERM, handler)
