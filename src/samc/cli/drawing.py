"""Tables in the terminal: whole ones, however narrow it is, and whatever characters it knows."""

import codecs
import io
import sys

from rich.console import Console
from rich.table import Table as RichTable

from samc.report.tables import Table, to_rich

LEAST_WIDTH = 80
# a narrower terminal wraps the lines; a table squeezed into it would lose digits
PLAIN = {"−": "-", "–": "-", "±": "+/-", "×": "x", "…": "...", "μ": "mu"}


def draw(*tables: Table | RichTable) -> None:
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    for number, table in enumerate(tables):
        if number and isinstance(table, Table):
            console.print()
        console.print(to_rich(table, console.width) if isinstance(table, Table) else table)


def plain_where_needed() -> None:
    """Where output cannot hold a character, its nearest plain one: a minus that became a question mark would lie."""

    def nearest(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end

    codecs.register_error("samc.plain", nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="samc.plain")
