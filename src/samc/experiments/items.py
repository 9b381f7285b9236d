"""The paper's tables and figures as specifications: which runs each needs, on which streams, with which seeds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from samc.config import presets
from samc.errors import unknown
from samc.experiments.jobs import Job, job

STREAMS = ("split-cifar100", "split-cifar10", "split-mini-imagenet")
# in the order in which they are learnt: what matters most is known first
EMBEDDED = "split-synthetic"
SEEDS = (0, 1, 2, 3, 4)
QUICK_SEEDS = (0, 1)
QUICK: dict[str, Any] = {"n_tasks": 3, "samples_per_task": 200}
QUICK_METHODS: dict[str, dict[str, Any]] = {
    "samc": {"autoencoder_steps": 30},
    "eec": {"encoder_steps": 50},
    "ewc": {"fisher_images": 30},
}
# what a quick run cuts down: it shows that everything works, not which method is best

PAPER = {
    "codec": "coo",
    "accounting": "values",
    "replay": "gem",
    "completion": "telea+autoencoder",
    "autoencoder_output": "correction",
}
# SAMC as the paper counts and completes. The correction stands for pretrained weights that were never released, and its
# other form is a row of Table 2
THRESHOLDS = (0.7, 0.6, 0.8, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.9)
SIZES = (10, 20, 30, 40, 50)


@dataclass(frozen=True)
class Variant:
    """A row of a table or a line of a figure: a method and the settings that make it this one.

    `paper` is its key in the paper's figures, None for what the paper does not have; `at` its place on a figure's axis.
    """

    label: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    paper: str | None = None
    at: float | None = None
    preset: str = "paper"

    def given(self, dataset: str, seed: int, quick: bool) -> dict[str, Any]:
        """What the command line would be given. The embedded stream has but one preset, and a quick run few images."""
        where = {"dataset": dataset, "preset": "auto" if dataset == EMBEDDED else self.preset}
        less = {**QUICK, **QUICK_METHODS.get(self.model, {})} if quick else {}
        return {"model": self.model, "seed": seed, **where, **less, **self.settings}


def samc(label: str, paper: str | None = None, **settings: Any) -> Variant:
    """The paper's SAMC, but for some settings."""
    return Variant(label, "samc", {**PAPER, **settings}, paper)


SAMC = samc("samc", "samc")
RAW = tuple(
    Variant(model, model, {}, model) for model in ("gem", "er", "finetune", "ewc", "lwf", "icarl", "mer", "ebm", "eec")
)
BEST = Variant("samc, our default", "samc", {}, preset="best")
COO = samc("samc, in true bytes", accounting="bytes")
TABLE1 = (SAMC, *RAW, samc("samc, ER's rule", replay="er"), COO, BEST)
TABLE2 = (
    samc("zero", "zero", completion="zero"),
    samc("rule", "rule", completion="telea"),
    samc("autoencoder", "autoencoder", completion="autoencoder"),
    samc("rule+autoencoder", "rule+autoencoder"),
    samc("rule+autoencoder, whole image", autoencoder_output="whole"),
)
PACKED = tuple(Variant(f"{model}, webp:20", model, {"codec": "webp:20"}) for model in ("er", "gem", "icarl", "mer"))
EQUAL_BYTES = (
    BEST,
    Variant("er, jpeg:5", "er", {"codec": "jpeg:5"}),
    *PACKED,
    COO,
    samc("samc, cam, ER's rule", accounting="bytes", codec="cam", replay="er"),
    *(each for each in RAW if each.model in ("gem", "er", "icarl", "mer")),
)


@dataclass(frozen=True)
class Item:
    """A table or figure; `asked` has what its runs are to leave besides a record's figures."""

    name: str
    what: str
    variants: Callable[[str], tuple[Variant, ...]]
    streams: tuple[str, ...] = STREAMS
    settings: dict[str, Any] = field(default_factory=dict)
    most_seeds: int | None = None
    asked: dict[str, bool] = field(default_factory=dict)

    def jobs(
        self,
        streams: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        models: Sequence[str] | None = None,
        quick: bool = False,
    ) -> dict[tuple[str, Variant, int], Job]:
        """Every run that the item needs, by stream, variant and seed, in the order in which to learn them."""
        found = {}
        chosen = (EMBEDDED,) if quick else tuple(each for each in self.streams if streams is None or each in streams)
        numbers = tuple(seeds or (QUICK_SEEDS if quick else SEEDS))[: self.most_seeds]
        for stream in chosen:
            rows = [each for each in self.variants(stream) if models is None or each.model in models]
            for each, seed in product(rows, numbers):
                given = {**each.given(stream, seed, quick), **self.settings}
                found[stream, each, seed] = job(given, **self.asked)
        return found


def always(*variants: Variant) -> Callable[[str], tuple[Variant, ...]]:
    return lambda stream: variants


def by_threshold() -> tuple[Variant, ...]:
    return tuple(Variant(f"{mu:g}", "samc", {**PAPER, "threshold": mu}, "samc", mu) for mu in THRESHOLDS)


def by_size() -> tuple[Variant, ...]:
    return tuple(
        replace(each, label=f"{each.model}, {size}", settings={**each.settings, "buffer_size": size}, at=float(size))
        for size in SIZES
        for each in (SAMC, RAW[0])
    )


CHANGES: dict[str, dict[str, Any]] = {
    "as in Table 1": {},
    "explains the predicted class": {"saliency_target": "predicted"},
    "looks in train mode": {"saliency_mode": "train"},
    "both, as the authors' code does": {"saliency_target": "predicted", "saliency_mode": "train"},
    "margin 0": {"memory_strength": 0.0},
    "margin 1": {"memory_strength": 1.0},
    "lr 0.03": {"lr": 0.03},
    "lr 0.3": {"lr": 0.3},
    "counted in bytes": {"accounting": "bytes"},
    "rule alone": {"completion": "telea"},
    "autoencoder paints the whole image": {"autoencoder_output": "whole"},
    "autoencoder learns ten times as long": {"autoencoder_steps": 1000},
    "a sample instead of the newest images": {"keeps": "sample"},
    "ER's rule": {"replay": "er"},
}
HALF = {"n_tasks": 10}
# of Split CIFAR-100: a quarter of the time of all twenty tasks


def of_one_change(stream: str) -> tuple[Variant, ...]:
    """The paper's SAMC, and it again with one thing changed at a time."""
    fewer: dict[str, Any] = HALF if stream == "split-cifar100" else {}
    return tuple(samc(label, **fewer, **change) for label, change in CHANGES.items())


def of_the_grid(stream: str) -> tuple[Variant, ...]:
    """Every combination of the values that the paper's appendix names for a method; on the embedded stream its lr."""
    preset = "embedded" if stream == EMBEDDED else "paper"
    found = []
    for model, entries in presets()[preset][stream].items():
        searched = {name: entry["grid"] for name, entry in entries.items() if len(entry["grid"]) > 1}
        fixed = PAPER if model == "samc" else {}
        searched.pop("completion", None)  # Table 2 has them
        searched = {"lr": searched["lr"]} if stream == EMBEDDED else searched
        for values in product(*searched.values()):
            point = dict(zip(searched, values, strict=True))
            if point.get("threshold", 0) >= 1:
                continue  # the paper's grid has 1.0, where nothing would be kept
            label = ", ".join((model, *(f"{name} {value:g}" for name, value in point.items())))
            found.append(Variant(label, model, {**fixed, **point}))
    return tuple(found)


LISTED = (
    Item("table1", "all methods: ACC and BWT", always(*TABLE1)),
    Item("table2", "four ways to complete an image", always(*TABLE2)),
    Item("equal-bytes", "SAMC and rivals that compress, at equal true bytes", always(*EQUAL_BYTES)),
    Item("first-task", "the first task's accuracy after every task", always(SAMC, *RAW, BEST)),
    Item("threshold", "ACC by the threshold on saliency", always(*by_threshold()), most_seeds=3),
    Item(
        "images-stored",
        "images in the room of ten, by threshold",
        always(*by_threshold()),
        streams=("split-cifar100",),
        most_seeds=3,
    ),
    Item("memory-size", "ACC by the size of the memory", always(*by_size()), most_seeds=3),
    Item(
        "table3",
        "bytes, and seconds by phase, of the first two tasks",
        always(RAW[0], samc("samc", "samc", threshold=0.6)),
        streams=("split-mini-imagenet",),
        settings={"n_tasks": 2},
    ),
    Item(
        "gallery",
        "truth, saliency, kept pixels and completed image",
        always(SAMC),
        most_seeds=1,
        asked={"pictures": True},
    ),
    Item(
        "theory",
        "how far Lemmas 1 and 2 and Theorem 1 hold",
        always(SAMC),
        streams=("split-cifar100",),
        most_seeds=1,
        asked={"diagnose": True},
    ),
    Item(
        "variants",
        "the paper's SAMC on up to ten tasks, one thing changed at a time",
        of_one_change,
        streams=("split-cifar100", "split-cifar10"),
        most_seeds=3,
    ),
    Item(
        "grid",
        "the paper's grids, judged on training images held out",
        of_the_grid,
        settings={"tested_on": "held-out"},
        most_seeds=1,
    ),
)
ITEMS = {item.name: item for item in LISTED}
ALL = tuple(name for name in ITEMS if name not in ("variants", "grid"))
# what the paper has none of, and a search of hundreds of runs: they are asked for by name


def items(names: Iterable[str], quick: bool = False) -> list[Item]:
    """The items by name; `all` is every one of them, the grid only where it is small."""
    found: list[Item] = []
    for name in names:
        if name not in ("all", *ITEMS):
            raise unknown("item", name, ("all", *ITEMS))
        found += [ITEMS[each] for each in ((*ALL, "grid") if quick else ALL)] if name == "all" else [ITEMS[name]]
    return list({item.name: item for item in found}.values())


def known_streams(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in STREAMS:
            raise unknown("dataset", name, STREAMS)
    return tuple(names)
