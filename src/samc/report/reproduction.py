"""An item's records to its tables and figures, as files; nothing is trained here."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from samc.errors import OutputError
from samc.experiments.diagnosis import evenly_spread
from samc.experiments.jobs import Job
from samc.experiments.pictures import PICTURES, RememberedImage, read_pictures
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import Item, Key
from samc.files import write_whole
from samc.record import RunRecord
from samc.report import curves
from samc.report.accuracy_table import accuracy_tables, equal_bytes_tables
from samc.report.claims_table import claims_tables
from samc.report.cost_table import cost_tables
from samc.report.curve_table import curve_points
from samc.report.frontier_table import frontier_tables
from samc.report.gallery import draw_gallery
from samc.report.grid_table import as_presets, grid_tables
from samc.report.measures import images, memory_bytes
from samc.report.paired_table import parts_tables, released_tables, saliency_tables
from samc.report.runs import BUDGET, Results, by_stream, machines_sentence
from samc.report.scenario_table import scenario_tables
from samc.report.stored_table import stored_tables
from samc.report.tables import Table, to_csv, to_latex, to_markdown

TABLES: dict[str, Callable[[Item, Results], list[Table]]] = {
    "table1": accuracy_tables,
    "table2": accuracy_tables,
    "equal-bytes": equal_bytes_tables,
    "variants": accuracy_tables,
    "table3": cost_tables,
    "images-stored": stored_tables,
    "theory": claims_tables,
    "parts": parts_tables,
    "released": released_tables,
    "frontier": frontier_tables,
    "saliency": saliency_tables,
    "class-incremental": scenario_tables,
    "domain-incremental": scenario_tables,
    "grid": grid_tables,
}
FIGURES: dict[str, Callable[[curves.Streams], Figure]] = {
    "first-task": curves.draw_first_task,
    "threshold": curves.draw_by_threshold,
    "memory-size": curves.draw_by_size,
    "frontier": curves.draw_frontier,
}
AXES = {"memory-size": ("accounting", "budget_images"), "frontier": BUDGET}
# terms that a figure itself shows: its axis; GEM's images are counted in bytes, SAMC's in values, as in the paper
Pictures = Mapping[Key, Sequence[RememberedImage]]
# the images that runs have kept for a gallery
MOST_TASKS = 5
# in a gallery, spread over the stream


def publish(item: Item, results: Results, folder: Path, pictures: Pictures) -> list[Path]:
    """Write folder/ITEM.md, .csv and .tex for a table, .png, .svg and .csv for a figure; returns the files.

    A figure of no runs is not drawn. The gallery is one picture per stream, as PNG only: it is made of pixels.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; choose another folder") from None
    if item.name not in TABLES and item.name not in FIGURES:
        return write_galleries(results, folder, pictures)
    figures = write_figures(item, results, folder) if item.name in FIGURES else []
    return [*figures, *(write_tables(item, results, folder) if item.name in TABLES else [])]


def load_pictures(jobs: Mapping[Key, Job], store: RecordStore) -> Pictures:
    """What runs with pictures have left next to their records; a store that was handed on may be without."""
    found = {key: store.locate(job) for key, job in jobs.items() if job.pictures}
    files = {key: located[0] / PICTURES for key, located in found.items() if located}
    return {key: read_pictures(path) for key, path in files.items() if path.exists()}


def write_tables(item: Item, results: Results, folder: Path) -> list[Path]:
    tables = TABLES[item.name](item, results)
    heading, machines = f"# {item.name}: {item.what}", machines_sentence(results.values())
    texts = {
        "md": "\n\n".join([heading, to_markdown(tables), *machines]) + "\n",
        "tex": to_latex(tables, item.name),
    }
    if item.name not in FIGURES:  # whose points are its CSV
        texts["csv"] = to_csv([row.values for table in tables for row in table.rows])
    if item.name == "grid":
        texts["yaml"] = as_presets(results)
    return [write_text(folder / f"{item.name}.{kind}", text) for kind, text in texts.items()]


def write_figures(item: Item, results: Results, folder: Path) -> list[Path]:
    """Panels only for streams with runs, and the numbers behind every curve as CSV."""
    streams = by_stream(results, axis=AXES.get(item.name, ("accounting",)))
    paths = [write_text(folder / f"{item.name}.csv", to_csv(curve_points(item, streams)))]
    known = {stream: all_runs for stream, all_runs in streams.items() if any(runs.records for runs in all_runs)}
    return [*curves.save_figure(lambda: FIGURES[item.name](known), folder / item.name), *paths] if known else paths


def write_galleries(results: Results, folder: Path, pictures: Pictures) -> list[Path]:
    """Of each stream the first run that has left pictures."""
    paths: dict[str, Path] = {}
    for (stream, variant, seed), record in results.items():
        remembered = pictures.get((stream, variant, seed))
        if record is None or not remembered or stream in paths:
            continue
        paths[stream] = folder / f"gallery-{stream}.png"
        tasks = choose_tasks(sorted({image.task for image in remembered}), MOST_TASKS)
        picture = io.BytesIO()
        draw_gallery([image for image in remembered if image.task in tasks], picture, gallery_title(stream, record))
        write_whole(paths[stream], picture.getvalue(), replace=True)
    return list(paths.values())


def choose_tasks(tasks: list[int], most: int) -> list[int]:
    """So many of them from the first to the last; all if there are no more."""
    return [tasks[place] for place in sorted(evenly_spread(len(tasks), most))]


def gallery_title(stream: str, record: RunRecord) -> str:
    return f"{stream}: {images(record):,} images in {memory_bytes(record):,} bytes"


def write_text(path: Path, text: str) -> Path:
    write_whole(path, text.encode(), replace=True)
    return path
