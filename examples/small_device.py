"""One megabyte for everything: network, gradient, average, memory, decoded images, and what a step computes with."""

import sys

import torch
from torch import nn

import samc

PER_CLASS = int(sys.argv[1]) if sys.argv[1:] else 140  # images; give a smaller number to try it out

stream = samc.streams.split_synthetic(seed=0, train_per_class=PER_CLASS)
sizes = [(3, 10), (10, 20), (20, 40)]
net = nn.Sequential(*(layer for i, o in sizes for layer in (nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU())))
learner = samc.ER(
    num_classes=20, image_shape=(3, 32, 32), model=net, lr=0.05, average=0.9, distil=1.0,
    memory_bytes="1700", codec="jpeg:40@16", replay_size=5, replay_weight=1.0,
)  # fmt: skip
record = samc.run(stream, learner, batch_size=5)
saved: dict[int, int] = {}  # bytes that one step keeps for its backward pass, by their place


def note(tensor: torch.Tensor) -> torch.Tensor:
    saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return tensor


with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    learner.observe(*next(stream[-1].batches(5)), task=4)
weights = sum(tensor.nbytes for tensor in learner.model.state_dict().values() if isinstance(tensor, torch.Tensor))
parts = {"network": weights, "gradient": weights, **record.memory["bytes_by_part"]}
parts |= {"decoded images": record.memory["working_set_bytes"], "activations": sum(saved.values())}
parts["everything"] = sum(parts.values())
for name, size in parts.items():
    print(f"{size:>10,} bytes  {name}")
print(f"{100 * record.acc:.1f} % over all tasks, from {sum(record.memory['images_per_task'])} images remembered")
assert parts["everything"] < 1_000_000
