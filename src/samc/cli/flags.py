"""Flags made from settings: a field of a settings dataclass is a flag, shown in its group; a method's own on demand."""

import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import Field
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from samc.config import RunConfig, Settings, flag, kinds, setting_fields
from samc.learners import LEARNERS

GROUPS = ("what to learn", "memory", "method", "run")
Extra = Mapping[str, tuple[Any, str]]
# flags that are no settings: their type and meaning


def as_command(
    function: Callable[..., None],
    extra: Extra,
    named: Container[str] | None = None,
    leading: Sequence[inspect.Parameter] = (),
) -> Callable[..., None]:
    """A function of keywords as a command with a flag for every setting of every method, and some of its own.

    `named` are the settings that it has flags for, if not all; `leading` are parameters before the flags.
    """
    parameters = list(leading)
    for name, item, kind in all_settings():
        if named is not None and name not in named:
            continue
        wanted = kind if type(None) in get_args(kind) else kind | None
        parameters.append(parameter(name, wanted, item.metadata["help"]))
    parameters += [parameter(name, kind | None, meaning) for name, (kind, meaning) in extra.items()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {option.name: option.annotation for option in parameters}
    return function


def all_settings() -> Iterator[tuple[str, Field, Any]]:
    """Every setting once, with its type: those of a run, then those of the methods."""
    seen = set()
    kinds_of_settings: list[type[Settings]] = [RunConfig, *(learner.Settings for learner in LEARNERS.values())]
    for settings in kinds_of_settings:
        for item in setting_fields(settings):
            if item.name not in seen:
                seen.add(item.name)
                yield item.name, item, kinds(settings)[item.name]


def parameter(name: str, annotation: Any, meaning: str) -> inspect.Parameter:
    switch = bool in (get_args(annotation) or (annotation,))
    spelt = f"{flag(name)}/{flag(f'no_{name}')}" if switch else flag(name)
    option = typer.Option(spelt, help=meaning, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, option]
    )


def described_flags(settings: type[Settings]) -> list[tuple[str, str]]:
    """Each flag of some settings with its meaning and default."""
    return [(flag(item.name), item.metadata["help"] + default_text(item.default)) for item in setting_fields(settings)]


def default_text(default: Any) -> str:
    return "" if default is None else f"  [default: {default}]"


class GroupedCommand(TyperCommand):
    """`--help` in groups, with the flags of one method: the one that --model names, else the default."""

    model = RunConfig.model

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for number, word in enumerate(args):
            name, _, value = word.partition("=")
            value = value or (args[number + 1] if number + 1 < len(args) else "")
            if name == "--model" and value in LEARNERS:
                self.model = value
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        settings = LEARNERS[self.model].Settings
        named = {item.name: item for kind in (RunConfig, settings) for item in setting_fields(kind)}
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is None or (option.name in OTHER_METHODS and option.name not in named):
                continue
            item = named.get(option.name)
            text = record[1] + (default_text(item.default) if item else "")
            rows[item.metadata["group"] if item else "run"].append((record[0], text))
        for group in GROUPS:
            title = f"Method ({self.model}; another's: samc run --model NAME --help)" if group == "method" else group
            with formatter.section(title[0].upper() + title[1:]):
                formatter.write_dl(rows[group])


OTHER_METHODS = {name for name, _, _ in all_settings()}
