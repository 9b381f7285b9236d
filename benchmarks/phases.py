"""What SAMC adds to GEM, by phase of one run: choosing, encoding and completing, as shares of the rest of it.

On the embedded stream, with --data on Split CIFAR-100 as the paper has it, or with --record of a run that was made
before. The rest is the same run without these phases: with its tests, and without them, the stricter measure.
On a GPU encoding is the host's time and passes while the device is busy with the next step: it is shown and not added.
That it is hidden shows in the time that no phase of the device accounts for, which has a row; with --beside, the record
of GEM on the same machine, what SAMC has more of that than GEM is taken for encoding that is not hidden, and added.
"""

from pathlib import Path
from typing import Any

import torch

from common import options, report
from samc import run
from samc.learners import build, configure
from samc.record import RunRecord
from samc.streams import open_stream

PHASES = ("saliency", "encoding", "completion")
LEARNT = "autoencoder"
# stands apart: training it is no part of a step
TASKS = 5
CLAIM = "SAMC's own phases cost little beside the gradients that GEM needs as well."


def learnt(data: Path | None, device: torch.device, steps: int, **cut: Any) -> RunRecord:
    """A run of SAMC with GEM's replay; `steps` are the autoencoder's, `cut` is how much of the stream it sees."""
    name = "split-cifar100" if data else "split-synthetic"
    settings = {"model": "samc", "dataset": name, "preset": "paper", "autoencoder_steps": steps}
    config, _ = configure(settings)
    stream = open_stream(name, data_dir=data, **cut)
    return run(stream, build(config, stream, device), config=config.as_dict())


def unaccounted(record: RunRecord, hidden: tuple[str, ...]) -> float:
    """Seconds of a run in no phase, what is hidden behind the device's work not being one."""
    return record.seconds["total"] - sum(s for name, s in record.seconds.items() if name not in ("total", *hidden))


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--data", "--tasks", "--record", "--beside")
    data = Path(given.data) if given.data else None
    if given.record:
        record = RunRecord.load(Path(given.record))
    else:
        little = {"n_tasks": 2, "samples_per_task": 20}
        # kernels are compiled and libraries wake up before it counts; painting few pictures makes a try quick
        few = {} if data else {"train_per_class": 5, "test_per_class": 2}
        record = learnt(data, given.device, 2, **little, **few)
        if not given.quick:
            record = learnt(data, given.device, 100, n_tasks=int(given.tasks or TASKS))
    spent = record.seconds
    hidden = ("encoding",) if record.device["type"] == "cuda" else ()
    own = {name: spent[name] for name in (*PHASES, LEARNT) if name in spent}
    own["in no phase"] = unaccounted(record, hidden)
    shown = 0.0
    if given.beside:
        gem = RunRecord.load(Path(given.beside))
        if (gem.device, gem.versions) != (record.device, record.versions) or gem.config["model"] != "gem":
            raise SystemExit(f"{given.beside} is not of GEM on the same machine with the same versions")
        own["in no phase, GEM"] = unaccounted(gem, hidden)
        own["encoding, not hidden"] = shown = own["in no phase"] - own["in no phase, GEM"]
    own["all but autoencoder"] = shown + sum(own.get(name, 0.0) for name in PHASES if name not in hidden)
    without = spent["total"] - own["all but autoencoder"] - own[LEARNT]
    learning = without - spent["evaluation"]
    rows = [
        {
            "phase": name,
            "seconds": value,
            "% of learning without them": 100 * value / learning,
            "% of the run without them": 100 * value / without,
        }
        for name, value in own.items()
    ]
    rows.append({
        "phase": "learning without them",
        "seconds": learning,
        "% of learning without them": 100.0,
        "% of the run without them": 100 * learning / without,
    })  # fmt: skip
    stream, tasks = record.fingerprint["stream"], len(record.first_task_curve)
    shares = {row["phase"]: row["% of learning without them"] for row in rows}
    found = (
        f"On the first {tasks} tasks of {stream} they add {shares['all but autoencoder']:.1f} % to learning, "
        f"and the autoencoder {shares[LEARNT]:.1f} %."
    )
    report(__file__, CLAIM, rows, found, given, record)


if __name__ == "__main__":
    main()
