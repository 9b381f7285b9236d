"""The demo: finetune, GEM, SAMC as in the paper and by its default, at equal true bytes on the embedded stream."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from samc.experiments.jobs import Job, Outcome, learn, make_job
from samc.experiments.progress_log import FILE as PROGRESS
from samc.experiments.progress_log import ProgressLog
from samc.protocol import Watcher

PAPER, DEFAULT = "samc, as in the paper", "samc, default preset"
METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"model": "finetune"},
    "gem": {"model": "gem"},
    PAPER: {"model": "samc", "preset": "paper", "accounting": "bytes"},
    DEFAULT: {"model": "samc"},
}


def demo(seed: int, device: torch.device, make_watcher: Callable[[str], Watcher]) -> dict[str, Outcome]:
    """Run the four; `make_watcher` gives each a watcher, by its name. The paper's SAMC also leaves pictures."""
    jobs = {
        name: make_job({**given, "seed": seed}, keep_memory=True, pictures=name == PAPER)
        for name, given in METHODS.items()
    }
    return {name: learn_watched(job, device, make_watcher(name)) for name, job in jobs.items()}


def learn_watched(job: Job, device: torch.device, watcher: Watcher) -> Outcome:
    """A job's outcome, with how it went among its files: the demo's own folder is written when all have ended."""
    with TemporaryDirectory() as folder:
        progress = ProgressLog(Path(folder), fresh=True)
        outcome = learn(job, None, device, [watcher, progress])
        told = {PROGRESS: progress.path.read_bytes()} if progress.path.exists() else {}
    return replace(outcome, files=outcome.files | told)
