"""Table 3: what a run keeps in bytes and takes in seconds, phase by phase, and GEM and SAMC in proportion."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from samc.experiments.items import Item
from samc.models import ReducedResNet18
from samc.record import RunRecord
from samc.report.paper import published
from samc.report.runs import Found, Runs, by_stream, memory_bytes
from samc.report.sheet import NOTHING, Column, Row, Section, number, with_deviation

PHASES = (
    "current gradient", "gradients", "projection", "saliency", "encoding", "completion", "autoencoder"
)  # fmt: skip
# the last four are SAMC's own
BYTES = ("model", "images", "autoencoder", "images kept", "bytes an image")
BYTE_COLUMNS = (Column("method"), Column("seeds"), *map(Column, BYTES), Column("paper"))
SECOND_COLUMNS = (Column("method"), Column("seeds"), Column("training"), *map(Column, PHASES), Column("paper"))
RATIO_COLUMNS = (Column("SAMC against GEM"), Column("ours"), Column("paper"))
RATIOS = (
    "saved on images",
    "saved with model and autoencoder",
    "extra time, as the paper counts",
    "extra time, all of it",
)

BYTE_NOTE = (
    "True bytes, means over seeds. The model is the reduced ResNet-18 in float32 with its running statistics and an "
    "output for every class of these tasks; images are the episodic memory, positions and labels included; as in the "
    "paper SAMC's budget counts colours only. The paper's 44 MB are as much as a whole ResNet-18 takes, and its 413 "
    "and 137 MB of images are no memory of ten images a task: only its proportions compare, and both methods here "
    "fill the same budget, so that SAMC's saving shows as bytes an image."
)
SECOND_NOTE = (
    "Seconds, means over seeds; training is the total without tests. The current gradient alone is the first task's "
    "steps; later ones take it together with all past tasks' (gradients). On a GPU encoding goes on beside other "
    "phases, so that they need not add up; runs that shared a machine took longer than one alone would have."
)
RATIO_NOTE = (
    "Saved on images: bytes an image. With model and autoencoder: of all bytes, if SAMC kept as many images as GEM. "
    "Extra time as the paper counts it: saliency and autoencoder over GEM's training; all of it: SAMC's training over "
    "GEM's."
)


def sections(item: Item, found: Found) -> list[Section]:
    """Bytes, seconds and proportions of each stream."""
    made = []
    for stream, runs in by_stream(found).items():
        paper, title = published(item.name, stream), f"{item.name}, {stream}"
        made += [
            Section(f"{title}: bytes", BYTE_COLUMNS, [bytes_row(stream, each, paper) for each in runs], (BYTE_NOTE,)),
            Section(
                f"{title}: seconds", SECOND_COLUMNS, [seconds_row(stream, each, paper) for each in runs], (SECOND_NOTE,)
            ),
            Section(f"{title}: proportions", RATIO_COLUMNS, ratio_rows(stream, runs, paper), (RATIO_NOTE,)),
        ]
    return made


def bytes_row(stream: str, runs: Runs, paper: Mapping[str, Any]) -> Row:
    kept = {name: runs.mean(weight(name)) for name in BYTES}
    theirs = paper.get(runs.variant.paper or "", {})
    parts = {part: theirs[f"{part}_mb"] for part in ("model", "images", "autoencoder") if f"{part}_mb" in theirs}
    shown = [number(value, 1 if name == "images kept" else 0) for name, value in kept.items()]
    text = " + ".join(f"{value:g}" for value in parts.values()) + " MB" if parts else NOTHING
    raw = {f"{name.replace(' ', '_')}_mean": value for name, value in kept.items()}
    return Row(
        [runs.variant.label, runs.seeds, *shown, text],
        named(stream, runs, "bytes") | raw | {f"paper_{part}_mb": value for part, value in parts.items()},
    )


def seconds_row(stream: str, runs: Runs, paper: Mapping[str, Any]) -> Row:
    total = runs.over_seeds(training)
    phases = {name: runs.mean(seconds_in(name)) for name in PHASES}
    gem, own = paper.get("gem", {}), paper.get(runs.variant.paper or "", {})
    extra = [own[name] for name in ("seconds_saliency", "seconds_autoencoder") if name in own]
    theirs = [gem["seconds"], *extra] if own and gem else []
    shown = [
        runs.variant.label,
        runs.seeds,
        with_deviation(total.mean if total else None, total.sd if total else None, 1),
        *(number(value, 1) for value in phases.values()),
        " + ".join(f"{value:g}" for value in theirs) + " s" if theirs else NOTHING,
    ]
    raw = {
        "training_seconds_mean": total.mean if total else None,
        "training_seconds_sd": total.sd if total else None,
        **{f"{name.replace(' ', '_')}_seconds_mean": value for name, value in phases.items()},
        "paper_seconds": sum(theirs) if theirs else None,
    }
    return Row(shown, named(stream, runs, "seconds") | raw)


def ratio_rows(stream: str, runs: Sequence[Runs], paper: Mapping[str, Any]) -> list[Row]:
    gem, samc = (
        next((each for each in runs if each.variant.paper == name and each.records), None) for name in ("gem", "samc")
    )
    ours = ratios(gem, samc) if gem and samc else {}
    theirs = published_ratios(paper)
    return [
        Row(
            [name, share(ours.get(name)), share(theirs.get(name))],
            {
                "stream": stream,
                "part": "proportions",
                "method": name,
                "ours": ours.get(name),
                "paper": theirs.get(name),
            },
        )
        for name in RATIOS
    ]


def ratios(gem: Runs, samc: Runs) -> dict[str, float]:
    """Proportions of the means."""
    whole, salient = (fmean(map(weight("bytes an image"), runs.records.values())) for runs in (gem, samc))
    model, images = (fmean(map(weight(name), gem.records.values())) for name in ("model", "images kept"))
    autoencoder = fmean(map(weight("autoencoder"), samc.records.values()))
    before, after = (fmean(map(training, runs.records.values())) for runs in (gem, samc))
    own = sum(fmean(map(seconds_in(name), samc.records.values())) for name in ("saliency", "autoencoder"))
    return {
        RATIOS[0]: 1 - salient / whole,
        RATIOS[1]: 1 - (model + images * salient + autoencoder) / (model + images * whole),
        RATIOS[2]: own / before,
        RATIOS[3]: after / before - 1,
    }


def published_ratios(paper: Mapping[str, Any]) -> dict[str, float]:
    """The two that the paper states, and the saving on images that its megabytes give."""
    if not paper:
        return {}
    images = 1 - paper["samc"]["images_mb"] / paper["gem"]["images_mb"]
    return {
        RATIOS[0]: images,
        RATIOS[1]: paper["ratios"]["memory_saving"],
        RATIOS[2]: paper["ratios"]["extra_time"],
    }


def weighed(record: RunRecord) -> dict[str, float]:
    """What a run keeps: its model, its images, its autoencoder; and what an image takes."""
    classes = sum(len(task) for task in record.fingerprint["class_order"])
    count = sum(record.memory["images_per_task"])
    return {
        "model": float(model_bytes(classes, record.fingerprint["image_shape"][0])),
        "images": float(memory_bytes(record)),
        "autoencoder": float(record.memory["bytes_by_part"].get("autoencoder", 0)),
        "images kept": float(count),
        "bytes an image": memory_bytes(record) / count if count else 0.0,
    }


@cache
def model_bytes(classes: int, channels: int) -> int:
    """A record does not weigh the network itself; one of its size does."""
    network = ReducedResNet18(classes, channels)
    return sum(part.nbytes for part in (*network.parameters(), *network.buffers()))


def weight(name: str) -> Callable[[RunRecord], float]:
    return lambda record: weighed(record)[name]


def seconds_in(phase: str) -> Callable[[RunRecord], float]:
    return lambda record: record.seconds.get(phase, 0.0)


def training(record: RunRecord) -> float:
    return record.seconds["total"] - record.seconds.get("evaluation", 0.0)


def named(stream: str, runs: Runs, part: str) -> dict[str, Any]:
    return {
        "stream": stream,
        "part": part,
        "method": runs.variant.label,
        "seeds": len(runs.records),
        "seeds_asked": runs.asked,
    }


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{number(100 * value, 1)} %"
