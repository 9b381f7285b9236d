"""Several seeds in one text, such as 0-4."""

import re

from samc.errors import ConfigError

MOST_SEEDS = 1000
REMEDY = "write a range, a list or both, such as 0-4, 0,2,5 or 0-2,7, of numbers below 2^63"


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that a text such as 0-2,7 names, in its order."""
    seeds: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,19})(?:-(\d{1,19}))?", part.strip(), re.ASCII)
        if not ends or max(int(number or 0) for number in ends.groups()) >= 2**63:
            raise ConfigError(f"--seeds cannot be {text!r}; {REMEDY}")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise ConfigError(f"--seeds {text}: a range goes upwards; write {last}-{first}")
        if len(seeds) + last - first >= MOST_SEEDS:
            raise ConfigError(f"--seeds {text}: at most {MOST_SEEDS:,} seeds at a time; name fewer")
        seeds.extend(range(first, last + 1))
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            raise ConfigError(f"--seeds {text} has seed {seed} twice; name each once")
    return tuple(seeds)
