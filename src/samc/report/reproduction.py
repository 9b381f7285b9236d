"""Records to the paper's tables and figures, as files: one entry for every item; it never trains."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from samc.errors import OutputError
from samc.experiments.items import Item
from samc.experiments.jobs import Job
from samc.experiments.pictures import PICTURES, unpacked
from samc.experiments.shelf import Shelf
from samc.files import write_whole
from samc.record import RunRecord
from samc.report import accuracy_table, claims_table, cost_table, curve_table, curves, gallery, grid_table, stored_table
from samc.report.runs import Found, Key, by_stream, learnt_on
from samc.report.sheet import Section, comma_separated, latex, markdown

TABLES: dict[str, Callable[[Item, Found], list[Section]]] = {
    "table1": accuracy_table.sections,
    "table2": accuracy_table.sections,
    "equal-bytes": accuracy_table.sections,
    "variants": accuracy_table.sections,
    "table3": cost_table.sections,
    "images-stored": stored_table.sections,
    "theory": claims_table.sections,
    "grid": grid_table.sections,
}
FIGURES: dict[str, Callable[[curves.Streams], Figure]] = {
    "first-task": curves.first_task,
    "threshold": curves.by_threshold,
    "memory-size": curves.by_size,
}
AXES = {"memory-size": ("accounting", "budget_images")}
# terms that a figure itself shows: its axis; GEM's images are counted in bytes, SAMC's in values, as in the paper
MOST_TASKS = 5
# in a gallery, spread over the stream


def publish(item: Item, found: Found, folder: Path, pictures: Mapping[Key, bytes]) -> list[Path]:
    """Write folder/ITEM.md, .csv and .tex for a table, .png, .svg and .csv for a figure; returns the files.

    `found` has the item's runs in order, None for those still to be run; a figure of none of them is not drawn. The
    gallery is a picture a stream, as PNG only: it is made of pixels.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; choose another folder") from None
    if item.name in TABLES:
        return tables(item, found, folder)
    if item.name in FIGURES:
        return figures(item, found, folder)
    return galleries(found, folder, pictures)


def pictures_of(jobs: Mapping[Key, Job], shelf: Shelf) -> dict[Key, bytes]:
    """What runs with pictures have left beside their records; a shelf that was handed on may be without."""
    files = {key: shelf.place(job) / PICTURES for key, job in jobs.items() if job.pictures and shelf.find(job)}
    return {key: path.read_bytes() for key, path in files.items() if path.exists()}


def tables(item: Item, found: Found, folder: Path) -> list[Path]:
    sections = TABLES[item.name](item, found)
    texts = {
        "md": "\n\n".join([f"# {item.name}: {item.what}", markdown(sections), *learnt_on(found.values())]) + "\n",
        "csv": comma_separated([row.raw for section in sections for row in section.rows]),
        "tex": latex(sections, item.name),
    }
    if item.name == "grid":
        texts["yaml"] = grid_table.as_presets(found)
    return [written(folder / f"{item.name}.{kind}", text) for kind, text in texts.items()]


def figures(item: Item, found: Found, folder: Path) -> list[Path]:
    """Panels only for streams with runs, and the figures behind every curve as CSV."""
    streams = by_stream(found, axis=AXES.get(item.name, ("accounting",)))
    paths = [written(folder / f"{item.name}.csv", comma_separated(curve_table.points(item, streams)))]
    run = {stream: runs for stream, runs in streams.items() if any(each.records for each in runs)}
    return [*curves.save(lambda: FIGURES[item.name](run), folder / item.name), *paths] if run else paths


def galleries(found: Found, folder: Path, pictures: Mapping[Key, bytes]) -> list[Path]:
    """The first run of each stream that has left pictures."""
    paths: dict[str, Path] = {}
    for (stream, variant, seed), record in found.items():
        content = pictures.get((stream, variant, seed))
        if record is None or content is None or stream in paths:
            continue
        paths[stream] = folder / f"gallery-{stream}.png"
        items = unpacked(content)
        tasks = spread_over(sorted({item.task for item in items}), MOST_TASKS)
        picture = io.BytesIO()
        gallery.draw([item for item in items if item.task in tasks], picture, heading(stream, record))
        write_whole(paths[stream], picture.getvalue(), replace=True)
    return list(paths.values())


def spread_over(tasks: list[int], most: int) -> list[int]:
    """So many of them from the first to the last, evenly; all if there are no more."""
    if len(tasks) <= most:
        return tasks
    return [tasks[round(place * (len(tasks) - 1) / (most - 1))] for place in range(most)]


def heading(stream: str, record: RunRecord) -> str:
    memory = record.memory
    return f"{stream}: {sum(memory['images_per_task']):,} images in {memory['memory_bytes']:,} bytes"


def written(path: Path, text: str) -> Path:
    write_whole(path, text.encode(), replace=True)
    return path
