"""The runs of class- and domain-incremental learning: our best and its rivals, at equal bytes for all of a stream."""

from collections.abc import Callable
from typing import Any

from samc.experiments.specification import EMBEDDED, ROTATED_EMBEDDED, Variant

RAW_IMAGES = {"split-mini-imagenet": 84 * 84 * 3 + 1}
# bytes of one with its label, where it is larger than one of 32x32
MORE = 1_000
BUDGETS = {"split-cifar100": (200, MORE), EMBEDDED: (50,), ROTATED_EMBEDDED: (50,)}
# raw images whose bytes the memory has, for all tasks together; 200 of any other stream
ER_ACE: dict[str, Any] = {"batch_classes": "batch", "replay_weight": 1.0, "replay_current": True}
# Caccia et al. 2022: two means of equal weight, and a memory of all that came
BEST = "samc, best"
# at these budgets it stores whole pictures and is ER with the same preset, bit for bit: one row is for both
CLASS_ROWS = (
    Variant(BEST, "samc", preset="best"),
    Variant("er", "er"),
    Variant("er-ace", "er", ER_ACE),
    Variant("der++", "der"),
    Variant("icarl", "icarl"),
    Variant("gem", "gem"),
    Variant("finetune: no memory", "finetune"),
    Variant("joint: every image kept", "joint"),
)
DOMAIN_ROWS = (
    *(row for row in CLASS_ROWS if row.label not in ("icarl", "er-ace")),
    Variant("lwf", "lwf"),
    Variant("ewc", "ewc"),
)


def rows(scenario: str, variants: tuple[Variant, ...]) -> Callable[[str], tuple[Variant, ...]]:
    """Every row at every budget of a stream."""

    def on(stream: str) -> tuple[Variant, ...]:
        budgets = [count * RAW_IMAGES.get(stream, 32 * 32 * 3 + 1) for count in BUDGETS.get(stream, (200,))]
        return tuple(at_budget(row, scenario, nbytes) for nbytes in budgets for row in variants)

    return on


def at_budget(row: Variant, scenario: str, nbytes: int) -> Variant:
    settings = {**row.settings, "scenario": scenario, "memory_bytes": str(nbytes)}
    label = f"{row.label}, {nbytes:,} bytes"
    return Variant(label, row.model, settings, at=float(nbytes), preset=row.preset, line=row.label)


class_incremental = rows("class", CLASS_ROWS)
domain_incremental = rows("domain", DOMAIN_ROWS)
