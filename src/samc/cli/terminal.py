"""What goes to the terminal: text and nothing else, in characters that it can hold."""

import codecs
import io
import sys

from samc.errors import printable

PLAIN = {"−": "-", "–": "-", "±": "+/-", "×": "x", "…": "...", "μ": "mu", "░": ".", "▒": ":", "▓": "*", "█": "#"}


def replace_unknown_characters() -> None:
    """A minus that became a question mark would lie."""

    def nearest(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end

    codecs.register_error("samc.plain", nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="samc.plain")


def say(*lines: str, error: bool = False) -> None:
    """The one way for text to the terminal: what a line quotes of paths, files and names cannot steer it."""
    for line in lines or ("",):
        print(printable(line), file=sys.stderr if error else sys.stdout)
