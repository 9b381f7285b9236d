"""Being told to stop: a signal is noted while work must not be cut in two, and obeyed where it can be gone on from."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal has ended the work; `remedy` says how to go on. No Exception: what handles failures lets it through."""

    def __init__(self, number: int, remedy: str = ""):
        super().__init__(number, remedy)
        self.number, self.remedy = number, remedy


class Request:
    """Which signal has come, if one has."""

    number: int | None = None


@contextmanager
def signals_noted() -> Iterator[Request]:
    """Within the block SIGINT and SIGTERM are noted only; a second SIGINT is a KeyboardInterrupt, at once.

    A signal that is ignored, as under nohup, stays so. Only the main thread can do this; others note nothing.
    """
    request, before = Request(), dict[int, Any]()

    def note(number: int, frame: Any) -> None:
        if request.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.number = request.number or number

    if threading.current_thread() is threading.main_thread():
        heard = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
        before = {number: signal.signal(number, note) for number in heard}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
