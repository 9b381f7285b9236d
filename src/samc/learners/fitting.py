"""Whether a state fits a learner: found out before anything of the learner is changed."""

from typing import Any

from torch import Tensor, nn

from samc.errors import ConfigError

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
        found = ", ".join(f"{name}: {theirs.get(name)} in the state, {mine.get(name)} here" for name in unlike[:SHOWN])
        raise ConfigError(f"the state is of another {mine['method']} ({found}); give the learner the same settings")
    if learner.average and state.get("average") is None:
        raise ConfigError("the state has no average of the network, as this learner does; make it with average=0")
    if missing := [name for name in learner.state_dict() if name not in state]:
        raise ConfigError(f"the state has no {', '.join(missing[:SHOWN])}; it is not all of a learner's")
    check_network_fits(learner.model, state["model"], state["num_classes"])


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


def same_shape(name: str, mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return False
    return mine[1:] == theirs[1:] if name.startswith("heads.") else mine == theirs


def described(shape: Any) -> str:
    return "is missing" if shape is None else "x".join(map(str, shape)) or "one number"
