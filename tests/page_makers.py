"""Folders of runs that nobody has learnt, with everything that a page shows; names are as hostile as they may be."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import samc
from memory_makers import filled
from record_makers import record
from samc.experiments.recollection import FILE, UNKNOWN, Recollection
from samc.record import RunRecord

HOSTILE = "<script>alert('x')</script>"
NAMES = [HOSTILE, "a & b", *(f"class of {number}" for number in range(2, 10))]
RESULTS = Path(samc.__file__).parents[2] / "results"


def recollection(memory, images, *, pixels=True):
    """Of every image: right when it was stored, and every second of them wrong now."""
    columns = [(task, place) for task in memory.tasks for place in range(len(memory.by_task[task].images))]
    labels = np.concatenate([memory.recall(task)[2] for task in memory.tasks])
    count = len(columns)
    now = np.where(np.arange(count) % 2, (labels + 1) % 10, labels)
    return Recollection(
        task=np.array([task for task, _ in columns]),
        place=np.array([place for _, place in columns]),
        label=labels,
        then=labels.copy(),
        now=now,
        psnr=np.linspace(10, 20, count),
        salient=np.ones(count, bool),
        saliency=np.arange(count * 4, dtype=np.uint8).reshape(count, 2, 2),
        pixels=images if pixels else images[:0],
    )


def save_run(folder, spec="coo", *, acc=0.5, memory=True, noted=True, diagnosed=False, **config):
    """A run of five tasks of two classes each; returns its record and its memory."""
    made = replace(record(acc, **{"model": "samc", **config}), class_names=NAMES)
    if diagnosed:
        made = replace(made, diagnosis=RunRecord.load(RESULTS / "diagnosis" / "coo").diagnosis)
    kept, images = filled(spec, tasks=(0, 1, 2, 3, 4), count=12, classes=10)
    folder.mkdir(parents=True, exist_ok=True)
    if memory:
        kept.save(folder / "memory.samc")
    if memory and noted:
        (folder / FILE).write_bytes(recollection(kept, images).pack())
    made.save(folder)
    return made, kept


__all__ = ["HOSTILE", "NAMES", "UNKNOWN", "recollection", "save_run"]
