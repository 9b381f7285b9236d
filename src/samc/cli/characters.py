"""Characters that an output cannot hold, as their nearest plain ones."""

import codecs
import io
import sys

PLAIN = {"−": "-", "–": "-", "±": "+/-", "×": "x", "…": "...", "μ": "mu"}


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
