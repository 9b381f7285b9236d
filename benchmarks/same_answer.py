"""Does the engine learn what a plain loop learns: ACC on the embedded stream with each, over seeds.

Both compute the same gradients; they round otherwise, and a ReLU that flips makes another run of it. What counts is
that the two differ less than seeds do.
"""

import statistics

import torch

from common import Row, options, report
from samc import GEM, run
from samc.engine import Batch, gradient
from samc.streams import split_synthetic

CLAIM = "The engine and a plain loop learn the same: their ACC differs by less than that of two seeds."


class LoopGEM(GEM):
    """GEM whose gradients come one task after the other."""

    def setup(self) -> None:
        super().setup()
        self.engine.gradients = self.one_by_one

    def one_by_one(self, memories: list[list[Batch]], batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        found = [gradient(self.model, group) for group in (*memories, [batch])]
        return torch.stack([row for row, _ in found]), found[-1][1]


def accuracy(kind: type[GEM], seed: int, device: torch.device, quick: bool) -> float:
    few = {"n_tasks": 2, "test_per_class": 2} if quick else {}
    stream = split_synthetic(seed=seed, **few)
    learner = kind(
        stream.num_classes, stream.image_shape, task_classes=stream.task_classes, lr=0.02, memory_strength=1.0,
        seed=seed, device=device,
    )  # fmt: skip
    return run(stream, learner).acc


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    rows: list[Row] = []
    for seed in range(1 if given.quick else 3):
        engine, loop = (accuracy(kind, seed, given.device, given.quick) for kind in (GEM, LoopGEM))
        rows.append({"seed": seed, "engine ACC %": 100 * engine, "loop ACC %": 100 * loop})
    means = {name: statistics.mean(row[name] for row in rows) for name in ("engine ACC %", "loop ACC %")}
    apart = abs(means["engine ACC %"] - means["loop ACC %"])
    spread = statistics.stdev(row["loop ACC %"] for row in rows) if len(rows) > 1 else 0.0
    found = (
        f"The means of {len(rows)} seeds are {apart:.1f} points apart; seeds have a standard deviation of {spread:.1f}."
    )
    report(__file__, CLAIM, rows, found, given)


if __name__ == "__main__":
    main()
