"""Reference gradients of a network that the engine does not know: the plain way against the loop of public code.

The network is ResNet-18 as torchvision builds it. On a CPU the plain way is that loop and must not be slower; on a GPU
it is the same loop recorded as one graph, where the public one launches kernel by kernel, as torch comes, with TF32.
Ours has its weights and images with their channels first, as learners leave such networks, and once more with them
last. How far its rows are from the loop's is measured with float32 as float32 in both.
"""

from collections.abc import Callable

import torch

from against_loop import PublicGEM
from common import BATCH, SIDE, Row, as_torch_comes, dense, network, options, report, rounds
from samc.engine import Batch, Engine
from samc.models.resnet18 import ResNet18

PAST = {"cpu": 5, "cuda": 19}
LAYOUTS = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
CLAIM = "A network that the engine does not know is as fast as public loops on a CPU, and faster on a GPU."


def ours(batches: list[Batch], layout: torch.memory_format) -> tuple[Engine, Callable[[], torch.Tensor]]:
    """The engine on a network of its own, and a call that gives the rows of all batches, of which the last is new."""
    *memories, now = [batch._replace(x=batch.x.contiguous(memory_format=layout)) for batch in batches]
    model = network(len(batches), now.x.device, backbone=ResNet18).to(memory_format=layout)
    engine, groups = Engine(model), [[memory] for memory in memories]
    return engine, lambda: engine.gradients(groups, now)[0]


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past = 2 if given.quick else PAST[given.device.type]
    batches = [dense(task, 0, given.device) for task in range(past + 1)]
    # all have the same parameters, and none learns
    public = PublicGEM(batches[:-1], network(past + 1, given.device, backbone=ResNet18))
    ready = {name: ours(batches, layout) for name, layout in LAYOUTS.items()}

    def loop() -> torch.Tensor:
        with as_torch_comes():
            return public.gradients(batches[-1])

    expected = public.gradients(batches[-1]).T
    apart = {
        name: float(((rows() - expected).norm(dim=1) / expected.norm(dim=1)).max()) for name, (_, rows) in ready.items()
    }
    cases = {"loop": loop} | {name: rows for name, (_, rows) in ready.items()}
    spent = rounds(cases, given.device, given.quick)
    rows: list[Row] = [
        {
            "layout": name,
            "past tasks": past,
            "images each": BATCH,
            "pixels per side": SIDE,
            "loop ms": 1000 * spent["loop"],
            "plain way ms": 1000 * spent[name],
            "loop / plain way": spent["loop"] / spent[name],
            "largest difference of a row": apart[name],
            "way": engine.way,
        }
        for name, (engine, _) in ready.items()
    ]
    times = " and ".join(f"{row['loop / plain way']:.2f} ({row['layout']})" for row in rows)
    found = (
        f"With {past} past tasks of {BATCH} images the loop takes {times} times as long as the plain way; "
        f"no row differs by more than {max(apart.values()):.1e}."
    )
    report(__file__, CLAIM, rows, found, given)


if __name__ == "__main__":
    main()
