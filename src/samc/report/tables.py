"""One description of a table, and the formats that it is written in: Markdown, CSV, LaTeX, and the terminal's."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from samc.errors import printable
from samc.report.numbers import DASH, format_mean, format_number

Values = Mapping[str, Any]

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "μ": r"$\mu$",
    "Δ": r"$\Delta$",
    "√": r"$\surd$",
    "≤": r"$\leq$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "’": "'",
}
GAP = 1
# empty characters after a column in the terminal, besides the one between columns
PREAMBLE = "% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n"


@dataclass(frozen=True)
class Column:
    """A heading, and how a row's value is written below it; neighbours may share a group's heading.

    `value` names one of the row's values, or makes a text of them; where it is left out it is the heading. `sd` names
    the value's standard deviation. In a narrow terminal the cells of a column that `wraps` take several lines.
    """

    heading: str
    value: str | Callable[[Values], str] = ""
    group: str = ""
    align: Literal["left", "right"] = "right"
    digits: int = 0
    sign: str = ""
    scale: int = 1
    unit: str = ""
    sd: str = ""
    wraps: bool = False

    @property
    def key(self) -> str | Callable[[Values], str]:
        return self.value or self.heading

    @property
    def full_heading(self) -> str:
        return printable(f"{self.group}: {self.heading}" if self.group else self.heading)

    def cell(self, values: Values) -> str:
        if callable(self.key):
            return printable(self.key(values))
        value = values.get(self.key)
        if value is None:
            return DASH
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return printable(value)
        if self.sd:
            return format_mean(value, values[self.sd], self.digits, self.sign)
        return format_number(self.scale * value, self.digits, self.sign) + self.unit


@dataclass(frozen=True)
class TableRow:
    """A row's values by name, with every digit; `bold` names those that stand out."""

    values: Values
    bold: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Table:
    """One table. CSV has all values of its rows, the other formats its columns.

    What is drawn comes from records, which may be a stranger's: nothing in it steers a terminal.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[TableRow]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", printable(self.title))

    def cells(self, bold: str = "{}", escape: Callable[[str], str] = str) -> list[list[str]]:
        """The texts of every row; `bold` is a template for those that stand out."""
        return [
            [
                (bold if column.key in row.bold else "{}").format(escape(column.cell(row.values)))
                for column in self.columns
            ]
            for row in self.rows
        ]


def to_markdown(tables: Sequence[Table], level: int = 2) -> str:
    """Tables under their titles; notes that all of them share stand once, at the end."""
    shared = [note for note in tables[0].notes if all(note in table.notes for table in tables)] if tables else []
    parts = []
    for table in tables:
        own = [note for note in table.notes if note not in shared]
        parts += [f"{'#' * level} {table.title}", markdown_grid(table), *own]
    return "\n\n".join([*parts, *shared])


def markdown_grid(table: Table) -> str:
    """The table itself, without title and notes."""
    marks = ["---" if column.align == "left" else "---:" for column in table.columns]
    body = table.cells("**{}**", lambda text: text.replace("|", "\\|"))
    lines = [[column.full_heading for column in table.columns], marks, *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def to_csv(rows: Sequence[Values]) -> str:
    """One line per row, every digit; what a row does not have is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return file.getvalue()


def to_latex(tables: Sequence[Table], name: str) -> str:
    """One float per table, labelled by its place; to be put into a document with \\input."""
    return PREAMBLE + "\n".join(latex_float(table, f"{name}-{n}") for n, table in enumerate(tables, start=1))


def latex_float(table: Table, label: str) -> str:
    headings = [" & ".join(escape_latex(column.heading) for column in table.columns) + r" \\"]
    if any(column.group for column in table.columns):
        headings = [*latex_groups(table.columns), *headings]
    caption = ". ".join(text.rstrip(".") for text in (table.title, *table.notes)) + "."
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{escape_latex(without_code_marks(caption))}}}",
            rf"\label{{tab:{label}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{{''.join(column.align[0] for column in table.columns)}}}",
            r"\toprule",
            *headings,
            r"\midrule",
            *(" & ".join(cells) + r" \\" for cells in table.cells(r"\textbf{{{}}}", escape_latex)),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
            "",
        ]
    )


def latex_groups(columns: Sequence[Column]) -> list[str]:
    """The line of group headings, and the rules below them."""
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(group)}}}" if group else " & ".join([""] * width))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [" & ".join(cells) + r" \\", "".join(rules)]


def escape_latex(text: str) -> str:
    """Plain text as LaTeX prints it."""
    return "".join(LATEX.get(character, character) for character in text)


def without_code_marks(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"\1", text)


def to_rich(table: Table, width: int = 80) -> RichTable:
    """For a terminal that is so many characters wide."""
    drawn = RichTable(
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        caption="\n".join(table.notes) or None,
        caption_justify="left",
        caption_style="",
        box=SIMPLE_HEAD,
        padding=(0, GAP, 0, 0),
        show_edge=False,
    )
    rows = table.cells()
    for column, column_width in zip(table.columns, column_widths(table, rows, width), strict=True):
        drawn.add_column(column.full_heading, justify=column.align, width=column_width, overflow="fold")
    for cells in rows:
        drawn.add_row(*cells)
    return drawn


def column_widths(table: Table, rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """As wide as headings and cells are, or narrowed until the table fits: headings first, then cells that wrap.

    No number is cut: it would be another number. A row's name, at the left, may be cut after its first word.
    """
    widths, least = [], []
    for place, column in enumerate(table.columns):
        heading, cells = column.full_heading, [row[place] for row in rows]
        wrapped = [cell.split() for cell in cells] if column.wraps else [[cell] for cell in cells]
        parts = [part for words in wrapped for part in (words[:1] if column.align == "left" else words)]
        widths.append(max(map(len, (heading, *cells))))
        least.append(max(map(len, (*heading.split(), *parts)), default=1))
    while sum(widths) + len(widths) * (GAP + 1) - 1 > width and widths != least:
        slack = {place: widths[place] - least[place] for place in range(len(widths)) if widths[place] > least[place]}
        widths[max(slack, key=lambda place: (not table.columns[place].wraps, slack[place]))] -= 1
    return widths
