"""docs/results.md from a store of records: tables and figures of what there is, and at the end what is missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samc.errors import DataError, OutputError
from samc.experiments.items import ITEMS
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import Item
from samc.files import write_output
from samc.report.missing import missing_table
from samc.report.reproduction import FIGURES, TABLES, load_pictures, publish
from samc.report.runs import Results, machines_sentence
from samc.report.tables import to_markdown

INTRODUCTION = """# Results

Every table and figure of the paper and a few of our own, made from the records of runs and from nothing else. `samc
reproduce` learns what is missing, `samc results` writes this page again."""
DRAWING = "`samc reproduce`, and `samc results` without --page, draw it."
NOT_OURS = "is not shown: its pictures are of the data set's own images. To draw it on your machine: "


@dataclass(frozen=True)
class ItemResults:
    """An item, and the records that a store has of it, by run; and by the name of each job where its record lies."""

    item: Item
    results: Results
    places: Mapping[str, Path | None]

    @classmethod
    def collect(cls, item: Item, store: RecordStore, quick: bool, seeds: Sequence[int] | None) -> "ItemResults":
        jobs = item.jobs(seeds=seeds, quick=quick)
        located = {key: store.locate(job) or (None, None) for key, job in jobs.items()}
        results = {key: record for key, (_, record) in located.items()}
        return cls(item, results, {job.name: located[key][0] for key, job in jobs.items()})

    @property
    def begun(self) -> Results:
        """The results of streams with at least one run: what is nothing but gaps stands in the list at the end."""
        streams = {stream for (stream, _, _), record in self.results.items() if record}
        return {key: record for key, record in self.results.items() if key[0] in streams}


def results_page(store: RecordStore, *, link: str = "", quick: bool = False, seeds: Sequence[int] | None = None) -> str:
    """The page as Markdown; `link` leads from it to the store's folder, where the figures are."""
    collected = [ItemResults.collect(item, store, quick, seeds) for item in ITEMS.values()]
    places = {name: place for item_results in collected for name, place in item_results.places.items()}
    here = [place for place in places.values() if place]
    known = [record for item_results in collected for record in item_results.results.values() if record]
    missing = missing_table({item_results.item.name: item_results.results for item_results in collected}, quick)
    machines = machines_sentence(known)
    rest = "; the others are [listed at the end](#not-run-yet)" if missing.rows else ""
    records = f"{len(set(here)):,} records: some serve two rows"
    count = f"{len(here):,} of {len(places):,} runs are here ({records}){rest}."
    parts = [INTRODUCTION, " ".join([count, *machines])]
    parts += [part for item_results in collected for part in item_section(item_results, link, store.folder)]
    return "\n\n".join([*parts, *([to_markdown([missing])] if missing.rows else [])]) + "\n"


def publish_all(store: RecordStore, *, quick: bool = False, seeds: Sequence[int] | None = None) -> list[Path]:
    """The tables and figures of all that a store holds, written into its folder."""
    written = []
    for item in ITEMS.values():
        begun = ItemResults.collect(item, store, quick, seeds).begun
        if begun:
            written += publish(item, begun, store.folder, load_pictures(item.jobs(seeds=seeds, quick=quick), store))
    return written


def write_results_page(
    store: RecordStore, path: Path, *, quick: bool = False, seeds: Sequence[int] | None = None
) -> None:
    """The page alone; the figures that it shows are those that lie in the store's folder."""
    if not any(ItemResults.collect(item, store, quick, seeds).begun for item in ITEMS.values()):
        how = "learn some with: samc reproduce table1 --out FOLDER; quick ones are shown with --quick"
        raise DataError(f"{store.folder} holds no run of an item; {how}")
    link = Path(os.path.relpath(store.folder, path.parent)).as_posix()
    content = results_page(store, link=f"{link}/", quick=quick, seeds=seeds).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another --page") from None
    write_output(path, content, replace=True, taken="choose another --page")


def item_section(item_results: ItemResults, link: str, folder: Path) -> list[str]:
    """Nothing of an item that has no run: the list at the end has it."""
    item, begun = item_results.item, item_results.begun
    if not begun:
        return []
    heading = f"## {item.name}: {item.what}"
    return [heading, *item_lines(item, begun, link, folder), *machines_sentence(begun.values())]


def item_lines(item: Item, begun: Results, link: str, folder: Path) -> list[str]:
    """Tables as they are, figures as links, where they have been drawn."""
    if item.name in TABLES or item.name in FIGURES:
        name = f"{item.name}.png"
        drawn = f"![{item.what}]({link}{name})" if (folder / name).exists() else f"{name} has not been drawn: {DRAWING}"
        figure = [drawn] if item.name in FIGURES else []
        return [*figure, *([to_markdown(TABLES[item.name](item, begun), level=3)] if item.name in TABLES else [])]
    return [picture_line(item, stream, link, folder) for stream in streams_of(begun)]


def picture_line(item: Item, stream: str, link: str, folder: Path) -> str:
    name = f"{item.name}-{stream}.png"
    if (folder / name).exists():
        return f"![{stream}: {item.what}]({link}{name})"
    return f"{name} {NOT_OURS}`samc reproduce {item.name} --datasets {stream} --out FOLDER`"


def streams_of(results: Results) -> list[str]:
    return list(dict.fromkeys(stream for stream, _, _ in results))
