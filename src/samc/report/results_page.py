"""docs/results.md from a store of records: every item's tables and figures, their machines, and what is missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samc.errors import DataError
from samc.experiments.items import ITEMS
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import Item, Variant
from samc.files import write_whole
from samc.record import RunRecord
from samc.report.reproduction import FIGURES, TABLES, load_pictures, publish
from samc.report.runs import Results, machines_sentence
from samc.report.tables import to_markdown

INTRODUCTION = """# Results

Every table and figure of the paper and a few of our own, made from the records of runs and from nothing else. `samc
reproduce` learns what is missing, `samc results` writes this page again."""
MOST_NAMED = 16
# variants that a line names before it only counts them


@dataclass(frozen=True)
class ItemResults:
    """An item, and the records that a store has of it, by run and by the name of the job."""

    item: Item
    results: Results
    by_job: Mapping[str, RunRecord | None]

    @classmethod
    def collect(cls, item: Item, store: RecordStore, quick: bool, seeds: Sequence[int] | None) -> "ItemResults":
        jobs = item.jobs(seeds=seeds, quick=quick)
        results = {key: store.find(job) for key, job in jobs.items()}
        return cls(item, results, {job.name: results[key] for key, job in jobs.items()})

    @property
    def begun(self) -> Results:
        """The results of streams with at least one run: a table of nothing but gaps is a line below instead."""
        streams = {stream for (stream, _, _), record in self.results.items() if record}
        return {key: record for key, record in self.results.items() if key[0] in streams}


def results_page(store: RecordStore, *, link: str = "", quick: bool = False, seeds: Sequence[int] | None = None) -> str:
    """The page as Markdown; `link` leads from it to the store's folder, where `publish` writes the figures."""
    collected = [ItemResults.collect(item, store, quick, seeds) for item in ITEMS.values()]
    jobs = {name: record for item_results in collected for name, record in item_results.by_job.items()}
    known = [record for record in jobs.values() if record]
    count = f"{len(known):,} of {len(jobs):,} runs are here."
    parts = [INTRODUCTION, " ".join([count, *machines_sentence(known)])]
    parts += [part for item_results in collected for part in item_section(item_results, link, store.folder)]
    return "\n\n".join(parts) + "\n"


def write_results(
    store: RecordStore, path: Path, *, quick: bool = False, seeds: Sequence[int] | None = None
) -> list[Path]:
    """The tables and figures of all that a store holds, in its folder, and the page that shows them."""
    written = []
    for item in ITEMS.values():
        begun = ItemResults.collect(item, store, quick, seeds).begun
        if begun:
            written += publish(item, begun, store.folder, load_pictures(item.jobs(seeds=seeds, quick=quick), store))
    if not written:
        how = "learn some with: samc reproduce table1 --out FOLDER; quick ones are shown with --quick"
        raise DataError(f"{store.folder} holds no run of an item; {how}")
    link = Path(os.path.relpath(store.folder, path.parent)).as_posix()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, results_page(store, link=f"{link}/", quick=quick, seeds=seeds).encode(), replace=True)
    return [*written, path]


def item_section(item_results: ItemResults, link: str, folder: Path) -> list[str]:
    item, begun = item_results.item, item_results.begun
    parts = [f"## {item.name}: {item.what}"]
    if begun:
        parts += [*item_lines(item, begun, link, folder), *machines_sentence(begun.values())]
    return [*parts, *missing_lines(item_results.results)]


def item_lines(item: Item, begun: Results, link: str, folder: Path) -> list[str]:
    """Tables as they are, figures as links; a gallery only where it could be drawn."""
    if item.name in TABLES or item.name in FIGURES:
        figure = [f"![{item.what}]({link}{item.name}.png)"] if item.name in FIGURES else []
        return [*figure, *([to_markdown(TABLES[item.name](item, begun), level=3)] if item.name in TABLES else [])]
    names = {stream: f"{item.name}-{stream}.png" for stream in streams_of(begun)}
    return [f"![{stream}: {item.what}]({link}{name})" for stream, name in names.items() if (folder / name).exists()]


def missing_lines(results: Results) -> list[str]:
    """One line per stream with runs still missing, by variant; seeds only where some are there."""
    lines = []
    for stream in streams_of(results):
        wanted: dict[Variant, list[int]] = {}
        missing: dict[Variant, list[int]] = {}
        for (other, variant, seed), record in results.items():
            if other == stream:
                wanted.setdefault(variant, []).append(seed)
                if record is None:
                    missing.setdefault(variant, []).append(seed)
        count = sum(map(len, missing.values()))
        if missing == wanted:
            lines.append(f"not run yet: {stream}: " + (f"all {count:,} runs" if count > 1 else "its only run"))
        elif len(missing) > MOST_NAMED:
            lines.append(f"not run yet: {stream}: {count:,} runs of {len(missing):,} variants")
        elif missing:
            names = [
                variant.label + ("" if seeds == wanted[variant] else seeds_text(seeds))
                for variant, seeds in missing.items()
            ]
            lines.append(f"not run yet: {stream}: {'; '.join(names)}")
    return lines


def seeds_text(seeds: list[int]) -> str:
    return f" (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"


def streams_of(results: Results) -> list[str]:
    return list(dict.fromkeys(stream for stream, _, _ in results))
