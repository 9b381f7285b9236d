"""The numbers that the paper gives, by item and stream; what it does not have is empty."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

RUNS = 5
# of every method; its standard deviations are over them


@cache
def paper() -> dict[str, Any]:
    """All of them, as paper.yaml has them."""
    return yaml.safe_load(files("samc").joinpath("paper.yaml").read_text(encoding="utf-8"))


def published(item: str, stream: str) -> dict[Any, Any]:
    """What the paper gives for an item on a stream, by row."""
    return paper().get(item, {}).get(stream, {})
