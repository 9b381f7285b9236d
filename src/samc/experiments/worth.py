"""What SAMC's best preset is worth: each of its parts, each budget of bytes, and saliency itself."""

from dataclasses import replace
from typing import Any

from samc.experiments.specification import Variant

NO_PART: dict[str, Any] = {
    "keeps": "sample",  # in every row: it is no part of this question
    "average": 0.0,
    "augment": "none",
    "distil": 0.0,
    "replay_size": 0,
    "replay_weight": 0.0,
    "replay_current": False,
}
AVERAGE = {"average": 0.99}
FLIPS = {"augment": "flip"}
REPLAY = {"replay_size": 30, "replay_weight": 1.0}
CURRENT = {"replay_current": True}
HELD = {"distil": 0.5}
ALL_PARTS = NO_PART | AVERAGE | FLIPS | REPLAY | CURRENT | HELD


def with_parts(label: str, parts: dict[str, Any], against: str | None = None) -> Variant:
    """SAMC with exactly these parts. ER's rule is the best preset's; GEM's, on the embedded stream, cannot use some."""
    return Variant(label, "samc", {"replay": "er", **parts}, preset="best", against=against)


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

QUALITY = {256: 5, 1_024: 5, 3_073: 5, 10_000: 10, 30_730: 10, 100_000: 20, 300_000: 50}
# of JPEG, by bytes per task
RAW_IMAGE = 3_073
# bytes, with its label: a budget below holds none
COSTLY = 100_000
# GEM's rule takes every remembered image in every step: larger memories cost too much time


def budget(nbytes: int) -> dict[str, Any]:
    """So many bytes per task. Ten raw images are the budget that every other table has, and are asked for likewise."""
    return {} if nbytes == 10 * RAW_IMAGE else {"memory_bytes": f"{nbytes}/task"}


def along_budgets(
    name: str, line: Variant, images: str = "raw", least: int = 0, most: int | None = None
) -> list[Variant]:
    """A method at every budget that holds an image; the codec of its images may have the budget's quality in it."""
    points = []
    for nbytes, quality in QUALITY.items():
        if least <= nbytes and (most is None or nbytes <= most):
            settings = {**line.settings, "codec": images.format(quality=quality), **budget(nbytes)}
            label = f"{name}, {nbytes:,} bytes"
            points.append(Variant(label, line.model, settings, at=float(nbytes), preset=line.preset, line=name))
    return points


def frontier(best: Variant, gem: Variant, paper_samc: Variant) -> list[Variant]:
    """Lines of ACC by bytes, the best first; and what needs no budget, as levels: all images kept, and none."""
    er, er_with_parts = Variant("er", "er", NO_PART), Variant("er", "er", ALL_PARTS)
    return [
        *along_budgets("SAMC, best", best, "focus:jpeg:{quality}"),
        *along_budgets("ER, small JPEGs, with the parts", er_with_parts, "jpeg:{quality}"),
        *along_budgets("ER, small JPEGs", er, "jpeg:{quality}"),
        *along_budgets("ER, raw images, with the parts", er_with_parts, least=RAW_IMAGE),
        *along_budgets("ER, raw images", er, least=RAW_IMAGE),
        *along_budgets("GEM, raw images", gem, least=RAW_IMAGE, most=COSTLY),
        *along_budgets("SAMC as in the paper, in true bytes", paper_samc, "coo", least=RAW_IMAGE, most=COSTLY),
        Variant("joint: every image kept", "joint", {"lr": 0.1}, line="joint: every image kept"),
        Variant("finetune: no memory", "finetune", {"lr": 0.1}, line="finetune: no memory"),
    ]


PLAIN = "plain JPEG"
USES_OF_SALIENCY: list[tuple[str, dict[str, Any]]] = [
    ("smooth where nothing is salient", {"codec": "focus:jpeg:{quality}"}),
]
# each changes some settings, and is compared with plain JPEG of the same quality at the same budget
SALIENCY_BUDGETS = (256, 1_024, 3_073, 30_730)


def saliency(best: Variant) -> list[Variant]:
    """The best preset with each use of saliency, and with none, by budget."""
    none: list[tuple[str, dict[str, Any]]] = [(PLAIN, {})]
    variants = []
    for nbytes in SALIENCY_BUDGETS:
        for name, changes in none + USES_OF_SALIENCY:
            settings = {"codec": "jpeg:{quality}", **changes, **budget(nbytes)}
            settings["codec"] = settings["codec"].format(quality=QUALITY[nbytes])
            against = None if name == PLAIN else f"{PLAIN}, {nbytes:,} bytes"
            made = replace(best, label=f"{name}, {nbytes:,} bytes", settings={**best.settings, **settings})
            variants.append(replace(made, at=float(nbytes), line=name, against=against))
    return variants
