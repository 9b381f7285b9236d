"""Reference gradients of a network that the engine does not know: the plain way against the loop of public code.

The network is ResNet-18 as torchvision builds it. On a CPU the plain way is that loop and must not be slower; on a GPU
it is the same loop recorded as one graph, where the public one starts kernel by kernel, as torch comes with TF32. How
far the two are apart is measured with float32 as float32 in both.
"""

import torch

from against_loop import PublicGEM
from common import BATCH, SIDE, as_torch_comes, dense, network, options, report, rounds
from samc.engine import Engine
from samc.models.resnet18 import ResNet18

PAST = {"cpu": 5, "cuda": 19}
CLAIM = "A network that the engine does not know is as fast as public loops on a CPU, and faster on a GPU."


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past = 2 if given.quick else PAST[given.device.type]
    batches = [dense(task, 0, given.device) for task in range(past + 1)]
    public = PublicGEM(batches[:-1], network(past + 1, given.device, backbone=ResNet18))
    # laid out as learners do it; both have the same parameters, and none learns
    engine = Engine(network(past + 1, given.device, backbone=ResNet18).to(memory_format=torch.channels_last))
    *memories, now = [batch._replace(x=batch.x.contiguous(memory_format=torch.channels_last)) for batch in batches]
    groups = [[memory] for memory in memories]

    def loop() -> torch.Tensor:
        with as_torch_comes():
            return public.gradients(batches[-1])

    def plain() -> torch.Tensor:
        return engine.gradients(groups, now)[0]

    expected = public.gradients(batches[-1]).T
    apart = float(((plain() - expected).norm(dim=1) / expected.norm(dim=1)).max())
    spent = rounds({"loop": loop, "plain": plain}, given.device, given.quick)
    row = {
        "past tasks": past,
        "images each": BATCH,
        "pixels per side": SIDE,
        "loop ms": 1000 * spent["loop"],
        "plain way ms": 1000 * spent["plain"],
        "loop / plain way": spent["loop"] / spent["plain"],
        "largest difference of a row": apart,
        "way": engine.way,
    }
    found = (
        f"With {past} past tasks of {BATCH} images the loop takes {row['loop / plain way']:.2f} times as long as the "
        f"plain way; their rows are at most {apart:.1e} apart."
    )
    report(__file__, CLAIM, [row], found, given)


if __name__ == "__main__":
    main()
