"""The demo: finetune, GEM and SAMC on the embedded stream at equal true bytes, and what SAMC's memory holds."""

from collections.abc import Callable

import torch

from samc.experiments.pictures import PictureCollector, RememberedImage
from samc.learners import build, configure
from samc.protocol import Watcher, run
from samc.record import RunRecord
from samc.streams import split_synthetic

MODELS = ("finetune", "gem", "samc")


def demo(
    seed: int, device: torch.device, make_watcher: Callable[[str], Watcher]
) -> tuple[dict[str, RunRecord], list[RememberedImage]]:
    """Run the three methods; `make_watcher` gives each a watcher, by its name."""
    configs = {name: configure({"model": name, "seed": seed})[0] for name in MODELS}
    stream = split_synthetic(seed)
    records, collector = {}, PictureCollector()
    for name, config in configs.items():
        watchers = [make_watcher(name), *([collector] if name == "samc" else [])]
        records[name] = run(stream, build(config, stream, device), watchers=watchers, config=config.as_dict())
    return records, collector.remembered(per_task=3)
