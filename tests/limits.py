"""Limits on time, for slow machines too: as many times a limit's seconds as counting takes longer than usual."""

import time
from functools import cache

COUNTED, USUAL = 1_000_000, 0.1
# how far is counted, and how many seconds of a processor that may take before a machine is called slow


@cache
def slowness():
    """1 on a usual machine; else how many times as long this one takes, by the slowest of three tries."""
    took = []
    for _ in range(3):
        began, total = time.process_time(), 0
        for number in range(COUNTED):
            total += number
        took.append(time.process_time() - began)
    return max(1.0, max(took) / USUAL)


def within(seconds):
    """The limit on this machine."""
    return seconds * slowness()
