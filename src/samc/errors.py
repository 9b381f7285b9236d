"""Mistakes that a user can mend: each is one line that says what is wrong and what to do about it.

What it quotes of a file, a name or a flag cannot reach the terminal as anything but text.
"""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 1000
# characters of one message; a flag of thousands of digits is quoted in part


def printable(text: str) -> str:
    """Text of a stranger's on one line: white space is a space, what steers a terminal is shown as its escape."""
    return "".join(
        character if character.isprintable() else " " if character.isspace() else escaped(character)
        for character in text
    )


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, longest: int = LONGEST) -> str:
    """Its beginning and its end, where the remedy is."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"


def one_line(error: BaseException) -> str:
    """What an error of another's says, short enough to be quoted."""
    return " ".join(str(error).split())[:200]


class UserError(ValueError):
    """The command line prints the message alone and exits with 2; from Python it is a ValueError."""

    def __str__(self) -> str:
        return shortened(printable(super().__str__()))


class ConfigError(UserError):
    """A setting that cannot be used."""


class DataError(UserError):
    """Images or labels that are missing, damaged or of the wrong kind."""


class DivergenceError(UserError):
    """Learning that has led to numbers which are none."""


class OutputError(UserError):
    """A place that cannot be written to, or that holds something we would not overwrite."""


def unknown(kind: str, name: str, known: Iterable[str], separator: str = ", ") -> ConfigError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    known = list(known)
    close = get_close_matches(name[:LONGEST], known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ConfigError(f"unknown {kind} {name!r}: {hint}known: {separator.join(known)}")
