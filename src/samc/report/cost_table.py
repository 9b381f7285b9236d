"""Table 3: what a run keeps in bytes and takes in seconds, phase by phase, and SAMC's against GEM's."""

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from samc.experiments.specification import Item
from samc.models import Heads, ReducedResNet18
from samc.models.resnet import WIDTHS
from samc.record import RunRecord
from samc.report.measures import Measure, images, memory_bytes
from samc.report.numbers import DASH
from samc.report.paper import published
from samc.report.runs import Results, Runs, by_stream, format_seeds
from samc.report.tables import Column, Table, TableRow, Values

PHASES = (
    "current gradient", "gradients", "projection", "saliency", "encoding", "completion", "autoencoder"
)  # fmt: skip
# the last four are SAMC's own
PARTS = ("model", "images", "autoencoder")
# of what the paper weighs
BYTES = {"model": 0, "images": 0, "autoencoder": 0, "images kept": 1, "bytes per image": 0}
# what is weighed, and its digits
RATIOS = (
    "saved on images",
    "saved with model and autoencoder",
    "extra time, as the paper counts",
    "extra time, all of it",
)


def megabytes_text(values: Values) -> str:
    """The paper's bytes, part by part."""
    parts = [values[f"paper_{part}_mb"] for part in PARTS if f"paper_{part}_mb" in values]
    return " + ".join(f"{size:g}" for size in parts) + " MB" if parts else DASH


def key(name: str, ending: str) -> str:
    return f"{name.replace(' ', '_')}_{ending}"


BYTE_COLUMNS = (
    Column("method", align="left"),
    Column("seeds", format_seeds),
    *(Column(name, key(name, "mean"), digits=digits) for name, digits in BYTES.items()),
    Column("paper", megabytes_text),
)
SECOND_COLUMNS = (
    Column("method", align="left"),
    Column("seeds", format_seeds),
    Column("training", "training_seconds_mean", digits=1, sd="training_seconds_sd"),
    *(Column(name, key(name, "seconds_mean"), digits=1) for name in PHASES),
)
RATIO_COLUMNS = (
    Column("SAMC against GEM", "method", align="left"),
    Column("ours", digits=1, scale=100, unit=" %"),
    Column("paper", digits=1, scale=100, unit=" %"),
)

BYTE_NOTE = (
    "True bytes, means over seeds. The model is the reduced ResNet-18 in float32 with its running statistics and an "
    "output for every class of these tasks; images are the episodic memory, positions and labels included; as in the "
    "paper SAMC's budget counts colours only. The paper's 44 MB are as much as a whole ResNet-18 takes, and its 413 "
    "and 137 MB of images are no memory of ten images per task: only its ratios compare, and both methods here "
    "fill the same budget, so that SAMC's saving shows as bytes per image."
)
SECOND_NOTE = (
    "Seconds, means over seeds; training is the total without tests. The current gradient alone is the first task's "
    "steps; later ones take it together with all past tasks' (gradients). On a GPU encoding overlaps with other "
    "phases, so that they need not add up; runs that shared a machine took longer than one alone would have."
)
RATIO_NOTE = (
    "Saved on images: bytes per image. With model and autoencoder: of all bytes, if SAMC kept as many images as GEM. "
    "Extra time as the paper counts it: saliency and autoencoder over GEM's training; all of it: SAMC's training over "
    "GEM's."
)


def cost_tables(item: Item, results: Results) -> list[Table]:
    """Bytes, seconds and ratios of each stream."""
    tables = []
    for stream, all_runs in by_stream(results).items():
        paper, title = published(item.name, stream), f"{item.name}, {stream}"
        tables += [
            Table(
                f"{title}: bytes",
                BYTE_COLUMNS,
                [TableRow(byte_values(stream, runs, paper)) for runs in all_runs],
                (BYTE_NOTE,),
            ),
            seconds_table(title, stream, all_runs, paper),
            Table(f"{title}: proportions", RATIO_COLUMNS, ratio_rows(stream, all_runs, paper), (RATIO_NOTE,)),
        ]
    return tables


def byte_values(stream: str, runs: Runs, paper: Mapping[str, Any]) -> dict[str, Any]:
    theirs = paper.get(runs.variant.paper or "", {})
    return {
        **row_name(stream, runs, "bytes"),
        **{key(name, "mean"): runs.mean(weight(name)) for name in BYTES},
        **{f"paper_{part}_mb": theirs[f"{part}_mb"] for part in PARTS if f"{part}_mb" in theirs},
    }


def seconds_table(title: str, stream: str, all_runs: Sequence[Runs], paper: Mapping[str, Any]) -> Table:
    """The paper gives SAMC's seconds as GEM's and two more; they are shown apart, and their sum is a row's value."""
    theirs = {runs.variant.label: paper_seconds(runs.variant.paper, paper) for runs in all_runs}

    def seconds_text(values: Values) -> str:
        parts = theirs[values["method"]]
        return " + ".join(f"{seconds:g}" for seconds in parts) + " s" if parts else DASH

    rows = []
    for runs in all_runs:
        mean, sd = runs.mean_and_sd(training_seconds)
        values = {
            **row_name(stream, runs, "seconds"),
            "training_seconds_mean": mean,
            "training_seconds_sd": sd,
            **{key(name, "seconds_mean"): runs.mean(seconds_in(name)) for name in PHASES},
            "paper_seconds": sum(theirs[runs.variant.label]) if theirs[runs.variant.label] else None,
        }
        rows.append(TableRow(values))
    return Table(f"{title}: seconds", (*SECOND_COLUMNS, Column("paper", seconds_text)), rows, (SECOND_NOTE,))


def paper_seconds(method: str | None, paper: Mapping[str, Any]) -> list[float | int]:
    gem, own = paper.get("gem", {}), paper.get(method or "", {})
    extra = [own[name] for name in ("seconds_saliency", "seconds_autoencoder") if name in own]
    return [gem["seconds"], *extra] if own and gem else []


def ratio_rows(stream: str, all_runs: Sequence[Runs], paper: Mapping[str, Any]) -> list[TableRow]:
    gem, samc = (
        next((runs for runs in all_runs if runs.variant.paper == name and runs.records), None)
        for name in ("gem", "samc")
    )
    ours = ratios(gem, samc) if gem and samc else {}
    theirs = paper_ratios(paper)
    return [
        TableRow(
            {"stream": stream, "part": "proportions", "method": name, "ours": ours.get(name), "paper": theirs.get(name)}
        )
        for name in RATIOS
    ]


def ratios(gem: Runs, samc: Runs) -> dict[str, float]:
    """Of the means over seeds."""
    whole, salient = (fmean(map(weight("bytes per image"), runs.records.values())) for runs in (gem, samc))
    model, count = (fmean(map(weight(name), gem.records.values())) for name in ("model", "images kept"))
    autoencoder = fmean(map(weight("autoencoder"), samc.records.values()))
    before, after = (fmean(map(training_seconds, runs.records.values())) for runs in (gem, samc))
    extra = sum(fmean(map(seconds_in(name), samc.records.values())) for name in ("saliency", "autoencoder"))
    return {
        RATIOS[0]: 1 - salient / whole,
        RATIOS[1]: 1 - (model + count * salient + autoencoder) / (model + count * whole),
        RATIOS[2]: extra / before,
        RATIOS[3]: after / before - 1,
    }


def paper_ratios(paper: Mapping[str, Any]) -> dict[str, float]:
    """The two that the paper states, and the saving on images that its megabytes give."""
    if not paper:
        return {}
    return {
        RATIOS[0]: 1 - paper["samc"]["images_mb"] / paper["gem"]["images_mb"],
        RATIOS[1]: paper["ratios"]["memory_saving"],
        RATIOS[2]: paper["ratios"]["extra_time"],
    }


def weights(record: RunRecord) -> dict[str, float]:
    """The bytes that a run keeps: its model, its images, its autoencoder; and what an image takes."""
    classes = sum(len(task) for task in record.fingerprint["class_order"])
    count = images(record)
    return {
        "model": float(model_bytes(classes, record.fingerprint["image_shape"][0])),
        "images": float(memory_bytes(record)),
        "autoencoder": float(record.memory["bytes_by_part"].get("autoencoder", 0)),
        "images kept": float(count),
        "bytes per image": memory_bytes(record) / count if count else 0.0,
    }


@cache
def model_bytes(classes: int, channels: int) -> int:
    """A record does not weigh the network itself; one of its size does."""
    parts = ReducedResNet18(channels), Heads(WIDTHS[-1], classes)
    return sum(tensor.nbytes for part in parts for tensor in (*part.parameters(), *part.buffers()))


def weight(name: str) -> Measure:
    return lambda record: weights(record)[name]


def seconds_in(phase: str) -> Measure:
    return lambda record: record.seconds.get(phase, 0.0)


def training_seconds(record: RunRecord) -> float:
    return record.seconds["total"] - record.seconds.get("evaluation", 0.0)


def row_name(stream: str, runs: Runs, part: str) -> dict[str, Any]:
    return {"stream": stream, "part": part, "method": runs.variant.label, **runs.counts}
