"""A table in three formats: Markdown to read, CSV with every digit, LaTeX to print."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

NOTHING = "–"
# what stands where there is no figure

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
PREAMBLE = "% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n"


@dataclass(frozen=True)
class Column:
    """A heading; columns next to each other may stand under a common one."""

    name: str
    group: str = ""

    @property
    def full(self) -> str:
        return f"{self.group}: {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Row:
    """What is shown, a text a column; and what stands behind it, by name and unrounded."""

    shown: Sequence[str]
    raw: Mapping[str, Any]
    bold: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Section:
    """One table, of one stream; its first column names the row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=tuple)


def markdown(sections: Sequence[Section], level: int = 2) -> str:
    """Tables under their titles; what is noted of all of them stands once, at the end."""
    shared = [note for note in sections[0].notes if all(note in each.notes for each in sections)] if sections else []
    parts = [markdown_section(each, level, [note for note in each.notes if note not in shared]) for each in sections]
    return "\n\n".join([*parts, *shared])


def markdown_section(section: Section, level: int, notes: Sequence[str]) -> str:
    marks = ["---", *("---:" for _ in section.columns[1:])]
    lines = [[column.full for column in section.columns], marks]
    for row in section.rows:
        texts = [text.replace("|", "\\|") for text in row.shown]
        lines.append([f"**{text}**" if place in row.bold else text for place, text in enumerate(texts)])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([f"{'#' * level} {section.title}", table, *notes])


def comma_separated(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row, every digit; what a row does not have is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return file.getvalue()


def latex(sections: Sequence[Section], name: str) -> str:
    """One table a section, labelled by its place; to be put into a document with \\input."""
    return PREAMBLE + "\n".join(latex_section(each, f"{name}-{n}") for n, each in enumerate(sections, start=1))


def latex_section(section: Section, label: str) -> str:
    headings = [" & ".join(escaped(column.name) for column in section.columns) + r" \\"]
    if any(column.group for column in section.columns):
        headings = [*grouped(section.columns), *headings]
    body = []
    for row in section.rows:
        texts = [escaped(text) for text in row.shown]
        texts = [rf"\textbf{{{text}}}" if place in row.bold else text for place, text in enumerate(texts)]
        body.append(" & ".join(texts) + r" \\")
    caption = ". ".join(text.rstrip(".") for text in (section.title, *section.notes)) + "."
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{escaped(unmarked(caption))}}}",
            rf"\label{{tab:{label}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * (len(section.columns) - 1)}}}",
            r"\toprule",
            *headings,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
            "",
        ]
    )


def grouped(columns: Sequence[Column]) -> list[str]:
    """The line of common headings, and the rules below them."""
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escaped(group)}}}" if group else " & ".join([""] * width))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [" & ".join(cells) + r" \\", "".join(rules)]


def escaped(text: str) -> str:
    """Plain text as LaTeX prints it."""
    return "".join(LATEX.get(character, character) for character in text)


def unmarked(text: str) -> str:
    """Without Markdown's marks for code."""
    return re.sub(r"`([^`]*)`", r"\1", text)


def number(value: float | int | None, digits: int = 0, sign: str = "") -> str:
    """Rounded, thousands apart, with a true minus; a dash where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:{sign},.{digits}f}"
    # what rounds to zero has no sign
    text = text.lstrip("+-") if not any(digit in text for digit in "123456789") else text
    return text.replace("-", "−")


def with_deviation(mean: float | None, sd: float | None, digits: int, sign: str = "") -> str:
    text = number(mean, digits, sign)
    return text if mean is None or sd is None else f"{text} ± {sd:.{digits}f}"
