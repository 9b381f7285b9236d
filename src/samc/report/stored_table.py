"""How many images go into the room of ten, by threshold, beside the paper's appendix."""

from collections.abc import Sequence

from samc.experiments.items import Item
from samc.report.paper import published
from samc.report.runs import Found, Runs, by_stream, images_a_task
from samc.report.sheet import Column, Row, Section, number, with_deviation

COLUMNS = tuple(Column(name) for name in ("threshold μ", "seeds", "images a task", "paper", "difference %"))
NOTE = (
    "Images in a task's memory at the end of the run, mean over tasks; then mean ± standard deviation over seeds. "
    "Counted as the paper does: colours of kept pixels against those of ten whole images."
)


def sections(item: Item, found: Found) -> list[Section]:
    """One table a stream, thresholds ascending."""
    return [
        Section(f"{item.name}, {stream}", COLUMNS, rows(item, stream, runs), (NOTE,))
        for stream, runs in by_stream(found, axis=()).items()
    ]


def rows(item: Item, stream: str, runs: Sequence[Runs]) -> list[Row]:
    figures, made = published(item.name, stream), []
    for each in sorted(runs, key=lambda each: each.variant.at or 0):
        ours, paper = each.over_seeds(images_a_task), figures.get(each.variant.at)
        mean, sd = (ours.mean, ours.sd) if ours else (None, None)
        difference = 100 * (mean / paper - 1) if mean is not None and paper else None
        shown = [
            each.variant.label,
            each.seeds,
            with_deviation(mean, sd, 1),
            number(paper, 1),
            number(difference, 1, "+"),
        ]
        raw = {
            "stream": stream,
            "threshold": each.variant.at,
            "seeds": len(each.records),
            "seeds_asked": each.asked,
            "images_per_task_mean": mean,
            "images_per_task_sd": sd,
            "paper_images_per_task": paper,
            "difference_percent": difference,
        }
        made.append(Row(shown, raw))
    return made
