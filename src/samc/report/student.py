"""Student's t: its tail and its quantile, and the two tests made of them; no library that we need has them."""

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def paired_p(differences: Sequence[float]) -> float | None:
    """How likely a mean so far from zero is if pairs do not differ; None of fewer than two, or if none scatters."""
    if len(differences) < 2 or (sd := statistics.stdev(differences)) == 0:
        return None
    return student_tail(statistics.fmean(differences) * math.sqrt(len(differences)) / sd, len(differences) - 1)


def welch_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """How likely means so far apart are if they are of one mean; the two may scatter and be as many as they like."""
    if min(len(first), len(second)) < 2:
        return None
    return welch_p_of_moments(moments(first), moments(second))


Moments = tuple[float, float, int]
# of a sample: its mean, its standard deviation, and how many values it has


def moments(values: Sequence[float]) -> Moments:
    return statistics.fmean(values), statistics.stdev(values), len(values)


def welch_p_of_moments(first: Moments, second: Moments) -> float | None:
    """The same, where no more is known of a sample than its mean, its standard deviation and its size."""
    (mean, sd, count), (other_mean, other_sd, other_count) = first, second
    if min(count, other_count) < 2 or (sd == 0 and other_sd == 0):
        return None
    one, other = sd**2 / count, other_sd**2 / other_count
    freedom = (one + other) ** 2 / (one**2 / (count - 1) + other**2 / (other_count - 1))
    return student_tail((mean - other_mean) / math.sqrt(one + other), freedom)


def student_quantile(freedom: float | int) -> float:
    """The t within which 95 % of Student's distribution lie, found by bisection on the angle whose tangent is t/√ν."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # each step gives a bit, and a double has 53
        middle = (low + high) / 2
        inside = student_tail(math.tan(middle) * math.sqrt(freedom), freedom) > 1 - CONFIDENCE
        low, high = (middle, high) if inside else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def student_tail(t: float, freedom: float | int) -> float:
    """P(|T| ≥ |t|), Student's T with ν degrees, whole or not: the beta integral up to ν/(ν + t²)."""
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (DLMF 8.17.22), evaluated from its beginning with Lentz's method."""
    if x in (0, 1):
        return x
    if x > (a + 1) / (a + b + 2):  # where it converges slowly
        return 1 - incomplete_beta(1 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction, above, below = 1.0, 1.0, 0.0
    for number in range(1000):
        m = number // 2
        if number == 0:
            term = 1.0
        elif number % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / (1 + term * below)
        above = 1 + term / above
        fraction *= above * below
        if abs(above * below - 1) < 1e-15:
            break
    return math.exp(logarithm) * (fraction - 1) / a
