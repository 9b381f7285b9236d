"""What tables and figures take from one record: accuracies in percent, bytes, images, seconds."""

from collections.abc import Callable
from statistics import fmean

from samc.metrics import just_learnt
from samc.record import RunRecord

Measure = Callable[[RunRecord], float]


def percent(name: str) -> Measure:
    """A record's fraction in percent, or in points."""
    return lambda record: 100 * float(getattr(record, name))


def just_learnt_percent(record: RunRecord) -> float:
    """Mean accuracy on each task right after it was learnt."""
    return 100 * float(just_learnt(record.accuracy_matrix).mean())


def images(record: RunRecord) -> int:
    """How many are remembered at the end."""
    return sum(record.memory["images_per_task"])


def images_per_task(record: RunRecord) -> float:
    """Mean over tasks; 0 where no images are kept."""
    return fmean(record.memory["images_per_task"] or [0])


def memory_bytes(record: RunRecord) -> int:
    """Bytes that count against the budget."""
    return record.memory.get("memory_bytes", record.memory["bytes"])


def extra_bytes(record: RunRecord) -> int:
    """Bytes that a method keeps of past tasks and that do not count against the budget: old networks, decoders."""
    # records before 0.2 count the extra bytes among the parts only
    return max(record.memory["bytes"], sum(record.memory["bytes_by_part"].values())) - memory_bytes(record)


def total_seconds(record: RunRecord) -> float:
    return record.seconds["total"]
