"""What a table or figure is made of: its variants, its streams, its seeds, and the jobs that follow from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from samc.config import ROTATED
from samc.experiments.jobs import Job, make_job

STREAMS = ("split-cifar100", "split-cifar10", "split-mini-imagenet")
# in the order in which they are learnt: what matters most is known first
EMBEDDED = "split-synthetic"
DOMAIN_STREAMS = ("split-cifar100-domains", f"{ROTATED}split-cifar10")
ROTATED_EMBEDDED = f"{ROTATED}{EMBEDDED}"
SEEDS = (0, 1, 2, 3, 4)
QUICK_SEEDS = (0, 1)
QUICK: dict[str, Any] = {"n_tasks": 3, "samples_per_task": 200}
QUICK_METHODS: dict[str, dict[str, Any]] = {
    "eec": {"encoder_steps": 50},
    "ewc": {"fisher_images": 30},
}
# what a quick run cuts down: it shows that everything works, not which method is best


@dataclass(frozen=True)
class Variant:
    """A row of a table or a line of a figure: a method and the settings that make it this one.

    `paper` is its key among the paper's numbers, None for what the paper does not have; `at` is its place on a
    figure's axis, and `line` what it is called without that place; `against` is the label of the variant that it is
    compared with, seed by seed.
    """

    label: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    paper: str | None = None
    at: float | None = None
    preset: str = "paper"
    line: str = ""
    against: str | None = None

    def run_settings(self, dataset: str, seed: int, quick: bool) -> dict[str, Any]:
        """What the command line would be given. The embedded stream has its own preset, and a quick run few images.

        It has one for our best and for rivals as they are: the paper's SAMC, and rivals with our parts, keep theirs.
        """
        has_own = (self.model == "samc") != (self.preset == "paper")
        preset = "auto" if dataset in (EMBEDDED, ROTATED_EMBEDDED) and has_own else self.preset
        cuts = {**QUICK, **QUICK_METHODS.get(self.model, {})} if quick else {}
        return {"model": self.model, "seed": seed, "dataset": dataset, "preset": preset, **cuts, **self.settings}


Key = tuple[str, Variant, int]
# of one run of an item: its stream, its variant, its seed


@dataclass(frozen=True)
class Item:
    """A table or figure; `extras` names what its runs leave in addition to a record's numbers."""

    name: str
    what: str
    variants: Callable[[str], tuple[Variant, ...]]
    streams: tuple[str, ...] = STREAMS
    settings: dict[str, Any] = field(default_factory=dict)
    most_seeds: int | None = None
    extras: dict[str, bool] = field(default_factory=dict)
    embedded: str = EMBEDDED  # the stream of a quick run

    def jobs(
        self,
        streams: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        models: Sequence[str] | None = None,
        quick: bool = False,
        rows: Sequence[str] = (),
    ) -> dict[Key, Job]:
        """Every run that the item needs, in the order in which to learn them; of some rows, if any are named."""
        jobs = {}
        numbers = tuple(seeds or (QUICK_SEEDS if quick else SEEDS))[: self.most_seeds]
        for stream in self.chosen_streams(streams, quick):
            named = named_rows(self.variants(stream), rows) if rows else self.variants(stream)
            variants = [variant for variant in named if models is None or variant.model in models]
            for variant, seed in product(variants, numbers):
                settings = {**variant.run_settings(stream, seed, quick), **self.settings}
                jobs[stream, variant, seed] = make_job(settings, **self.extras)
        return jobs

    def chosen_streams(self, streams: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
        """Those of the item's streams that are asked for; a quick run has its own."""
        return (self.embedded,) if quick else tuple(name for name in self.streams if streams is None or name in streams)


def named_rows(variants: Sequence[Variant], names: Sequence[str]) -> list[Variant]:
    """The rows that have these names; a name that no row has stands for all rows that contain it."""
    chosen = set()
    for name in map(str.casefold, names):
        labels = {variant.label for variant in variants if name in variant.label.casefold()}
        chosen |= {label for label in labels if label.casefold() == name} or labels
    return [variant for variant in variants if variant.label in chosen]


def on_every_stream(*variants: Variant) -> Callable[[str], tuple[Variant, ...]]:
    """The same variants, whichever stream is asked for."""
    return lambda stream: variants
