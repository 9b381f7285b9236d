"""How far Lemma 1, Lemma 2 and Theorem 1 held in a run that measured them, task by task and over all."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from samc.errors import DataError
from samc.experiments.claims import StepClaims
from samc.experiments.diagnosis import share
from samc.experiments.items import Item
from samc.report.diagnosis import decibels
from samc.report.runs import Found, Runs, by_stream
from samc.report.sheet import Column, Row, Section, number

COLUMNS = (
    Column("task"),
    Column("seed"),
    *(Column(name, "Lemma 1") for name in ("steps", "acute %", "loss fell if acute %", "by a short step %")),
    *(Column(name, "Lemma 2") for name in ("images", "bound holds %", "mean error", "mean bound")),
    *(Column(name, "Theorem 1") for name in ("signs agree %", "implication holds %", "cosine")),
    *(Column(name, "completion") for name in ("PSNR kept", "PSNR dropped", "SSIM dropped")),
)
SHOWN = (
    ("measured_steps", 1, 0), ("acute", 100, 1), ("fell_when_acute", 100, 1),
    ("fell_when_acute_after_short_step", 100, 1), ("images", 1, 0), ("bound_holds", 100, 1), ("output_error", 1, 2),
    ("output_bound", 1, 1), ("signs_agree", 100, 1), ("truly_acute_when_acute", 100, 1), ("reference_cosine", 1, 2),
)  # fmt: skip
# a figure of a diagnosis, its scale and its digits
NOTES = (
    "Lemma 1: an applied step at no obtuse angle to a memory's gradient lets its loss fall; a short step is a "
    "hundredth of it. Lemma 2: abs(f(x) − f(x')) ≤ μ · Δx · √d for the label's logit f, where x' is the completed "
    "image and d the number of its values. Theorem 1: the batch's gradient has the same sign against the completed "
    "memory's as against the true images'; the implication is that positive against completed ones means positive "
    "against true ones.",
    "A task's row is over its measured steps, and over its memory at the end of the run; the last row is over all "
    "steps and all images. The last task has no later one, and so no steps. Kept pixels come back exactly where PSNR "
    "says so.",
)


def sections(item: Item, found: Found) -> list[Section]:
    """One table a stream; runs follow each other, a row a task."""
    made = []
    for stream, runs in by_stream(found).items():
        rows = [row for each in runs for row in rows_of(stream, each)]
        made.append(Section(f"{item.name}, {stream}", COLUMNS, rows, NOTES))
    return made


def rows_of(stream: str, runs: Runs) -> list[Row]:
    rows = []
    for seed, record in runs.records.items():
        if record.diagnosis is None:
            raise DataError(f"{stream}, seed {seed}: the run was not asked to measure; run it with --diagnose")
        rows += [row(stream, seed, str(task["task"] + 1), task) for task in record.diagnosis["tasks"]]
        rows.append(row(stream, seed, "all", over_all(record.diagnosis)))
    rows += [row(stream, seed, "not run", {}) for seed in runs.missing]
    return rows


def row(stream: str, seed: int, task: str, figures: dict[str, Any]) -> Row:
    texts = [scaled(figures.get(name), scale, digits) for name, scale, digits in SHOWN]
    inside, outside = (figures.get(f"squared_error_{side}") for side in ("inside", "outside"))
    texts += [decibels(inside, figures.get("psnr_inside")), decibels(outside, figures.get("psnr_outside"))]
    texts.append(scaled(figures.get("ssim_outside"), 1, 2))
    raw = {name: value for name, value in figures.items() if name != "task"}
    return Row([task, str(seed), *texts], {"stream": stream, "seed": seed, "task": task, **raw})


def scaled(value: float | int | None, scale: int, digits: int) -> str:
    return number(None if value is None else scale * value, digits)


def over_all(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """All measured steps together, and all images that are remembered at the end."""
    steps = [claims_of(step) for step in diagnosis["steps"]]
    tasks = diagnosis["tasks"]
    by_images = ("bound_holds", "output_error", "output_bound")
    return {
        "measured_steps": len(steps),
        "acute": portion(steps, lambda c: c.acute),
        "fell_when_acute": portion([c for c in steps if c.acute], lambda c: c.fell),
        "fell_when_acute_after_short_step": portion([c for c in steps if c.acute], lambda c: c.fell_after_short_step),
        "signs_agree": portion(steps, lambda c: c.signs_agree),
        "truly_acute_when_acute": portion([c for c in steps if c.product_completed > 0], lambda c: c.product_true > 0),
        "reference_cosine": portion(
            [c for c in steps if math.isfinite(c.reference_cosine)], lambda c: c.reference_cosine
        ),
        "images": sum(task["images"] for task in tasks),
        **{name: weighted([(task[name], task["images"]) for task in tasks]) for name in by_images},
    }


def claims_of(step: dict[str, Any]) -> StepClaims:
    """A step as it was measured; what a diverged network said is not a number."""
    figures: dict[str, Any] = {name: math.nan if value is None else value for name, value in step.items()}
    return StepClaims(**figures)


def portion(steps: Sequence[StepClaims], holds: Callable[[StepClaims], float]) -> float | None:
    return share(holds(claims) for claims in steps)


def weighted(pairs: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, images) for value, images in pairs if value is not None and images]
    return sum(value * images for value, images in known) / sum(images for _, images in known) if known else None
