"""`samc models`: the methods, one line each; or one of them with its settings."""

import textwrap
from typing import Annotated

import typer

from samc.cli.flags import described_flags
from samc.cli.terminal import say
from samc.learners import LEARNERS, described, method

WIDTH = 100


def models(name: Annotated[str | None, typer.Argument(help="one method, with all of its flags")] = None) -> None:
    """List every method, one line each; or one of them with its flags.

    Examples:

      samc models

      samc models er

      samc run --model icarl --regularization 0.5
    """
    if name is None:
        width = max(map(len, LEARNERS))
        for learner in LEARNERS:
            say(f"{learner:{width}}  {described(learner)}")
        return
    rows = described_flags(method(name).Settings)
    width = max(len(flag) for flag, _ in rows) + 2
    say(described(name), "")
    for flag, meaning in rows:
        lines = textwrap.wrap(meaning, WIDTH - width)
        say(f"{flag:{width}}{lines[0]}", *(" " * width + line for line in lines[1:]))
