"""Tables and bars in the terminal: whole tables, however narrow it is, and text that steers nothing."""

from typing import Any

from rich.console import Console
from rich.progress import Task, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

from samc.errors import printable
from samc.report.tables import Table, to_rich

LEAST_WIDTH = 80
# a narrower terminal wraps the lines; a table squeezed into it would lose digits


class Terminal(Console):
    """Shows every text as it is: without markup, and with what would steer a terminal as escapes."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


class BarText(TextColumn):
    """Beside a bar: one line of text and nothing else."""

    def render(self, task: Task) -> Text:
        return Text(printable(self.text_format.format(task=task)), style=self.style, justify=self.justify)


def draw(*tables: Table | RichTable | Text) -> None:
    console = Terminal()
    console.width = max(console.width, LEAST_WIDTH)
    for number, table in enumerate(tables):
        if number and isinstance(table, Table):
            console.print()
        console.print(to_rich(table, console.width) if isinstance(table, Table) else table)
