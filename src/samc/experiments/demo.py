"""The demo: finetune, GEM and SAMC on the embedded stream at equal true bytes, and a look into SAMC's memory."""

from collections.abc import Callable

import torch

from samc.config import resolve
from samc.experiments.pictures import Remembered, Witness
from samc.learners import build, method
from samc.protocol import Watcher, run
from samc.record import RunRecord
from samc.streams import split_synthetic

MODELS = ("finetune", "gem", "samc")


def demo(
    seed: int, device: torch.device, watcher: Callable[[str], Watcher]
) -> tuple[dict[str, RunRecord], list[Remembered]]:
    """Run the three methods; `watcher` makes one for each, by its name."""
    configs = {name: resolve({"model": name, "seed": seed}, method(name).settings)[0] for name in MODELS}
    stream = split_synthetic(seed)
    records, witness = {}, Witness()
    for name, config in configs.items():
        watchers = [watcher(name), *([witness] if name == "samc" else [])]
        records[name] = run(stream, build(config, stream, device), watchers=watchers, config=config.as_dict())
    return records, witness.remembered(per_task=3)
