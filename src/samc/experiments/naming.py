"""What a run of a table or figure is called: by what makes it differ from the others that are asked for with it."""

from collections import Counter
from collections.abc import Mapping

from samc.experiments.jobs import Job
from samc.experiments.specification import Key


def name_runs(items: Mapping[str, Mapping[Key, Job]]) -> dict[Job, str]:
    """Every run of some items by its row's label, with stream and seed where there are several of them.

    A run that several items share has the name that the first of them gives it.
    """
    keys: dict[Job, tuple[str, Key]] = {}
    for item, jobs in items.items():
        for key, job in jobs.items():
            keys.setdefault(job, (item, key))
    several_streams, several_seeds = (len({key[place] for _, key in keys.values()}) > 1 for place in (0, 2))

    def name(item: str, key: Key, with_item: bool) -> str:
        stream, variant, seed = key
        # a row such as 0.7, or samc at 20, says nothing without its table
        speaks = variant.label.lower().startswith(variant.model) and (variant.at is None or bool(variant.line))
        alone = speaks and not with_item
        label = variant.label if alone else f"{item} {variant.label}"
        return ", ".join([label, *([stream] if several_streams else []), *([f"seed {seed}"] if several_seeds else [])])

    plain = {job: name(item, key, with_item=False) for job, (item, key) in keys.items()}
    taken = Counter(plain.values())
    return {job: name(*keys[job], with_item=taken[found] > 1) for job, found in plain.items()}
