"""A measure over seeds: mean, standard deviation and Student's interval."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from samc.report.student import student_quantile

LEAST_SEEDS = 3
# for an interval and for a test: two seeds tell nearly nothing of how far others scatter


@dataclass(frozen=True)
class Spread:
    """The values of some seeds, in their order; at least one."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """The sample's standard deviation; of a single run there is none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def testable(self) -> bool:
        """Whether there are seeds enough for an interval and for a test."""
        return len(self.values) >= LEAST_SEEDS

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean over all seeds lies, with 95 % confidence, if seeds scatter normally; None of too few."""
        if self.sd is None or not self.testable:
            return None
        half = student_quantile(len(self.values) - 1) * self.sd / math.sqrt(len(self.values))
        return self.mean - half, self.mean + half


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values."""
    return Spread(tuple(values)) if values else None
