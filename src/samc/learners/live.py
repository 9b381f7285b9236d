"""The current task's memory while it fills: dense, on the device, and decoded only where it is new."""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Int64
from torch import Tensor

from samc.engine import Batch
from samc.memory.buffer import StoredImage

FIRST_ROOM = 64
# images; there is twice as much room whenever it is full


class LiveMemory:
    """A row for each stored image, given to another when the memory has dropped its image."""

    def __init__(self, decode: Callable[[list[StoredImage]], tuple[Tensor, Tensor]], room: int = 0):
        self.decode = decode
        self.first_room = room  # that it had before it was saved: it takes as many bytes as if it had never been
        self.rows: dict[int, tuple[StoredImage, int]] = {}  # by identity: two images may have equal bytes
        self.x, self.y, self.task = torch.empty(0), torch.empty(0), 0
        self.order = torch.empty(0, dtype=torch.int64)

    def look(self, images: Iterable[StoredImage], task: int) -> None:
        """Become what the memory of a task holds now, in its order."""
        held = {id(image): image for image in images}
        self.rows = {key: pair for key, pair in self.rows.items() if held.get(key) is pair[0]}
        new = [image for key, image in held.items() if key not in self.rows]
        if new:
            self.take_in(new)
        self.order, self.task = torch.tensor([self.rows[key][1] for key in held], dtype=torch.int64), task

    def __len__(self) -> int:
        return len(self.order)

    @property
    def room(self) -> int:
        """For so many images."""
        return len(self.y) or self.first_room

    @property
    def nbytes(self) -> int:
        """All of its room."""
        return self.x.nbytes + self.y.nbytes

    def pick(self, rows: Int64[Tensor, "n"]) -> Batch:
        """Some of the images, by their place."""
        places = self.order[rows].to(self.y.device)
        return Batch(self.x[places], self.y[places], self.task)

    def take_in(self, images: list[StoredImage]) -> None:
        x, y = self.decode(images)
        taken = {row for _, row in self.rows.values()}
        if len(taken) + len(images) > len(self.y):
            needed = len(taken) + len(images)
            room = self.first_room if needed <= self.first_room else max(FIRST_ROOM, 2 * needed)
            larger = x.new_empty(room, *x.shape[1:]), y.new_zeros(room)
            if len(self.y):
                larger[0][: len(self.y)], larger[1][: len(self.y)] = self.x, self.y
            self.x, self.y = larger
        free = [row for row in range(len(self.y)) if row not in taken][: len(images)]
        places = torch.tensor(free).to(self.y.device)
        self.x[places], self.y[places] = x, y
        self.rows |= {id(image): (image, row) for image, row in zip(images, free, strict=True)}
