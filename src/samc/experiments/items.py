"""The tables and figures of the paper, and a few of our own: which runs each of them needs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from samc.errors import unknown
from samc.experiments.scenarios import class_incremental, domain_incremental
from samc.experiments.specification import (
    DOMAIN_STREAMS,
    EMBEDDED,
    ROTATED_EMBEDDED,
    STREAMS,
    Item,
    Variant,
    on_every_stream,
)
from samc.experiments.worth import PARTS, RIVALS_WITH_PARTS, frontier, saliency
from samc.presets import presets

STREAM_ALONE: dict[str, Any] = {
    "saliency_target": "label",
    "saliency_mode": "eval",
    "autoencoder": "stream",
    "autoencoder_output": "correction",
    "autoencoder_steps": 100,
}
# SAMC without images from outside: the autoencoder begins as the rule's picture and learns a correction to it. It has
# the most records, is the nearest to the paper's figures on Split CIFAR-100, and is what is changed one thing at a time
THRESHOLDS = (0.7, 0.6, 0.8, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.9)
SIZES = (10, 20, 30, 40, 50)


def alone(label: str, paper: str | None = None, **settings: Any) -> Variant:
    """The paper's SAMC from the stream alone, with some settings changed."""
    return Variant(label, "samc", {**STREAM_ALONE, **settings}, paper)


SAMC = Variant("samc", "samc", {}, "samc")
TEXT = Variant("samc, the paper's text", "samc", {}, "samc", preset="text")
ALONE = alone("samc, from the stream alone", "samc")
RAW = tuple(
    Variant(model, model, {}, model) for model in ("gem", "er", "finetune", "ewc", "lwf", "icarl", "mer", "ebm", "eec")
)
GEM = RAW[0]
BEST = Variant("samc, our default", "samc", {}, preset="best")
COO = alone("samc, from the stream alone, in true bytes", accounting="bytes")
TABLE1 = (SAMC, TEXT, ALONE, *RAW, alone("samc, from the stream alone, ER's rule", replay="er"), COO, BEST)
PRETRAINED = {"autoencoder": "pretrained", "autoencoder_output": "whole", "autoencoder_steps": 0}
TABLE2 = (
    alone("zero", "zero", completion="zero"),
    alone("rule", "rule", completion="telea"),
    alone("autoencoder", "autoencoder", completion="autoencoder"),
    alone("rule+autoencoder", "rule+autoencoder"),
    alone("autoencoder, pretrained", "autoencoder", completion="autoencoder", **PRETRAINED),
    alone("rule+autoencoder, pretrained", "rule+autoencoder", **PRETRAINED),
)
WEBP = tuple(Variant(f"{model}, webp:20", model, {"codec": "webp:20"}) for model in ("er", "gem", "icarl", "mer"))
EQUAL_BYTES = (
    BEST,
    *RIVALS_WITH_PARTS,
    Variant("er, jpeg:5", "er", {"codec": "jpeg:5"}),
    *WEBP,
    COO,
    alone("samc, cam, ER's rule", accounting="bytes", codec="cam", replay="er"),
    *(variant for variant in RAW if variant.model in ("gem", "er", "icarl", "mer")),
)
BY_THRESHOLD = tuple(replace(alone(f"{mu:g}", "samc", threshold=mu), at=mu) for mu in THRESHOLDS)
BY_SIZE = tuple(
    replace(
        variant,
        label=f"{variant.model}, {size}",
        settings={**variant.settings, "buffer_size": size},
        at=float(size),
    )
    for size in SIZES
    for variant in (ALONE, GEM)
)


RELEASED_SALIENCY = {"saliency_target": "predicted", "saliency_mode": "train"}
CHANGES: dict[str, dict[str, Any]] = {
    "from the stream alone, as in Table 1": {},
    "explains the predicted class": {"saliency_target": "predicted"},
    "saliency in train mode": {"saliency_mode": "train"},
    "both, as the authors' code does": RELEASED_SALIENCY,
    "train mode, statistics put back": {"saliency_mode": "batch"},
    "predicted class, train mode, statistics put back": {"saliency_target": "predicted", "saliency_mode": "batch"},
    "margin 0": {"memory_strength": 0.0},
    "margin 1": {"memory_strength": 1.0},
    "lr 0.03": {"lr": 0.03},
    "lr 0.3": {"lr": 0.3},
    "counted in bytes": {"accounting": "bytes"},
    "rule alone": {"completion": "telea"},
    "autoencoder paints the whole image": {"autoencoder_output": "whole"},
    "autoencoder learns ten times as long": {"autoencoder_steps": 1000},
    "pretrained autoencoder, left as it is": PRETRAINED,
    "the same, and the released saliency": PRETRAINED | RELEASED_SALIENCY,
    "a sample instead of the newest images": {"keeps": "sample"},
    "ER's rule": {"replay": "er"},
}
ONE_BY_ONE = {"replay_one_by_one": True}
RELEASED = {
    "er": ONE_BY_ONE | {"replay_current": True},
    "mer": ONE_BY_ONE | {"replay_current": True, "meta_statistics": True},
}
# as the SAMC authors' compiled files have them, but for one reservoir of all tasks (docs/methods.md)
RIVALS_AS_RELEASED = tuple(
    variant
    for model, settings in RELEASED.items()
    for variant in (
        *(row for row in RAW if row.model == model),
        Variant(f"{model}, replayed one by one", model, ONE_BY_ONE, against=model),
        Variant(f"{model}, as released", model, settings, against=model),
    )
)
README_THRESHOLD = {"split-cifar100": {"threshold": 0.6}}
# of the authors' command; on the other streams the appendix's
HALF = {"n_tasks": 10}
# of Split CIFAR-100: a quarter of the time of all twenty tasks


def as_released(stream: str) -> tuple[Variant, ...]:
    """SAMC as the authors' readable source has it, by Telea's rule alone; ER and MER where they have been compared."""
    settings = {"completion": "telea", **README_THRESHOLD.get(stream, {})}
    ours = SAMC, Variant("samc, as released", "samc", settings, "samc", against="samc")
    return (*ours, *RIVALS_AS_RELEASED) if stream in ("split-cifar100", EMBEDDED) else ours


def one_change_each(stream: str) -> tuple[Variant, ...]:
    """The paper's SAMC from the stream alone, and it again with one thing changed at a time."""
    tasks: dict[str, Any] = HALF if stream == "split-cifar100" else {}
    return tuple(alone(label, **tasks, **change) for label, change in CHANGES.items())


def grid_points(stream: str) -> tuple[Variant, ...]:
    """Every combination of the values that the paper's appendix names for a method; on the embedded stream its lr."""
    preset = "embedded" if stream == EMBEDDED else "paper"
    points = []
    for model, entries in presets()[preset][stream].items():
        grids = {name: entry["grid"] for name, entry in entries.items() if len(entry["grid"]) > 1}
        grids.pop("completion", None)  # Table 2 has them
        grids = {"lr": grids["lr"]} if stream == EMBEDDED else grids
        for values in product(*grids.values()):
            point = dict(zip(grids, values, strict=True))
            if point.get("threshold", 0) >= 1:
                continue  # the paper's grid has 1.0, where nothing would be kept
            label = ", ".join((model, *(f"{name} {value:g}" for name, value in point.items())))
            points.append(Variant(label, model, point))
    return tuple(points)


LISTED = (
    Item("table1", "all methods: ACC and BWT", on_every_stream(*TABLE1)),
    Item("table2", "four ways to complete an image", on_every_stream(*TABLE2)),
    Item("equal-bytes", "SAMC and rivals that compress, at equal true bytes of memory", on_every_stream(*EQUAL_BYTES)),
    Item("first-task", "the first task's accuracy after every task", on_every_stream(ALONE, *RAW, BEST)),
    Item(
        "threshold",
        "ACC of SAMC from the stream alone by the threshold on saliency",
        on_every_stream(*BY_THRESHOLD),
        most_seeds=3,
    ),
    Item(
        "images-stored",
        "images of SAMC from the stream alone in the room of ten, by threshold",
        on_every_stream(*BY_THRESHOLD),
        streams=("split-cifar100",),
        most_seeds=3,
    ),
    Item(
        "memory-size",
        "ACC by the size of the memory: SAMC from the stream alone, and GEM",
        on_every_stream(*BY_SIZE),
        most_seeds=3,
    ),
    Item(
        "table3",
        "bytes, and seconds by phase, of the first two tasks",
        on_every_stream(GEM, alone("samc, from the stream alone, μ 0.6", "samc", threshold=0.6)),
        streams=("split-mini-imagenet",),
        settings={"n_tasks": 2},
    ),
    Item(
        "gallery",
        "truth, saliency, kept pixels and completed image",
        on_every_stream(ALONE),
        most_seeds=1,
        extras={"pictures": True},
    ),
    Item(
        "theory",
        "how far Lemmas 1 and 2 and Theorem 1 hold",
        on_every_stream(ALONE),
        streams=("split-cifar100",),
        most_seeds=1,
        extras={"diagnose": True},
    ),
    Item(
        "variants",
        "the paper's SAMC from the stream alone on up to ten tasks, one thing changed at a time",
        one_change_each,
        streams=("split-cifar100", "split-cifar10"),
        most_seeds=3,
    ),
    Item(
        "parts",
        "what each part of SAMC's best preset gives, with JPEGs that are smoothed where nothing is salient",
        on_every_stream(*PARTS),
        streams=("split-cifar100",),
    ),
    Item(
        "released",
        "SAMC, ER and MER as the authors' code has them",
        as_released,
    ),
    Item(
        "frontier",
        "ACC by bytes per task",
        on_every_stream(*frontier(BEST, GEM, COO)),
        streams=("split-cifar100",),
        most_seeds=3,
    ),
    Item(
        "saliency",
        "what saliency is worth, by budget",
        on_every_stream(*saliency(BEST)),
        streams=("split-cifar100",),
    ),
    Item(
        "class-incremental",
        "no task at test: one head of all classes, at equal bytes of memory for all tasks",
        class_incremental,
    ),
    Item(
        "domain-incremental",
        "the same classes in every task, at equal bytes for all tasks",
        domain_incremental,
        streams=DOMAIN_STREAMS,
        embedded=ROTATED_EMBEDDED,
    ),
    Item(
        "grid",
        "the paper's grids, judged on training images held out",
        grid_points,
        settings={"tested_on": "held-out"},
        most_seeds=1,
    ),
)
ITEMS = {item.name: item for item in LISTED}
BY_NAME = ("variants", "parts", "released", "frontier", "saliency", "class-incremental", "domain-incremental", "grid")
# what the paper has none of, and a search of hundreds of runs: they are asked for
ALL = tuple(name for name in ITEMS if name not in BY_NAME)


def select_items(names: Iterable[str], quick: bool = False) -> list[Item]:
    """The items by name, each once; `all` is every one of them, the grid only where it is small."""
    chosen: list[str] = []
    for name in names:
        if name not in ("all", *ITEMS):
            raise unknown("item", name, ("all", *ITEMS))
        chosen += [name] if name != "all" else [*ALL, "grid"] if quick else ALL
    return [ITEMS[name] for name in dict.fromkeys(chosen)]


def check_streams(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, if each is a stream of an item."""
    for name in names:
        if name not in (*STREAMS, *DOMAIN_STREAMS):
            raise unknown("dataset", name, (*STREAMS, *DOMAIN_STREAMS))
    return tuple(names)
