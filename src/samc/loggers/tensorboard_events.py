"""TensorBoard's event files, in the folder tensorboard/ of a run."""

import importlib
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
        self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(place))

    @classmethod
    def check(cls) -> None:
        importlib.import_module("tensorboard")  # torch has the writer, and needs this to write with
        importlib.import_module("torch.utils.tensorboard")

    def write(self, entry: Entry) -> None:
        for name, value in entry.scalars.items():
            self.writer.add_scalar(name.replace(" ", "_"), value, entry.step)
        for name, picture in entry.pictures.items():
            self.writer.add_image(name, picture, entry.step, dataformats="HWC")
        self.writer.flush()
        self.marker.move(entry.step)

    def close(self) -> None:
        self.writer.close()
