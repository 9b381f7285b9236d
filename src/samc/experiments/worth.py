"""What SAMC's best preset is worth: each of its parts, each budget of bytes, and saliency itself."""

from dataclasses import replace
from typing import Any

from samc.config import before_they_were
from samc.experiments.specification import Variant
from samc.learners.settings import KeepingSettings
from samc.memory import Budget, codec_for

NO_PART: dict[str, Any] = {"keeps": "sample", **before_they_were(KeepingSettings)}
# as it was before there were any; a sample is kept in every row, and no part of this question
AVERAGE = {"average": 0.99}
FLIPS = {"augment": "flip"}
REPLAY = {"replay_size": 30, "replay_weight": 1.0}
CURRENT = {"replay_current": True}
HELD = {"distil": 1.0}
ALL_PARTS = NO_PART | AVERAGE | FLIPS | REPLAY | CURRENT | HELD


SMOOTHED = "focus:2:jpeg:10"


def with_parts(label: str, parts: dict[str, Any], against: str | None = None) -> Variant:
    """SAMC with exactly these parts, and one codec. GEM's rule, which the embedded stream has, cannot use some."""
    return Variant(label, "samc", {"replay": "er", "codec": SMOOTHED, **parts}, preset="best", against=against)


def only(name: str, part: dict[str, Any]) -> Variant:
    return with_parts(f"only {name}", NO_PART | part, "no part")


def all_but(name: str, part: dict[str, Any]) -> Variant:
    return with_parts(f"all but {name}", ALL_PARTS | {setting: NO_PART[setting] for setting in part}, "all parts")


PARTS = (
    with_parts("no part", NO_PART),
    only("the average", AVERAGE),
    only("flips", FLIPS),
    only("30 replayed, weight 1", REPLAY),
    only("the current task's memory", CURRENT),
    only("old heads held, and the average that they are held to", HELD | AVERAGE),
    with_parts("all parts", ALL_PARTS, "no part"),
    all_but("the average, and old heads held, which needs it", AVERAGE | HELD),
    all_but("flips", FLIPS),
    all_but("30 replayed, weight 1", REPLAY),
    all_but("the current task's memory", CURRENT),
    all_but("old heads held", HELD),
)

TAKES: dict[str, tuple[dict[str, Any], ...]] = {
    "er": (AVERAGE, FLIPS, REPLAY, CURRENT, HELD),
    "der": (AVERAGE, FLIPS, {"replay_size": 30}, HELD),
    "mer": (AVERAGE, FLIPS, REPLAY, CURRENT, HELD),
    "icarl": (AVERAGE, FLIPS, REPLAY),
    "gem": (AVERAGE, FLIPS, {"replay_size": 30}, HELD),
}
# what a rival can use of the parts; the rest has no meaning for it, or is its own already
RIVALS_WITH_PARTS = tuple(
    Variant(
        f"{model}, with the parts",
        model,
        {"codec": "auto", **{name: value for part in parts for name, value in part.items()}},
        preset="best",
    )
    for model, parts in TAKES.items()
)

BUDGETS = (256, 1_024, 3_073, 10_000, 30_730, 100_000, 300_000)
# bytes per task
RAW_IMAGE = 3_073
# bytes, with its label: a budget below holds none
COSTLY = 100_000
# GEM's rule takes every remembered image in every step: larger memories cost too much time


def budget(nbytes: int) -> dict[str, Any]:
    """So many bytes per task. Ten raw images are the budget that every other table has, and are asked for likewise."""
    return {} if nbytes == 10 * RAW_IMAGE else {"memory_bytes": f"{nbytes}/task"}


def along_budgets(
    name: str, line: Variant, *, least: int = 0, most: int | None = None, **settings: Any
) -> list[Variant]:
    """A method at every budget that holds an image."""
    return [
        Variant(
            f"{name}, {nbytes:,} bytes",
            line.model,
            {**line.settings, **settings, **budget(nbytes)},
            at=float(nbytes),
            preset=line.preset,
            line=name,
        )
        for nbytes in BUDGETS
        if least <= nbytes and (most is None or nbytes <= most)
    ]


def frontier(best: Variant, gem: Variant, alone: Variant) -> list[Variant]:
    """Lines of ACC by bytes, the best first; and what needs no budget, as levels: all images kept, and none."""
    er, er_with_parts = Variant("er", "er", NO_PART), Variant("er", "er", preset="best")
    return [
        *along_budgets("SAMC, best", best),
        *along_budgets("ER, small JPEGs, with the parts", er_with_parts, codec="auto"),
        *along_budgets("ER, small JPEGs", er, codec="auto"),
        *along_budgets("ER, raw images, with the parts", er_with_parts, least=RAW_IMAGE, codec="raw"),
        *along_budgets("ER, raw images", er, least=RAW_IMAGE, codec="raw"),
        *along_budgets("GEM, raw images", gem, least=RAW_IMAGE, most=COSTLY, codec="raw"),
        *along_budgets("SAMC from the stream alone, in true bytes", alone, least=RAW_IMAGE, most=COSTLY, codec="coo"),
        Variant("joint: every image kept", "joint", {"lr": 0.1}, line="joint: every image kept"),
        Variant("finetune, lr 0.1: no memory", "finetune", {"lr": 0.1}, line="finetune, lr 0.1: no memory"),
    ]


PLAIN = "plain JPEG"
USES_OF_SALIENCY = {"smooth where nothing is salient": "focus:2:{plain}"}
# each is a codec, and is compared with the plain one at the same budget
SALIENCY_BUDGETS = (256, 1_024, 3_073, 30_730)
IMAGE_SHAPE = (3, 32, 32)


def saliency(best: Variant) -> list[Variant]:
    """The best preset with each use of saliency, and with none, by budget."""
    variants = []
    for nbytes in SALIENCY_BUDGETS:
        plain = codec_for(Budget(nbytes), IMAGE_SHAPE, salient=False)
        for name, codec in {PLAIN: "{plain}", **USES_OF_SALIENCY}.items():
            settings = {**best.settings, "codec": codec.format(plain=plain), **budget(nbytes)}
            against = None if name == PLAIN else f"{PLAIN}, {nbytes:,} bytes"
            made = replace(best, label=f"{name}, {nbytes:,} bytes", settings=settings)
            variants.append(replace(made, at=float(nbytes), line=name, against=against))
    return variants
