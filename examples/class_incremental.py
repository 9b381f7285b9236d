"""Class-incremental: one head for all classes seen, no task at test; once more where nobody says when tasks change."""

import sys

from torch import nn

import samc

PER_CLASS = int(sys.argv[1]) if sys.argv[1:] else 140  # images; give a smaller number to try it out
SIZES = ((3, 16), (16, 32), (32, 64))


def network() -> nn.Module:
    return nn.Sequential(*(part for i, o in SIZES for part in (nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU())))


stream = samc.streams.split_synthetic(seed=0, train_per_class=PER_CLASS)
common = {"image_shape": (3, 32, 32), "scenario": "class", "lr": 0.1, "memory_bytes": "150KB", "codec": "jpeg:20"}
parts = {"average": 0.9, "replay_size": 30, "replay_weight": 1.0}
learners = {
    "ER, raw images": samc.ER(model=network(), **{**common, "codec": "raw"}),
    "ER, JPEGs": samc.ER(model=network(), **common, **parts),
    "ER-ACE, JPEGs": samc.ER(model=network(), **common, **parts, batch_classes="batch", replay_current=True),
    "no boundary told": samc.ER(model=network(), **common, **parts, boundaries="hidden"),
}
for name, learner in learners.items():
    record = samc.run(stream, learner)
    rows = [row[: number + 1] for number, row in enumerate(record.accuracy_matrix[1:])]  # on tasks that have come
    print(f"{name:>18}: " + "  ".join(f"{100 * sum(row) / len(row):5.1f} %" for row in rows))
print(learner.predict(stream[0].test_x[:5]))  # no task: one of all 20 classes
