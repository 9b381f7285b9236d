"""How a run is made again: the shortest command that gives its settings, and the settings themselves."""

import shlex
from typing import Any

from samc.config import RunConfig, flag
from samc.errors import UserError
from samc.experiments.record_store import STATED
from samc.learners import LEARNERS, configure
from samc.record import RunRecord


def command(record: RunRecord) -> str | None:
    """None where no command makes it: a method or data of somebody's own, settings that this version does not have.

    Nor does one for a run that goes on from another, whose folder nobody knows here.
    """
    model = record.config["model"]
    if record.continues is not None or model not in LEARNERS or any(record.config.get(name) is None for name in STATED):
        return None
    try:
        wanted = RunConfig.from_dict(record.config, LEARNERS[model].Settings)
        given: dict[str, Any] = {name: getattr(wanted, name) for name in ("model", "dataset", "preset", "seed")}
        plain = configure(given)[0].as_dict()
        given |= {name: value for name, value in wanted.as_dict().items() if plain[name] != value}
        idle = wanted.settings.idle()
        given = {name: value for name, value in given.items() if name not in idle}
        made = configure(given)[0].as_dict()
    except (UserError, TypeError, KeyError):
        return None
    if any(made[name] != value for name, value in wanted.as_dict().items() if name not in idle):
        return None
    words = ["samc", "run", *(word for name, value in given.items() for word in words_of(name, value))]
    if record.diagnosis is not None:
        words.append("--diagnose")
    return shlex.join(words)


def words_of(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (flag(name if value else f"no_{name}"),)
    return (flag(name), str(value))
