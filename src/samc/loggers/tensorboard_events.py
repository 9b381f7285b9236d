"""TensorBoard's event files, in the folder tensorboard/ of a run."""

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from samc.loggers.base import Entry, Marker

EVENTS = "events.out.tfevents.*"


class TensorBoardEvents:
    """Every run that is taken up adds a file, which TensorBoard reads as one run's."""

    place: ClassVar[str] = "tensorboard"

    def __init__(self, folder: Path, config: Mapping[str, Any], *, resumed: bool):
        place = folder / self.place
        place.mkdir(exist_ok=True)
        for old in [] if resumed else place.glob(EVENTS):
            old.unlink()
        self.marker = Marker(place / "last-step.json", resumed=resumed)
        self.last = self.marker.content["step"]
        self.summary: Any = importlib.import_module("torch.utils.tensorboard.summary")
        self.event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        records: Any = importlib.import_module("tensorboard.summary.writer.record_writer")
        # without torch's SummaryWriter, whose thread would fail by itself where the disk is full
        self.writer = records.RecordWriter((place / f"events.out.tfevents.{time.time_ns()}.samc").open("xb"))
        self.add(file_version="brain.Event:2")  # by which readers know the format

    @classmethod
    def check(cls) -> None:
        importlib.import_module("tensorboard")  # torch has the writer, and needs this to write with
        importlib.import_module("torch.utils.tensorboard")

    def write(self, entry: Entry) -> None:
        for name, value in entry.scalars.items():
            self.add(step=entry.step, summary=self.summary.scalar(name.replace(" ", "_"), value))
        for name, picture in entry.pictures.items():
            self.add(step=entry.step, summary=self.summary.image(name, picture, dataformats="HWC"))
        self.writer.flush()
        self.marker.move(entry.step)

    def add(self, **fields: Any) -> None:
        self.writer.write(self.event(wall_time=time.time(), **fields).SerializeToString())

    def close(self) -> None:
        self.writer.close()
