"""Records that nobody has learnt: the runs of an item, with numbers as a test wants them."""

import numpy as np

from samc.experiments.jobs import Job
from samc.metrics import average_accuracy, backward_transfer, forgetting, forward_transfer
from samc.record import RunRecord

TASKS = {"split-cifar100": 20, "split-mini-imagenet": 20}


def record(acc=0.5, bwt=-0.1, *, stream="split-synthetic", accounting="bytes", images=10, seconds=None, **config):
    """A run whose tasks all had acc − bwt when just learnt and end at acc, with `images` per task in memory."""
    tasks = config.get("n_tasks") or TASKS.get(stream, 5)
    matrix = np.full((tasks + 1, tasks), 0.25)
    for task in range(tasks):
        fade = np.linspace(0, 1, tasks - task) if task < tasks - 1 else np.ones(1)
        matrix[task + 1 :, task] = acc + (fade - 1) * bwt
    matrix[-1] = acc
    kept = [images] * tasks if images else []
    memory = {"colours": 3072 * sum(kept), "labels": sum(kept)}
    parts = memory | ({"autoencoder": 86_244} if config.get("model") == "samc" else {})
    return RunRecord(
        acc=average_accuracy(matrix),
        bwt=backward_transfer(matrix),
        fwt=forward_transfer(matrix),
        forgetting=forgetting(matrix),
        accuracy_matrix=matrix.tolist(),
        first_task_curve=matrix[1:, 0].tolist(),
        memory={
            "bytes": sum(parts.values()),
            "bytes_by_part": parts,
            "memory_bytes": sum(memory.values()),
            "images_per_task": kept,
            "accounting": accounting,
        },
        seconds={"current gradient": 2.0, "evaluation": 1.0, "total": 4.0} if seconds is None else seconds,
        config={"dataset": stream, "accounting": accounting, "tested_on": "test", "seed": 0, **config},
        fingerprint={
            "stream": stream,
            "class_order": [[2 * task, 2 * task + 1] for task in range(tasks)],
            "image_shape": [3, 32, 32],
            "epochs": 1,
            "budget_images": config.get("buffer_size", 10),
            "accounting": accounting,
        },
        versions={"samc": "0.2.0", "torch": "2.13.0"},
        device={"type": "cpu", "name": "a machine"},
    )


def of_job(job: Job, acc=0.5, bwt=-0.1, **changes) -> RunRecord:
    """The record of a job, on its own terms."""
    config = {name: value for name, value in job.config.as_dict().items() if name not in ("dataset", "accounting")}
    terms = {"stream": job.config.dataset, "accounting": job.config.accounting}
    return record(acc, bwt, **{**terms, **config, **changes})
