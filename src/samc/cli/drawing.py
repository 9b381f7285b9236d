"""Tables in the terminal: whole ones, however narrow it is."""

import typer
from rich.console import Console
from rich.table import Table as RichTable

from samc.errors import printable
from samc.report.tables import Table, to_rich

LEAST_WIDTH = 80
# a narrower terminal wraps the lines; a table squeezed into it would lose digits


def draw(*tables: Table | RichTable) -> None:
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    for number, table in enumerate(tables):
        if number and isinstance(table, Table):
            console.print()
        console.print(to_rich(table, console.width) if isinstance(table, Table) else table)


def say(text: str) -> None:
    """One line; what it quotes of files and names is text and nothing else."""
    typer.echo(printable(text))
