"""A signal while modules are imported: one line and the end, since nothing has been begun that would have to be undone.

It imports nothing of ours, so that it can come before everything else.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
# the exit code of a program that Ctrl-C has stopped
LEFT = "nothing half-written is left"
MESSAGE = f"interrupted; {LEFT}"
CTRL_C: Mapping[int, Any] = {signal.SIGINT: signal.default_int_handler}


def end_at_once(number: int, frame: Any) -> None:
    """An exception would be a traceback here, or be taken by some library's import for a failure of its own."""
    sys.stderr.write(f"samc: {MESSAGE if number == signal.SIGINT else f'stopped; {LEFT}'}\n")
    sys.stderr.flush()
    os._exit(128 + number)


@contextmanager
def ending_at_once(ours: Mapping[int, Any] = CTRL_C) -> Iterator[None]:
    """Within it such signals end the process; where somebody has arranged for something else, that stays."""
    main_thread = threading.current_thread() is threading.main_thread()
    heard = {number: how for number, how in ours.items() if main_thread and signal.getsignal(number) is how}
    for number in heard:
        signal.signal(number, end_at_once)
    try:
        yield
    finally:
        for number, how in heard.items():
            signal.signal(number, how)
