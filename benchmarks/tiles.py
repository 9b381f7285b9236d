"""Are the tiles of the convolutions' kernels the fastest: each of the network's convolutions with others beside them.

A tile is how many rows, columns and steps of the product a program works on, with how many warps, and how many steps
ahead it loads. Fewer than four warps use the older matrix instructions. Gradients of 19 past tasks, or, with --of look,
a look at one batch. Needs a GPU.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from common import BATCH, SIDE, Row, network, options, report, rounds, synchronise
from samc.gradients.fold import Folding, Plan, strides
from samc.gradients.graph import Constants
from samc.gradients.starting import only_compile
from samc.gradients.warmup import Survey

CLAIM = "The tiles of the convolutions' kernels are the fastest of those tried."
PAST, KEPT = 19, 43
STARTS = {"gradients": 5, "look": 50}
# of a kernel in one measurement: those of a look take a few microseconds
SHAPES = {
    "gradients": (
        (64, 32, 2, 3), (64, 32, 2, 2), (32, 32, 2, 3), (32, 32, 1, 3), (64, 16, 2, 4), (64, 32, 4, 3), (64, 32, 4, 4),
        (128, 32, 4, 3), (128, 16, 4, 4), (128, 32, 8, 3), (64, 64, 4, 2), (128, 64, 4, 2), (128, 32, 4, 2),
        (256, 32, 8, 3), (256, 16, 8, 3), (128, 16, 4, 3), (64, 16, 4, 4),
    ),
    "look": (
        (64, 32, 4, 3), (64, 64, 4, 3), (64, 64, 4, 2), (64, 128, 4, 2), (128, 16, 4, 3), (128, 32, 4, 3),
        (64, 32, 4, 4), (32, 32, 2, 3), (32, 64, 2, 3), (16, 64, 1, 3),
    ),
}  # fmt: skip
# rows, depth, warps and stages; each with several widths


class Tile(NamedTuple):
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class Call(NamedTuple):
    """One start of a kernel, which can be repeated with another tile."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, int]

    @property
    def name(self) -> str:
        return self.kernel.__name__.removesuffix("_kernel")

    @property
    def tile(self) -> Tile:
        """As product rows, columns and depth, in whatever order the kernel takes them."""
        first, second, third = self.arguments[-3:]
        ordered = (second, third, first) if self.name == "weight" else (first, second, third)
        return Tile(*ordered, self.options["num_warps"], self.options["num_stages"])

    @property
    def channels(self) -> int:
        """Columns of the product, all tiles together."""
        named = dict(zip(self.kernel.arg_names, self.arguments, strict=True))
        return named["CIN"] if self.name == "strided_back" else named["COUT"]

    def using(self, tile: Tile) -> "Call":
        last = (tile.depth, tile.rows, tile.columns) if self.name == "weight" else tile[:3]
        old, ceil = self.tile, lambda size, part: -(-size // part)
        wide = self.channels
        high = self.grid[0] // ceil(wide, old.columns) * old.rows  # a whole number of old tiles: enough for any
        grid = (ceil(high, tile.rows) * ceil(wide, tile.columns), *self.grid[1:])
        return Call(
            self.kernel, grid, (*self.arguments[:-3], *last), {"num_warps": tile.warps, "num_stages": tile.stages}
        )

    def recorded(self, starts: int) -> Callable[[], None]:
        """So many starts as one graph: the kernels of a look take less time than starting them one by one."""
        self.kernel[self.grid](*self.arguments, **self.options)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(starts):
                self.kernel[self.grid](*self.arguments, **self.options)
        return graph.replay

    def compile(self) -> bool:
        """Whether the tile can be had: some take more registers or memory than there are."""
        try:
            self.kernel.warmup(*self.arguments, grid=self.grid, **self.options)
        except Exception as error:
            print(f"{self.name} {self.tile}: {type(error).__name__}")
            return False
        return True


def others(call: Call, of: str) -> Iterator[Tile]:
    for columns in (16, 32, 64, 128):
        if columns < 2 * call.channels and (columns > 16 or of == "look"):
            yield from (Tile(rows, columns, depth, warps, stages) for rows, depth, warps, stages in SHAPES[of])


@contextmanager
def noting(found: dict[str, Call], where: str) -> Iterator[None]:
    """Kernels are not started meanwhile, only noted, with what they do and where."""
    from samc.gradients import convolution  # noqa: PLC0415  (Triton is only where a GPU is)

    def note(kernel: Any, grid: tuple[int, ...], *arguments: Any, **given: int) -> None:
        way = f"{where}, {kernel.__name__.removesuffix('_kernel')}"
        found[f"{way}, back" if way in found else way] = Call(kernel, grid, arguments, given)

    convolution.start_kernel, before = note, convolution.start_kernel
    yield
    convolution.start_kernel = before


def calls(of: str, images: int, side: int, device: torch.device) -> dict[str, Call]:
    """Every start of a convolution's kernel in one pass through the network, by a name; alike ones once.

    A pass is one of all past tasks with so many images each and of a batch, forward and back, or a look at the batch.
    """
    from samc.gradients import convolution  # noqa: PLC0415

    model, survey = network(PAST + 1, device).to(memory_format=torch.channels_last), Survey()
    folding, found = Folding(model, Constants()), dict[str, Call]()
    sizes = [BATCH] if of == "look" else [images] * PAST + [BATCH]
    with torch.no_grad():
        model.features(torch.rand(sum(sizes), 3, side, side, device=device), survey)
        weights, plan = folding.weights(torch.float32), Plan(sizes, device)
        for key, norm, beside, rectify in survey.steady.values():
            layer, seen = survey.convolutions[key]
            cout, cin, taps, _ = layer.weight.shape
            where = f"{cin} to {cout}, {taps}×{taps}, stride {layer.stride[0]}"
            image, (weight, how) = seen.contiguous(memory_format=torch.channels_last), (weights[layer], strides(layer))
            if of == "look":
                with noting(found, where if beside is None else f"{where}, beside"):
                    convolution.convolve(image, weight, *how, convolution.After(norm, beside, rectify))
            elif not any(name.startswith(where) for name in found):
                slope = torch.randn_like(nn.functional.conv2d(image, layer.weight, None, *how))
                slope = slope.contiguous(memory_format=torch.channels_last)
                rows = torch.empty(len(sizes), layer.weight.numel(), device=device)
                with noting(found, where):
                    convolution.convolve(image, weight, *how)
                    if cin > 3:
                        convolution.convolve_back(slope, weight, image, *how)
                    convolution.weight_gradients(image, slope, plan.starts, layer.weight.shape, *how, rows)
    return found


def compiled(tried: list[Call]) -> list[Call]:
    with ThreadPoolExecutor(os.cpu_count(), initializer=only_compile) as pool:
        return [call for call, there in zip(tried, pool.map(Call.compile, tried), strict=True) if there]


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--side", "--of")
    if given.device.type != "cuda":
        print(f"{CLAIM} There is no GPU here, and nothing to measure.")
        return
    of, side, rows = given.of or "gradients", int(given.side or SIDE), list[Row]()
    if of not in STARTS:
        raise SystemExit(f"--of {of}: it is one of {', '.join(STARTS)}")
    found = calls(of, 2 if given.quick else KEPT, side, given.device)
    tried = {name: list({call.tile: call, **{tile: call.using(tile) for tile in others(call, of)}}.values())
             for name, call in found.items()}  # fmt: skip
    there = {id(call) for call in compiled([call for each in tried.values() for call in each])}
    for name, each in tried.items():
        cases = {str(tuple(call.tile)): call.recorded(STARTS[of]) for call in each if id(call) in there}
        spent = rounds(cases, given.device, given.quick)
        synchronise(given.device)
        used, best = str(tuple(found[name].tile)), min(spent, key=lambda case: spent[case])
        rows.append({"convolution": name, "tile": used, "ms": 1000 * spent[used] / STARTS[of], "best": best,
                     "best ms": 1000 * spent[best] / STARTS[of], "times": spent[used] / spent[best]})  # fmt: skip
    now, could = (sum(row[name] for row in rows) for name in ("ms", "best ms"))
    report(
        f"tiles_{of}_{side}", CLAIM, rows, f"All of them take {now:.2f} ms, with the best tiles {could:.2f} ms.", given
    )


if __name__ == "__main__":
    main()
