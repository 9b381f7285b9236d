"""How far Lemma 1, Lemma 2 and Theorem 1 held in runs that measured them: by task and over all, or briefly for one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from samc.errors import DataError
from samc.experiments.claims import StepClaims
from samc.experiments.diagnosis import mean
from samc.experiments.specification import Item
from samc.report.numbers import format_psnr
from samc.report.runs import Results, Runs, by_stream
from samc.report.tables import Column, Table, TableRow, Values


def psnr_text(side: str) -> Callable[[Values], str]:
    """The PSNR inside or outside the kept pixels."""
    return lambda values: format_psnr(values.get(f"squared_error_{side}"), values.get(f"psnr_{side}"))


COLUMNS = (
    Column("task", align="left"),
    Column("seed", lambda values: str(values["seed"])),
    Column("steps", "measured_steps", "Lemma 1"),
    Column("acute %", "acute", "Lemma 1", digits=1, scale=100),
    Column("loss fell if acute %", "fell_when_acute", "Lemma 1", digits=1, scale=100),
    Column("by a short step %", "fell_when_acute_after_short_step", "Lemma 1", digits=1, scale=100),
    Column("images", "images", "Lemma 2"),
    Column("bound holds %", "bound_holds", "Lemma 2", digits=1, scale=100),
    Column("mean error", "output_error", "Lemma 2", digits=2),
    Column("mean bound", "output_bound", "Lemma 2", digits=1),
    Column("signs agree %", "signs_agree", "Theorem 1", digits=1, scale=100),
    Column("implication holds %", "truly_acute_when_acute", "Theorem 1", digits=1, scale=100),
    Column("cosine", "reference_cosine", "Theorem 1", digits=2),
    Column("PSNR kept", psnr_text("inside"), "completion"),
    Column("PSNR dropped", psnr_text("outside"), "completion"),
    Column("SSIM dropped", "ssim_outside", "completion", digits=2),
)
SHORT_COLUMNS = (
    Column("task", lambda values: str(values["task"] + 1)),
    Column("acute %", "acute", scale=100),
    Column("loss fell if acute %", "fell_when_acute", scale=100),
    Column("… by a short step %", "fell_when_acute_after_short_step", scale=100),
    Column("signs agree %", "signs_agree", scale=100),
    Column("bound holds %", "bound_holds", scale=100),
    Column("PSNR kept", psnr_text("inside")),
    Column("PSNR dropped", psnr_text("outside")),
)
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


def diagnosis_table(diagnosis: dict[str, Any]) -> Table:
    """One row per task whose images are remembered, in few columns, for the run that has just ended."""
    rows = [TableRow(task) for task in diagnosis["tasks"]]
    return Table("diagnosis (true images kept aside for it)", SHORT_COLUMNS, rows)


def claims_tables(item: Item, results: Results) -> list[Table]:
    """One table per stream; runs follow each other, one row per task."""
    return [
        Table(
            f"{item.name}, {stream}",
            COLUMNS,
            [TableRow(values) for runs in all_runs for values in task_values(stream, runs)],
            NOTES,
        )
        for stream, all_runs in by_stream(results).items()
    ]


def task_values(stream: str, runs: Runs) -> list[dict[str, Any]]:
    """The values of every row of some runs: their tasks and then all together."""
    rows: list[dict[str, Any]] = []
    for seed, record in runs.records.items():
        if record.diagnosis is None:
            raise DataError(f"{stream}, seed {seed}: the run was not asked to measure; run it with --diagnose")
        run = {"stream": stream, "seed": seed}
        try:
            rows += [{**run, **claims, "task": str(claims["task"] + 1)} for claims in record.diagnosis["tasks"]]
            rows.append({**run, "task": "all", **over_all(record.diagnosis)})
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            why = f"what it measured cannot be read, {type(error).__name__} {error}"
            raise DataError(f"{stream}, seed {seed}: {why}; run it again with --diagnose") from None
    rows += [{"stream": stream, "seed": seed, "task": "not run"} for seed in runs.missing]
    return rows


def over_all(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """All measured steps together, and all images that are remembered at the end."""
    steps = [step_claims(step) for step in diagnosis["steps"]]
    acute = [claims for claims in steps if claims.acute]
    tasks = diagnosis["tasks"]
    by_images = ("bound_holds", "output_error", "output_bound")
    return {
        "measured_steps": len(steps),
        "acute": mean(claims.acute for claims in steps),
        "fell_when_acute": mean(claims.fell for claims in acute),
        "fell_when_acute_after_short_step": mean(claims.fell_after_short_step for claims in acute),
        "signs_agree": mean(claims.signs_agree for claims in steps),
        "truly_acute_when_acute": mean(claims.product_true > 0 for claims in steps if claims.product_completed > 0),
        "reference_cosine": mean(claims.reference_cosine for claims in steps if math.isfinite(claims.reference_cosine)),
        "images": sum(task["images"] for task in tasks),
        **{name: weighted_mean([(task[name], task["images"]) for task in tasks]) for name in by_images},
    }


def step_claims(step: dict[str, Any]) -> StepClaims:
    """A step as it was measured; the output of a diverged network is not a number."""
    measures: dict[str, Any] = {name: math.nan if value is None else value for name, value in step.items()}
    return StepClaims(**measures)


def weighted_mean(pairs: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, images) for value, images in pairs if value is not None and images]
    return sum(value * images for value, images in known) / sum(images for _, images in known) if known else None
