"""Runs to be damaged: a finished one, and one that was interrupted, learnt once for all tests of a process."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from samc.checkpoints import Checkpoints
from samc.cli.unfinished import Unfinished
from samc.experiments.jobs import learn, make_job
from samc.protocol import Watcher

MODELS = {
    "er": {"average": 0.9, "distil": 1.0, "codec": "jpeg:50"},
    "samc": {"preset": "paper", "autoencoder": "stream", "autoencoder_steps": 1},
    "icarl": {},
    "der": {},
    "ewc": {"fisher_images": 2},
    "eec": {"encoder_steps": 1},
    "joint": {},
    "ebm": {},
    "gem": {"memory_bytes": "2KB"},
}


class StopError(Exception):
    """What ends a run in the middle, where in earnest it would be a power cut."""


class StopAfter(Watcher):
    """Ends a run after so many steps."""

    def __init__(self, steps: int):
        self.left = steps

    def step(self, task, number, x, stats):
        self.left -= 1
        if not self.left:
            raise StopError


@cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="samc-runs-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    rng = np.random.default_rng(0)
    for name in ("first", "second"):
        np.savez(made / f"{name}.npz", x=rng.integers(0, 256, (24, 8, 8, 3), np.uint8), y=np.arange(24) % 4)
    Image.new("RGB", (8, 8)).save(made / "image.png")
    return made


def job_of(model: str):
    given = {"model": model, "backbone": "mlp", "lr": 0.01, "n_tasks": 2, "batch_size": 3, **MODELS[model]}
    return make_job({"dataset": f"npz:{folder() / 'first.npz'}", **given}, keep_memory=True)


@cache
def finished(model: str) -> Path:
    place = folder() / model
    outcome = learn(job_of(model), None, torch.device("cpu"))
    outcome.record.save(place)
    for name, content in outcome.files.items():
        (place / name).write_bytes(content)
    return place


@cache
def interrupted(model: str) -> Path:
    """With its last two checkpoints, of a run that was ended in the middle of its second task."""
    place, job = folder() / f"{model}-interrupted", job_of(model)
    place.mkdir()
    Unfinished(job.config, False, None, "cpu", torch.get_num_threads(), "1").write(place)
    try:
        learn(job, None, torch.device("cpu"), [StopAfter(6)], Checkpoints(place, "1"))
    except StopError:
        return place
    raise AssertionError("it was to be interrupted")


def gone_on(folder: Path, resume) -> None:
    """Have a run that was killed go on to its end; one that had written all of it by then is only told so."""
    if not (folder / "run.json").exists():
        return
    name, whole = folder.name, (folder / "record.json").exists()
    code, _, err = resume(name)
    told = f"samc: {name} is finished, there is nothing to go on with; samc report {name} shows it\n"
    assert (code, err) == ((2, told) if whole else (0, ""))
