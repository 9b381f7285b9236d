"""A run that goes on from a finished one: that run's learner, its tasks before the new ones, and what was measured."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from samc.config import RunConfig
from samc.errors import ConfigError, DataError, UserError
from samc.files import read_regular
from samc.learners import NetworkLearner, load, method
from samc.record import FILE, MOST_BYTES, RunRecord
from samc.resuming import SoFar
from samc.streams import Stream, configured_stream
from samc.streams.joining import following, joined
from samc.streams.pixels import by_sides

STREAM = ("dataset", "n_tasks", "samples_per_task", "class_order", "image_size", "tested_on", "seed")
# the settings that say which images a run learns
FIRST = ("first_task", "first_class")


@dataclass(frozen=True)
class Earlier:
    """The finished run that another goes on from: folder, digest of its record, and whether its tasks are tested."""

    folder: Path
    record: str
    tested: bool = True

    @classmethod
    def at(cls, folder: Path, *, tested: bool) -> "Earlier":
        return cls(folder.absolute(), digest_of(folder), tested)


@dataclass(frozen=True)
class TakenUp:
    """All that a run needs to go on from another; `continues` and `notes` are for its record."""

    stream: Stream
    learner: NetworkLearner
    so_far: SoFar
    continues: dict[str, Any]
    notes: list[str]

    @property
    def numbering(self) -> str:
        """Which numbers new tasks and classes have."""
        first, last, label = self.continues["first_task"], self.stream[-1].id, self.continues["first_class"]
        which = f"task {first}" if first == last else f"tasks {first} to {last}"
        return f"learnt as {which}; class c of the new data set is class {label} + c"


def digest_of(folder: Path) -> str:
    """Of a run's record: it names the run wherever its folder is."""
    return hashlib.sha256(read_regular(folder / FILE, MOST_BYTES)).hexdigest()


def continued_config(record: RunRecord, given: Mapping[str, Any]) -> RunConfig:
    """The config of a run that goes on from a record's: its settings, and what is given of the new images."""
    config = RunConfig.from_dict(record.config, method(record.config["model"]).Settings)
    plain = {name: getattr(RunConfig, name) for name in STREAM if name != "seed"}
    return replace(config, preset="none", **{**plain, **given})


def taken_up(earlier: Earlier, config: RunConfig, data_dir: Path | None, device: torch.device) -> TakenUp:
    """The learner that a run has left, and a stream of what it knows and what is to come.

    New tasks and classes get the numbers after the largest that there are.
    """
    folder, record = earlier.folder, RunRecord.load(earlier.folder)
    if digest_of(folder) != earlier.record:
        raise DataError(f"{folder} holds another run than the one that was continued; put that back, or begin again")
    learner = load(folder, device=device)
    check_scenario(folder, learner)
    check_same_run(folder, record, learner)
    known, learnt = learner.model.heads.task_classes, learnt_streams(record)
    first = {"first_task": 1 + max(known), "first_class": 1 + max(map(max, known.values()))}
    new = configured_stream(config, data_dir)
    check_images(new, config.dataset, learner)
    new = following(new, **first)
    so_far, streams, notes = SoFar(), [new], [f"not tested: the {len(known)} tasks that were learnt before"]
    if earlier.tested:
        so_far, notes = measured(record, len(new)), []
        streams = [*tested_streams(folder, record, learnt, data_dir), new]
    for task in new:  # heads and labels are as large now as those of a checkpoint
        learner.declare(task.id, task.classes)
    return TakenUp(joined(streams), learner, so_far, {"record": earlier.record, "streams": learnt, **first}, notes)


def check_scenario(folder: Path, learner: NetworkLearner) -> None:
    """Refuse a run that knows no tasks, or whose tasks have the same classes: new tasks bring new numbers of both."""
    scenario, python = learner.scenario, "go on in Python: samc.load(RUN).observe"
    if not scenario.told:
        raise ConfigError(f"{folder} was never told a task, and new ones would be numbered; {python}(x, y)")
    if scenario.name == "domain":
        raise ConfigError(
            f"{folder} has the same classes in every task, and new ones would be others; {python}(x, y, task)"
        )


def check_same_run(folder: Path, record: RunRecord, learner: NetworkLearner) -> None:
    """Refuse a learner that is not the one whose record lies beside it."""
    known = learner.model.heads.task_classes
    tested = [tuple(sorted(classes)) for classes in record.fingerprint["class_order"]]
    mine = type(learner), [known[task] for task in sorted(known)[-len(tested) :]], list(learner.image_shape)
    if mine != (method(record.config["model"]), tested, record.fingerprint["image_shape"]):
        raise DataError(f"the learner in {folder} is of another run than the record beside it; put its own back")


def check_images(new: Stream, dataset: str, learner: NetworkLearner) -> None:
    """Refuse images that the learner cannot take, or that its autoencoder was pretrained on."""
    if new.image_shape != learner.image_shape:
        (_, *size), (_, *wanted) = new.image_shape, learner.image_shape
        resized = f"add --image-size {wanted[0]}" if size != wanted and len(set(wanted)) == 1 else "convert them"
        sizes = f"{by_sides(new.image_shape)}, the run has learnt {by_sides(learner.image_shape)}"
        raise DataError(f"{dataset} has images of {sizes}; {resized}")
    try:
        unseen = learner.settings.on(new.name, new.source) == learner.settings
    except DataError:  # of a file that it began with and that is no longer there, nobody can tell
        unseen = True
    if not unseen:
        raise ConfigError(f"this run's autoencoder was pretrained on the images of {dataset}; continue with others")


def learnt_streams(record: RunRecord) -> list[dict[str, Any]]:
    """The settings of each stream that a run and those before it have learnt, and its first numbers; oldest first."""
    before = record.continues or {"streams": [], **dict.fromkeys(FIRST, 0)}
    own = {name: record.config[name] for name in STREAM if name in record.config}
    return [*before["streams"], own | {name: before[name] for name in FIRST}]


def tested_streams(
    folder: Path, record: RunRecord, learnt: Sequence[dict[str, Any]], data_dir: Path | None
) -> list[Stream]:
    """What a run was tested on, opened again by the names that its record has."""
    terms, streams = record.fingerprint, list[Stream]()
    try:
        for values in reversed(learnt):
            if sum(map(len, streams)) < len(terms["class_order"]):  # what it was not tested on came before
                streams.insert(0, following(opened_again(values, data_dir), *(values[name] for name in FIRST)))
        found = joined(streams)
        same = found.name == terms["stream"] and found.source == terms.get("source")
        tasks = [[list(classes) for classes in found.task_classes], [len(task.test_y) for task in found]]
        same &= len(terms.get("training_images", ())) == len(found)
        if not same or tasks != [terms["class_order"], terms.get("test_images")]:
            raise DataError(f"{found.name} has other images by now, or they are cut into other tasks")
    except UserError as error:
        remedy = "put them back, or leave those tests out: --no-old-tests"
        raise DataError(f"the images that {folder} was tested on are not at hand ({error}); {remedy}") from None
    return streams


def opened_again(values: Mapping[str, Any], data_dir: Path | None) -> Stream:
    if "dataset" not in values:
        raise DataError("its record names no data set")
    return configured_stream(RunConfig(**{name: values[name] for name in STREAM if name in values}), data_dir)


def measured(record: RunRecord, new_tasks: int) -> SoFar:
    """What a run has measured before its last test, which is made again with the new tasks in it."""
    tasks, terms = len(record.fingerprint["class_order"]), record.fingerprint
    sizes = terms.get("batch_size", record.config.get("batch_size", RunConfig.batch_size))
    return SoFar(
        matrix=[[*row, *[None] * new_tasks] for row in record.accuracy_matrix[:-1]],
        between=list(record.between or ()),
        training_images=list(terms.get("training_images", ())),
        batch_sizes=list(sizes) if isinstance(sizes, list) else [sizes] * tasks,
        task=tasks,
    )
