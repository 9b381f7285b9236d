"""Ctrl-C while modules are imported: one line and the end, since nothing has been begun that would have to be undone.

It imports nothing of ours, so that it can come before everything else.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
# the exit code of a program that Ctrl-C has stopped
MESSAGE = "interrupted; nothing half-written is left"


def end_at_once(number: int, frame: Any) -> None:
    """An exception would be a traceback here, or be taken by some library's import for a failure of its own."""
    sys.stderr.write(f"samc: {MESSAGE}\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process; where somebody has arranged for something else, that stays."""
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and before is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, end_at_once)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
