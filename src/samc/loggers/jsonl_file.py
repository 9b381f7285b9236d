"""log.jsonl: an object for each entry, with its step, its numbers by name and the files of its pictures."""

import json

from samc.loggers.base import Entry
from samc.loggers.text_file import TextFile


class JSONLinesFile(TextFile):
    """One line of JSON per entry."""

    place = "log.jsonl"

    def text(self, entry: Entry, pictures: dict[str, str]) -> str:
        content = {"step": entry.step, **entry.scalars, **({"pictures": pictures} if pictures else {})}
        return json.dumps(content) + "\n"

    @staticmethod
    def step_of(line: str) -> int:
        return int(json.loads(line)["step"])
