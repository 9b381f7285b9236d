"""Mistakes that a user can mend: each is one line that says what is wrong and what to do about it."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """The command line prints the message alone and exits with 2; from Python it is a ValueError."""


class ConfigError(UserError):
    """A setting that cannot be used."""


class DataError(UserError):
    """Images or labels that are missing, damaged or of the wrong kind."""


class DivergenceError(UserError):
    """Learning that has led to numbers which are none."""


class OutputError(UserError):
    """A place that cannot be written to, or that holds something we would not overwrite."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    known = list(known)
    close = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ConfigError(f"unknown {kind} {name!r}: {hint}known: {', '.join(known)}")
