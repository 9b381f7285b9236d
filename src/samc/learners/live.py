"""The current task's memory while it fills: dense, on the device, and decoded only where it is new."""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Int64
from torch import Tensor

from samc.engine import Batch
from samc.memory.stored import StoredImage

FIRST_ROOM = 64
# images; there is twice as much room whenever it is full


class LiveMemory:
    """A row for each stored image, given to another when the memory has dropped its image."""

    def __init__(self, decode: Callable[[list[StoredImage]], tuple[Tensor, Tensor]], room: int = 0):
        self.decode = decode
        self.first_room = room  # that it had before it was saved: it takes as many bytes as if it had never been
        # by identity: two images may have equal bytes. Whoever has a row is held here, so that no other gets its id
        self.rows: dict[int, tuple[StoredImage, int]] = {}
        self.free: list[int] = []
        self.x, self.y, self.task = torch.empty(0), torch.empty(0), 0
        self.order: list[int] = []  # of identities

    def look(self, images: Iterable[StoredImage], task: int) -> None:
        """Become what the memory of a task holds now, in its order; at every step, so that little is done by image."""
        held = list(images)
        self.order, self.task = list(map(id, held)), task
        self.free += [self.rows.pop(key)[1] for key in self.rows.keys() - set(self.order)]
        if len(self.rows) < len(held):
            self.take_in([image for key, image in zip(self.order, held, strict=True) if key not in self.rows])

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
        places = torch.tensor([self.rows[self.order[row]][1] for row in rows.tolist()]).to(self.y.device)
        return Batch(self.x[places], self.y[places], self.task)

    def take_in(self, images: list[StoredImage]) -> None:
        x, y = self.decode(images)
        needed = len(self.rows) + len(images)
        if needed > len(self.y):
            room = self.first_room if needed <= self.first_room else max(FIRST_ROOM, 2 * needed)
            larger = x.new_empty(room, *x.shape[1:]), y.new_zeros(room)
            if len(self.y):
                larger[0][: len(self.y)], larger[1][: len(self.y)] = self.x, self.y
            self.free += range(len(self.y), room)
            self.x, self.y = larger
        taken, self.free = self.free[: len(images)], self.free[len(images) :]
        places = torch.tensor(taken).to(self.y.device)
        self.x[places], self.y[places] = x, y
        self.rows |= {id(image): (image, row) for image, row in zip(images, taken, strict=True)}
