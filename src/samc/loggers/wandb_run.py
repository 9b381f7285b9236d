"""A run of Weights & Biases, in the folder wandb/ of a run; WANDB_MODE=offline keeps it there until `wandb sync`."""

import importlib
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from samc.errors import ConfigError
from samc.loggers.base import Entry, Marker

LOCAL = ("offline", "disabled", "dryrun")
# values of WANDB_MODE that need nobody's account
PATIENCE_SECONDS = 60.0


class WandbRun:
    """What is taken up goes on under the same id: online as one run, offline as parts that `wandb sync --append` joins.

    Project, account and mode are wandb's own settings: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE.
    """

    place: ClassVar[str] = "wandb"

    def __init__(self, folder: Path, config: Mapping[str, Any], *, resumed: bool):
        (folder / self.place).mkdir(exist_ok=True)
        self.marker = Marker(folder / self.place / "last-step.json", resumed=resumed)
        self.last = self.marker.content["step"]
        # an id of our own: wandb would draw one from random numbers that a user's loader may draw from too
        self.marker.content.setdefault("id", secrets.token_hex(4))
        self.wandb: Any = importlib.import_module("wandb")
        self.run = self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", "samc"),
            name=folder.name,
            id=self.marker.content["id"],
            dir=str(folder),
            config=dict(config),
            resume="allow" if resumed and not is_local() else None,
            settings=self.wandb.Settings(silent=True, console="off"),
        )

    @classmethod
    def check(cls) -> None:
        wandb: Any = importlib.import_module("wandb")
        if not is_local() and not wandb.login(prompt=False):
            raise ConfigError("--log wandb knows no account here; give wandb login, or set WANDB_MODE=offline")

    def write(self, entry: Entry) -> None:
        pictures = {name: self.wandb.Image(picture) for name, picture in entry.pictures.items()}
        self.run.log({**entry.scalars, **pictures}, step=entry.step)
        self.marker.move(entry.step)

    def close(self) -> None:
        """Wait for what is still on its way, but no longer than a run can wait for its record."""
        ending = threading.Thread(target=self.run.finish, daemon=True)
        ending.start()
        ending.join(PATIENCE_SECONDS)
        if ending.is_alive():
            raise TimeoutError("not all of it has been sent; wandb sync sends the rest")


def is_local() -> bool:
    return os.environ.get("WANDB_MODE") in LOCAL
