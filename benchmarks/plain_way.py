"""Reference gradients of a network that the engine does not know: the plain way against the loop of public code.

The network is a ResNet-18 as torchvision writes it, 20 to 160 channels wide: 7x7 stem, max pool. On a GPU the plain way
is the same loop, recorded as one graph; on a CPU it is that loop and must not be slower.
"""

import torch
from torch import nn

from against_loop import PublicGEM
from common import BATCH, SIDE, as_torch_comes, dense, options, report, rounds, task_classes
from samc.engine import Engine
from samc.models import Classifier, Heads, probe
from samc.models.resnet18 import ResNet18

TASKS = 19
CLAIM = "A network that the engine does not know is as fast as public loops on a CPU, and faster on a GPU."


def classifier(tasks: int, device: torch.device) -> Classifier:
    torch.manual_seed(0)
    backbone = ResNet18(3)
    backbone.maxpool = nn.MaxPool2d(3, 2, 1)
    found = probe(backbone, (3, SIDE, SIDE))
    model = Classifier(backbone, Heads(found.width, 5 * tasks), found).to(device)
    for task, classes in enumerate(task_classes(tasks)):
        model.heads.assign(task, classes)
    return model


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    past = 2 if given.quick else TASKS if given.device.type == "cuda" else 5
    memories = [dense(task, 0, given.device) for task in range(past)]
    now = dense(past, 0, given.device)
    public = PublicGEM(memories)
    public.adopt(classifier(past + 1, given.device))
    ours = classifier(past + 1, given.device).to(memory_format=torch.channels_last)
    engine = Engine(ours)
    groups = [[memory] for memory in memories]

    def loop() -> torch.Tensor:
        with as_torch_comes():
            return public.gradients(now)

    def plain() -> torch.Tensor:
        return engine.gradients(groups, now)[0]

    expected, rows = loop().T.clone(), plain()
    apart = float(((rows - expected).norm(dim=1) / expected.norm(dim=1)).max())
    spent = rounds({"loop": loop, "plain": plain}, given.device, given.quick)
    row = {
        "past tasks": past,
        "images each": BATCH,
        "pixels per side": SIDE,
        "loop ms": 1000 * spent["loop"],
        "plain way ms": 1000 * spent["plain"],
        "loop / plain way": spent["loop"] / spent["plain"],
        "apart": apart,
        "way": engine.way,
    }
    found = f"With {past} past tasks the loop takes {row['loop / plain way']:.2f} times as long as the plain way."
    report(__file__, CLAIM, [row], found, given)


if __name__ == "__main__":
    main()
