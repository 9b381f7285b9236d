"""Names of somebody's in figures: text and nothing else, in the room that there is, in whatever script."""

import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from samc.errors import printable

MOST_LINES = 2


def as_text(words: str) -> str:
    """Words with a name in them: a dollar sign starts no formula."""
    return printable(words).replace("$", r"\$")


def in_lines(name: str, width: int, most: int = MOST_LINES) -> str:
    """A name in at most so many lines of so many letters; what is left over is an ellipsis."""
    lines = textwrap.wrap(printable(name), width, break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: width - 1] + "…"]
    return "\n".join(map(as_text, lines))


@contextmanager
def ignoring_missing_glyphs() -> Iterator[None]:
    """Names are of any script, the font of figures is of some: a letter that it lacks is an empty box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield
