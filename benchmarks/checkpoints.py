"""What saving costs a run on the embedded stream, as often as it saves by itself, and how large what it saves is."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from common import Row, options, report
from samc.checkpoints import EVERY, KIND, Checkpoints
from samc.learners import build, configure
from samc.protocol import learn_stream
from samc.state import load_state, pack
from samc.streams import split_synthetic

METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"model": "finetune"},
    "joint": {"model": "joint"},
    "er": {"model": "er"},
    "icarl": {"model": "icarl"},
    "samc": {"model": "samc"},
    "samc --preset paper": {"model": "samc", "preset": "paper"},
}
TASKS = 3
MOST_SHARE, MOST_RATIO = 0.01, 1.1
CLAIM = "Saving takes under 1 % of a run, and a checkpoint at most 1.1 times the bytes of its tensors."


class Counted(Checkpoints):
    """Checkpoints that know how often they were saved."""

    saves = 0

    def save(self, make_state: Any) -> bool:
        self.saves += 1
        return super().save(make_state)


def measured(name: str, device: torch.device, quick: bool) -> Row:
    """One run, and the last of the checkpoints that it has left."""
    config, _ = configure(METHODS[name])
    small: dict[str, Any] = {"n_tasks": 1, "train_per_class": 5, "test_per_class": 1}
    stream = split_synthetic(**small if quick else {"n_tasks": TASKS})
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Counted(Path(folder), "1" if quick else EVERY)
        learner = build(config, stream, device)
        record = learn_stream(stream, learner, config.batch_size, config.n_epochs, (), None, checkpoints)
        if not checkpoints.saves:
            raise SystemExit(f"{name}: the run was too short to be saved; use a longer one")
        path = checkpoints.paths[-1]
        tensors = sum(tensor.nbytes for tensor in pack(load_state(path, KIND)[0])[1].values())
        saving, total, size = record.seconds["checkpoints"], record.seconds["total"], path.stat().st_size
    return {
        "method": name,
        "run s": total,
        "saves": checkpoints.saves,
        "s per save": saving / checkpoints.saves,
        "share of the run": saving / total,
        "file MB": size / 1e6,
        "file / tensors": size / tensors,
    }


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments)
    rows = [measured(name, given.device, given.quick) for name in METHODS]
    share, ratio = (max(row[name] for row in rows) for name in ("share of the run", "file / tensors"))
    slowest = max(row["s per save"] for row in rows)
    found = f"At most {share:.2%} of a run, {slowest:.3f} s per save, {ratio:.3f} times the bytes of the tensors."
    report(__file__, CLAIM, rows, found, given)
    if not given.quick and (share > MOST_SHARE or ratio > MOST_RATIO):
        raise SystemExit(f"saving takes more than {MOST_SHARE:.0%}, or more than {MOST_RATIO} times the bytes")


if __name__ == "__main__":
    main()
