"""log.csv: a row for each number, with its step and its name, as data frames take it."""

import csv
import io

from samc.loggers.base import Entry
from samc.loggers.text_file import TextFile


class CSVFile(TextFile):
    """Every cell that needs it is quoted; pictures have no row."""

    place = "log.csv"
    heading = "step,name,value\n"

    def text(self, entry: Entry, pictures: dict[str, str]) -> str:
        rows = io.StringIO()
        csv.writer(rows, lineterminator="\n").writerows((entry.step, *item) for item in entry.scalars.items())
        return rows.getvalue()

    @staticmethod
    def step_of(line: str) -> int:
        return int(line.partition(",")[0])
