"""Whether a state fits a learner: found out before anything of the learner is changed."""

from typing import Any

from torch import Tensor, nn

from samc.errors import ConfigError
from samc.learners.inputs import task_number
from samc.learners.settings import NetworkSettings
from samc.memory.file import check_memory

TASKS = "heads._extra_state"
# where a network's state has the classes of each task
FREE_ROOM, MOST_ROOM = 256, 4
# images that there may be dense room for, however few are kept, and for each that is kept: twice as many as there are
UNSAID = {name: getattr(NetworkSettings, name) for name in ("scenario", "boundaries")}
# terms that are younger than states: one that does not say them is of these
SHOWN = 3
# differences that a message names
OLD = "it does not say what it is of, as states of earlier versions of samc; make it anew with this version"


def check_state(learner: Any, state: dict[str, Any]) -> None:
    """Refuse a state of another method, image shape, memory or network, with what differs."""
    if not isinstance(state, dict) or not isinstance(state.get("terms"), dict):
        raise ConfigError(f"this is no state that samc can take up: {OLD}")
    mine, theirs = learner.terms(), state["terms"]
    unlike = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if "method" in unlike:
        raise ConfigError(f"the state is of {theirs.get('method')}, this learner is {mine['method']}; load its own")
    if unlike:
        found = ", ".join(
            f"{name}: {said(theirs, name)} in the state, {said(mine, name)} here" for name in unlike[:SHOWN]
        )
        raise ConfigError(f"the state is of another {mine['method']} ({found}); give the learner the same settings")
    if learner.average and state.get("average") is None:
        raise ConfigError("the state has no average of the network, as this learner does; make it with average=0")
    if missing := [name for name in learner.state_dict() if name not in state]:
        raise ConfigError(f"the state has no {', '.join(missing[:SHOWN])}; it is not all of a learner's")
    check_network_fits(learner.model, state["model"], state["num_classes"])
    check_tasks(state)


def said(terms: dict[str, Any], name: str) -> Any:
    """A term, or what it is where nobody says it."""
    return terms.get(name, UNSAID.get(name, "not said"))


def check_network_fits(model: nn.Module, weights: dict[str, Any], num_classes: int) -> None:
    """Names and shapes of every weight; heads that grow take any number of classes, but no fewer than they have."""
    heads: Any = model.heads
    if num_classes != heads.num_classes and not (heads.grows and num_classes > heads.num_classes):
        kind = "at least " if heads.grows else ""
        raise ConfigError(f"the state has {num_classes} classes, this learner {kind}{heads.num_classes}")
    own = {name: value.shape for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    given = {name: value.shape for name, value in weights.items() if isinstance(value, Tensor)}
    unlike = [name for name in {**own, **given} if not same_shape(name, own.get(name), given.get(name))]
    if unlike:
        found = [f"{name} {described(given.get(name))} there, {described(own.get(name))} here" for name in unlike]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise ConfigError(f"the state is of another network: {'; '.join(found[:SHOWN])}{more}; give the same network")


def check_tasks(state: dict[str, Any]) -> None:
    """Refuse tasks that have begun, or have been declared, of which the heads have no classes."""
    known = check_classes(state["model"], state["num_classes"])
    if state["average"] is not None and check_classes(state["average"]["model"], state["num_classes"]) != known:
        raise ConfigError("the state's average has other tasks than the network")
    said = {*state["begun_tasks"], *state["declared"], *([] if state["task"] is None else [state["task"]])}
    if strange := {task_number(task) for task in said} - set(known):
        raise ConfigError(f"the state has begun task {min(strange)}, of which it has no classes")


def check_classes(network: dict[str, Any], num_classes: int) -> dict[int, Any]:
    """The classes of each task that a network's state has; refused where its heads have not as many."""
    heads, there = network.get(TASKS, {}), set(range(num_classes))
    known = heads.get("task_classes", {})
    for task, classes in known.items():
        labels = {task_number(label) for label in classes}
        if not labels or not labels <= there:
            raise ConfigError(f"the state's task {task_number(task)} has classes that its heads have not")
    if not {task_number(label) for label in heads.get("seen", ())} <= there:
        raise ConfigError("the state has seen classes that its head has not")
    return known


def check_kept(learner: Any) -> None:
    """Refuse what a learner has taken up of its tasks if it is not of their classes, or no images: a ValueError.

    It decodes every memory, so that it is left to those who read a file.
    """
    heads = learner.model.heads
    for task, labels in learner.kept_labels().items():
        known = heads.seen if heads.shared else heads.task_classes.get(task, ())  # a task may not have been told
        if strange := {int(label) for label in labels} - set(known):
            raise ConfigError(f"the state keeps images of class {min(strange)}, which is none of task {task}")
    if hasattr(learner, "memory"):
        check_memory(learner.memory)
        images = sum(learner.memory.images_per_task.values())
        if not 0 <= learner.live.room <= FREE_ROOM + MOST_ROOM * images:
            raise ConfigError("the state has room for more images than it keeps")


def same_shape(name: str, mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return False
    return mine[1:] == theirs[1:] if name.startswith("heads.") else mine == theirs


def described(shape: Any) -> str:
    return "is missing" if shape is None else "x".join(map(str, shape)) or "one number"
