"""docs/results.md from a shelf of records: every item's tables and figures, their machines, and what is missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samc.errors import DataError
from samc.experiments.items import ITEMS, Item, Variant
from samc.experiments.shelf import Shelf
from samc.files import write_whole
from samc.record import RunRecord
from samc.report.reproduction import FIGURES, TABLES, pictures_of, publish
from samc.report.runs import Found, learnt_on
from samc.report.sheet import markdown

INTRODUCTION = """# Results

Every table and figure of the paper, made from the records of runs and from nothing else. `samc reproduce` learns what
is missing, `samc results` writes this page again."""
MOST_NAMED = 16
# variants that a line names before it only counts them


@dataclass(frozen=True)
class Account:
    """An item, and what a shelf holds of it by job."""

    item: Item
    found: Found
    jobs: Mapping[str, RunRecord | None]

    @classmethod
    def of(cls, item: Item, shelf: Shelf, quick: bool, seeds: Sequence[int] | None) -> "Account":
        asked = item.jobs(seeds=seeds, quick=quick)
        found = {key: shelf.find(job) for key, job in asked.items()}
        return cls(item, found, {job.name: found[key] for key, job in asked.items()})

    @property
    def run(self) -> Found:
        """Of streams with at least one run: a table of nothing but gaps is a line below instead."""
        streams = {stream for (stream, _, _), record in self.found.items() if record}
        return {key: record for key, record in self.found.items() if key[0] in streams}


def page(shelf: Shelf, *, beside: str = "", quick: bool = False, seeds: Sequence[int] | None = None) -> str:
    """The page as Markdown; figures are links to the files that `publish` writes, in the folder `beside` it."""
    accounts = [Account.of(item, shelf, quick, seeds) for item in ITEMS.values()]
    jobs = {name: record for account in accounts for name, record in account.jobs.items()}
    run = [record for record in jobs.values() if record]
    counted = f"{len(run):,} of {len(jobs):,} runs are here."
    parts = [INTRODUCTION, " ".join([counted, *learnt_on(run)])]
    parts += [part for account in accounts for part in section(account, beside, shelf.folder)]
    return "\n\n".join(parts) + "\n"


def write(shelf: Shelf, path: Path, *, quick: bool = False, seeds: Sequence[int] | None = None) -> list[Path]:
    """The tables and figures of all that a shelf holds, beside its records, and the page that shows them."""
    written = []
    for item in ITEMS.values():
        account = Account.of(item, shelf, quick, seeds)
        if account.run:
            pictures = pictures_of(item.jobs(seeds=seeds, quick=quick), shelf)
            written += publish(item, account.run, shelf.folder, pictures)
    if not written:
        how = "learn some with: samc reproduce table1 --out FOLDER; quick ones are shown with --quick"
        raise DataError(f"{shelf.folder} holds no run of an item; {how}")
    beside = Path(os.path.relpath(shelf.folder, path.parent)).as_posix()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page(shelf, beside=f"{beside}/", quick=quick, seeds=seeds).encode(), replace=True)
    return [*written, path]


def section(account: Account, beside: str, folder: Path) -> list[str]:
    item, run = account.item, account.run
    parts = [f"## {item.name}: {item.what}"]
    if run:
        parts += [*shown(item, run, beside, folder), *learnt_on(run.values())]
    return [*parts, *not_run(account.found)]


def shown(item: Item, run: Found, beside: str, folder: Path) -> list[str]:
    """Tables as they are, figures as links; a gallery only where it could be drawn."""
    if item.name in TABLES:
        return [markdown(TABLES[item.name](item, run), level=3)]
    if item.name in FIGURES:
        return [f"![{item.what}]({beside}{item.name}.png)"]
    names = {stream: f"{item.name}-{stream}.png" for stream in streams_of(run)}
    return [f"![{stream}: {item.what}]({beside}{name})" for stream, name in names.items() if (folder / name).exists()]


def not_run(found: Found) -> list[str]:
    """A line a stream with runs still missing, by variant; seeds only where some are there."""
    lines = []
    for stream in streams_of(found):
        asked: dict[Variant, list[int]] = {}
        missing: dict[Variant, list[int]] = {}
        for (its, variant, seed), record in found.items():
            if its == stream:
                asked.setdefault(variant, []).append(seed)
                if record is None:
                    missing.setdefault(variant, []).append(seed)
        count = sum(map(len, missing.values()))
        if missing == asked:
            lines.append(f"not run yet: {stream}: " + (f"all {count:,} runs" if count > 1 else "its only run"))
        elif len(missing) > MOST_NAMED:
            lines.append(f"not run yet: {stream}: {count:,} runs of {len(missing):,} variants")
        elif missing:
            named = [each.label + ("" if seeds == asked[each] else of_seeds(seeds)) for each, seeds in missing.items()]
            lines.append(f"not run yet: {stream}: {'; '.join(named)}")
    return lines


def of_seeds(seeds: list[int]) -> str:
    return f" (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"


def streams_of(found: Found) -> list[str]:
    return list(dict.fromkeys(stream for stream, _, _ in found))
