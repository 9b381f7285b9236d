"""Tables and bars in the terminal: whole tables, however narrow it is, and text that steers nothing."""

from typing import Any

from rich.console import Console
from rich.progress import Task, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

from samc.errors import printable
from samc.report.tables import GAP, Table, to_rich

LEAST_WIDTH = 80
# a narrower terminal wraps the lines; what is squeezed into it would lose digits


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
    room = console.width
    for number, table in enumerate(tables):
        if number and isinstance(table, Table):
            console.print()
        drawn, needed = table, LEAST_WIDTH
        if isinstance(table, Table):  # it narrows itself as far as it can without losing a digit
            drawn = to_rich(table, room)
            needed = width_of(drawn)
        console.width = max(room, needed)
        console.print(drawn)


def width_of(drawn: RichTable) -> int:
    return sum((column.width or 0) + GAP + 1 for column in drawn.columns) - 1
