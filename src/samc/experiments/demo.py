"""The demo: finetune, GEM, SAMC as in the paper and SAMC at its best, at equal true bytes on the embedded stream."""

from collections.abc import Callable
from typing import Any

import torch

from samc.experiments.pictures import PictureCollector, RememberedImage
from samc.learners import build, configure
from samc.protocol import Watcher, run
from samc.record import RunRecord
from samc.streams import split_synthetic

PAPER, BEST = "samc, as in the paper", "samc, best"
METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"model": "finetune"},
    "gem": {"model": "gem"},
    PAPER: {"model": "samc", "preset": "paper", "accounting": "bytes"},
    BEST: {"model": "samc"},
}


def demo(
    seed: int, device: torch.device, make_watcher: Callable[[str], Watcher]
) -> tuple[dict[str, RunRecord], list[RememberedImage]]:
    """Run the four; `make_watcher` gives each a watcher, by its name. The pictures are what the paper's SAMC keeps."""
    configs = {name: configure({**given, "seed": seed})[0] for name, given in METHODS.items()}
    stream = split_synthetic(seed)
    records, collector = {}, PictureCollector()
    for name, config in configs.items():
        watchers = [make_watcher(name), *([collector] if name == PAPER else [])]
        records[name] = run(stream, build(config, stream, device), watchers=watchers, config=config.as_dict())
    return records, collector.remembered(per_task=3)
