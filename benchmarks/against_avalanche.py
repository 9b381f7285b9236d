"""One whole GEM step of ours against Avalanche's GEM plugin with the same network, memories and batches.

The plugin is called as Avalanche's training loop calls it; that loop's own work, its data loading and its logging are
not counted. Not called avalanche.py, since that would stand in the way of what it imports.
"""

from types import SimpleNamespace

import torch

from common import BATCH, LR, SIDE, as_torch_comes, dense, learner, network, options, report, rounds, steps
from samc.engine import Batch

MARGIN = 0.5
CLAIM = "A whole GEM step is faster than Avalanche's."


class OneHead(torch.nn.Module):
    """The network with all classes in one head, as a plugin that knows no tasks wants it."""

    def __init__(self, tasks: int, device: torch.device):
        super().__init__()
        self.inner = network(tasks, device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.heads.linear(self.inner.pooled(self.inner.features(x)))


class Avalanche:
    """What a strategy of Avalanche is to a plugin, and its step."""

    def __init__(self, plugin, memories: list[Batch]):
        past, device = len(memories), memories[0].x.device
        model = OneHead(past + 1, device).train()
        self.strategy = SimpleNamespace(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=LR),
            device=device,
            _criterion=torch.nn.CrossEntropyLoss(),
            clock=SimpleNamespace(train_exp_counter=past),
        )
        self.plugin = plugin
        for memory in memories:
            plugin.memory_x[memory.task], plugin.memory_y[memory.task] = memory.x, memory.y
            plugin.memory_tid[memory.task] = torch.full_like(memory.y, memory.task)

    def observe(self, x: torch.Tensor, y: torch.Tensor, task: int) -> None:
        with as_torch_comes():
            strategy = self.strategy
            x, y = x.to(strategy.device).float() / 255, y.to(strategy.device)
            self.plugin.before_training_iteration(strategy)
            strategy.optimizer.zero_grad()
            strategy._criterion(strategy.model(x), y).backward()
            self.plugin.after_backward(strategy)
            strategy.optimizer.step()


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    try:
        import avalanche  # noqa: PLC0415
        from avalanche.training.plugins import GEMPlugin  # noqa: PLC0415
    except ImportError:
        print("Avalanche is not installed, so nothing is compared with it: pip install avalanche-lib")
        return
    past, side = (2, 16) if given.quick else (19 if given.device.type == "cuda" else 10, SIDE)
    theirs = Avalanche(GEMPlugin(BATCH, MARGIN), [dense(task, 0, given.device, BATCH, side) for task in range(past)])
    ours = learner("gem", past, given.device, side)
    cases = {"avalanche": steps(theirs.observe, past, side), "ours": steps(ours.observe, past, side)}
    spent = rounds(cases, given.device, given.quick)
    ratio = spent["avalanche"] / spent["ours"]
    row = {
        "past tasks": past,
        "images each": BATCH,
        "pixels per side": side,
        "avalanche": getattr(avalanche, "__version__", "unknown"),
        "avalanche ms": 1000 * spent["avalanche"],
        "ours ms": 1000 * spent["ours"],
        "avalanche / ours": ratio,
    }
    found = f"With {past} past tasks of {BATCH} images Avalanche takes {ratio:.2f} times as long as ours."
    report(__file__, CLAIM, [row], found, given)


if __name__ == "__main__":
    main()
