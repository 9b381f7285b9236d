"""A measure over seeds: mean, standard deviation and Student's interval, from the standard library alone."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


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
    def interval(self) -> tuple[float, float] | None:
        """Where the mean over all seeds lies, with 95 % confidence, if seeds scatter normally."""
        if self.sd is None:
            return None
        half = student_quantile(len(self.values) - 1) * self.sd / math.sqrt(len(self.values))
        return self.mean - half, self.mean + half


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values."""
    return Spread(tuple(values)) if values else None


def student_quantile(freedom: int) -> float:
    """The t within which 95 % of Student's distribution lie, found by bisection on the angle whose tangent is t/√ν."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # each step gives a bit, and a double has 53
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, freedom) < CONFIDENCE else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def student_probability(angle: float, freedom: int) -> float:
    """P(|T| ≤ √ν·tan θ), Student's T with ν whole degrees: a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for number in range(freedom // 2):
        total += term
        term *= square * (2 * number + 1 + odd) / (2 * number + 2 + odd)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
