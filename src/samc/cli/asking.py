"""A finished run that is asked about images: its learner, and whether it is asked with a task or without."""

from pathlib import Path

from samc.device import choose
from samc.errors import ConfigError
from samc.learners import NetworkLearner, load

TASK = "the task of the images: its classes are the choice; none where there is one head"


def learner_to_ask(run: Path, task: int | None, device: str) -> NetworkLearner:
    learner = load(run, device=choose(device))
    if task is None and not learner.scenario.one_head:
        raise ConfigError(f"{run} was learnt with a head per task; say which one the images are of: --task 0")
    if task is not None and learner.scenario.one_head:
        raise ConfigError(f"{run} was learnt in scenario {learner.scenario.name}, without a task at test; drop --task")
    return learner
