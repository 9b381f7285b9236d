"""Settings: one frozen dataclass is a constructor's signature, the flags with their help, presets' keys and the checks.

Each method has its own (`Settings` in its file); what every run has is `RunConfig`. A default, a range and a meaning
stand in one `setting(...)` and nowhere else.
"""

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from samc.errors import ConfigError, unknown

LARGEST_IMAGE = 1024
# a side that a network of this kind could still take; far beyond it images alone would fill the machine
LARGEST_NUMBER = 2**63 - 1
# what torch and numpy count with
LARGEST_FLOAT = 3.4e38
# that networks compute with
LONGEST_TEXT = 10_000
ROTATED, DOMAINS = "rotated-", "-domains"
# what the name of a stream begins or ends with that is made of another one's images
Group = Literal["what to learn", "memory", "method", "run"]
Number = int | float
Kind = TypeVar("Kind", bound="Settings")
LOOKED_UP: dict[Any, tuple[tuple[Field, ...], dict[str, Any]]] = {}


def setting(
    default: Any,
    meaning: str,
    *,
    choices: tuple[str, ...] = (),
    least: Number | None = None,
    above: Number | None = None,
    most: Number | None = None,
    below: Number | None = None,
    hint: str = "",
    group: Group = "method",
    before: Any = MISSING,
) -> Any:
    """A field with its meaning, its range and what is a good value (`hint`), which the error for another one says.

    `before` is how runs went before there was this setting, which their records do not state; left out, as its default.
    """
    meaning = f"{meaning}: {' or '.join(choices)}" if choices else meaning
    bounds = {"least": least, "above": above, "most": most, "below": below}
    metadata = {"help": meaning, "choices": choices, "bounds": bounds, "hint": hint, "group": group, "before": before}
    return field(default=default, metadata=metadata)


def with_default(kind: type["Settings"], name: str, default: Any, *, before: Any = MISSING) -> Any:
    """The same setting with another default, for a method that does best with it; `before` if runs went otherwise."""
    (item,) = (item for item in fields(kind) if item.name == name)
    changed = {} if before is MISSING else {"before": before}
    return field(default=default, metadata={**item.metadata, **changed})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked when it is made: types, choices and ranges. A subclass adds fields, and says which fit together."""

    def __post_init__(self) -> None:
        hints = kinds(type(self))
        for item in setting_fields(type(self)):
            check(item, hints[item.name], getattr(self, item.name))

    def idle(self) -> dict[str, str]:
        """Settings that do nothing beside the others, and what to do about it; giving one of them is refused."""
        return {}

    def on(self, stream: str, source: str) -> "Settings":
        """The same for a stream of this name and source, where one of them means something else there; most do not."""
        return self

    def terms(self) -> dict[str, Any]:
        """What of them a learner's state means something under, in words; most settings may change as one goes on."""
        return {}

    def without_files(self) -> Any:
        """The same, but for files that a learner starts from, which one that takes up a state has no need of."""
        return self

    def as_dict(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(item.name for item in setting_fields(cls))

    @classmethod
    def made(cls: type[Kind], given: Mapping[str, Any], method: str, preset: Mapping[str, Any] | None = None) -> Kind:
        """What was given over what a preset says over the defaults; a name that the method does not have is refused."""
        for name in given:
            if name not in cls.names():
                close = get_close_matches(name, cls.names(), n=1, cutoff=0.5)
                hint = f"did you mean {flag(close[0])}? it" if close else "it"
                raise ConfigError(f"{method} has no {flag(name)}; {hint} takes {', '.join(map(flag, cls.names()))}")
        settings = cls(**{**(preset or {}), **given})
        for name, remedy in settings.idle().items():
            if name in given:
                raise ConfigError(f"{flag(name)} does nothing {remedy}")
        return settings


@dataclass(frozen=True, kw_only=True)
class Terms(Settings):
    """How much may be kept: the terms of a comparison, which mean something for methods without a memory too."""

    buffer_size: int = setting(
        10, "memory of each task: the bytes of so many whole images", least=1, hint="the paper uses 10", group="memory"
    )
    memory_bytes: str | None = setting(
        None,
        "the budget in bytes instead: 30KB/task, or 600KB for all tasks together",
        hint="write '30KB/task'",
        group="memory",
    )
    accounting: str = setting(
        "bytes", "what counts, everything or colours only", choices=("bytes", "values"), group="memory"
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig(Terms):
    """Everything that a run's result depends on, but for the files it reads and the machine it runs on.

    `settings` are the method's own.
    """

    model: str = setting("samc", "the method; samc models lists them", group="what to learn")
    dataset: str = setting(
        "split-synthetic",
        "split-synthetic, split-cifar10, split-cifar100, split-mini-imagenet, split-mnist, split-tiny-imagenet, "
        "core50-nc, npz:PATH, folder:PATH, torchvision:NAME or hf:NAME; of the same classes in every task "
        "split-cifar100-domains, permuted-mnist, core50, or any of the others with rotated- before it",
        group="what to learn",
    )
    preset: str = setting(
        "auto", "named values for this stream; auto takes those made for it, none takes none", group="what to learn"
    )
    n_tasks: int | None = setting(
        None, "use the first so many tasks; for your own data, how many to cut it into", least=1, group="what to learn"
    )
    samples_per_task: int | None = setting(
        None,
        "use so many training images of each task instead of all",
        least=1,
        hint="leave it out to use every image",
        group="what to learn",
    )
    class_order: str = setting("natural", "natural, shuffled, or class numbers like 3,1,2", group="what to learn")
    image_size: int | None = setting(
        None,
        "resize your own images, and core50's, to this many pixels per side",
        least=1,
        most=LARGEST_IMAGE,
        group="what to learn",
    )
    tested_on: str = setting(
        "test",
        "the stream's test images, or a tenth of its training images that is held out",
        choices=("test", "held-out"),
        group="what to learn",
    )
    n_epochs: int = setting(1, "passes over each task's images", least=1, group="what to learn")
    batch_size: int = setting(10, "images per step", least=1, group="what to learn")
    test_every: int = setting(
        0, "test after so many steps within tasks too, for the stability gap; 0: after tasks only", least=0, group="run"
    )
    seed: int = setting(0, "orders the images, starts the network, draws samples", least=0, most=2**63 - 1, group="run")
    settings: Settings = field(default_factory=Settings)

    def as_dict(self) -> dict[str, Any]:
        """Flat, as records have it."""
        own = {item.name: getattr(self, item.name) for item in setting_fields(type(self))}
        return own | self.settings.as_dict()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], settings: type[Settings]) -> "RunConfig":
        """From what a record has; a None that is no value stands for what an older version did not write down."""
        optional = may_be_none(cls) | may_be_none(settings)
        given = {name: value for name, value in values.items() if value is not None or name in optional}
        own, method = ({name: given[name] for name in kind.names() if name in given} for kind in (cls, settings))
        return cls(**own, settings=settings(**{**before_they_were(settings), **method}))


def setting_fields(kind: type[Settings]) -> tuple[Field, ...]:
    """The fields that are settings, those of a method's bases first."""
    return fields_and_types(kind)[0]


def kinds(kind: type[Settings]) -> dict[str, Any]:
    """The types of its fields."""
    return fields_and_types(kind)[1]


def fields_and_types(kind: Any) -> tuple[tuple[Field, ...], dict[str, Any]]:
    """Both, found once: it takes a while, and tables ask for thousands of configs."""
    if kind not in LOOKED_UP:
        own = tuple(item for item in fields(kind) if "help" in item.metadata)
        LOOKED_UP[kind] = own, get_type_hints(kind)
    return LOOKED_UP[kind]


def before_they_were(kind: type[Settings]) -> dict[str, Any]:
    """How runs went before there were some of a method's settings, by setting."""
    return {
        item.name: item.metadata["before"] for item in setting_fields(kind) if item.metadata["before"] is not MISSING
    }


def may_be_none(kind: type[Settings]) -> set[str]:
    """The settings of which None is a value too."""
    return {name for name, hint in kinds(kind).items() if NoneType in get_args(hint)}


def check_setting(settings: type[Settings], name: str, value: Any) -> None:
    """One value alone, by the range that its setting has: for functions that take it without a config."""
    (item,) = (item for item in setting_fields(settings) if item.name == name)
    check(item, kinds(settings)[name], value)


def check(item: Field, kind: Any, value: Any) -> None:
    """Refuse a value of the wrong type, outside of its choices or its range, with what is right."""
    name, metadata = flag(item.name).removeprefix("--"), item.metadata
    hint = f"; {metadata['hint']}" if metadata["hint"] else ""
    wanted = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if value is None and NoneType in wanted:
        return
    if value == "":
        raise ConfigError(f"{name} is empty; leave it out, or give it a value")
    if metadata["choices"]:
        if value not in metadata["choices"]:
            raise unknown(name, str(value), metadata["choices"])
        return
    if bool in wanted:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is true or false, got {value!r}{hint}")
        return
    numeric = float in wanted or int in wanted
    if numeric:
        whole = float not in wanted
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ConfigError(f"{name} is a {'whole ' if whole else ''}number, got {value!r}{hint}")
        most = LARGEST_NUMBER if isinstance(value, int) else LARGEST_FLOAT
        if most < abs(value) != math.inf:
            raise ConfigError(f"{name} is at most {most}, got a larger number{hint}")
        if not math.isfinite(value) or not within(value, **metadata["bounds"]):
            raise ConfigError(f"{name} is {described_range(**metadata['bounds'])}, got {value}{hint}")
    elif str in wanted and not isinstance(value, str):
        raise ConfigError(f"{name} is text, got {value!r}{hint}")
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ConfigError(f"{name} has at most {LONGEST_TEXT:,} characters, got {len(value):,}{hint}")


def within(
    value: Number, least: Number | None, above: Number | None, most: Number | None, below: Number | None
) -> bool:
    low = (least is None or value >= least) and (above is None or value > above)
    return low and (most is None or value <= most) and (below is None or value < below)


def described_range(least: Number | None, above: Number | None, most: Number | None, below: Number | None) -> str:
    low, high = (least if above is None else above), (most if below is None else below)
    if low is None and high is None:
        return "a finite number"
    if high is None:
        return f"above {low}" if least is None else f"at least {low}"
    if low is None:
        return f"at most {high}" if below is None else f"below {high}"
    return f"in {'[' if above is None else '('}{low}, {high}{']' if below is None else ')'}"


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def signature(settings: type[Settings], leading: Iterable[inspect.Parameter]) -> inspect.Signature:
    """What a constructor looks like that takes a method's settings by name after some parameters of its own."""
    hints = kinds(settings)
    own = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=hints[item.name])
        for item in setting_fields(settings)
    ]
    return inspect.Signature([*leading, *own])


def described_settings(settings: type[Settings]) -> str:
    """One line per setting: name, default and meaning."""
    rows = [(f"{item.name} = {item.default!r}", item.metadata["help"]) for item in setting_fields(settings)]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {meaning}" for name, meaning in rows)
