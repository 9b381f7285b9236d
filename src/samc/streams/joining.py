"""Streams after one another: each keeps its images, its tasks and classes are numbered after those before."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from samc.streams.base import Stream
from samc.streams.task import ArrayTask

LONGEST = 1000
# characters of a name or a source


def following(stream: Stream, first_task: int, first_class: int) -> Stream:
    """The same stream of arrays, whose task k is `first_task` + k and whose class c is `first_class` + c."""
    tasks = []
    for place, task in enumerate(stream):
        assert isinstance(task, ArrayTask), "a loader's labels are its own"
        y, test_y = task.y + first_class, task.test_y + first_class
        classes = tuple(label + first_class for label in task.classes)
        tasks.append(replace(task, id=first_task + place, classes=classes, y=y, test_y=test_y))
    names = (*map(str, range(first_class)), *stream.class_names)
    return replace(stream, tasks=tuple(tasks), num_classes=len(names), class_names=names)


def joined(streams: Sequence[Stream]) -> Stream:
    """One stream of several that follow each other; its name says so, and what came before the first of them."""
    tasks = tuple(task for stream in streams for task in stream)
    names = [str(label) for label in range(max(stream.num_classes for stream in streams))]
    for stream in streams:
        for label in (label for classes in stream.task_classes for label in classes):
            names[label] = stream.class_names[label]
    before = f", after {tasks[0].id} {'task' if tasks[0].id == 1 else 'tasks'}" if tasks[0].id else ""
    name, source = (one_after_another([getattr(stream, part) for stream in streams]) for part in ("name", "source"))
    return Stream(name + before, tasks, len(names), tuple(names), source)


def one_after_another(texts: Sequence[str]) -> str:
    """Some texts as one; of many, what tells them from others."""
    whole = ", then ".join(texts)
    if len(whole) <= LONGEST:
        return whole
    return f"{len(texts)} streams, sha256 {hashlib.sha256(whole.encode()).hexdigest()}"
