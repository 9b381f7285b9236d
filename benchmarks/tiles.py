"""Are the tiles of the convolutions' kernels the fastest: each of the network's convolutions with others beside them.

A tile is how many rows, columns and steps of the product a program works on, with how many warps, and how many steps
ahead it loads. Fewer than four warps use the older matrix instructions. Gradients of 19 past tasks, or, with
--of inference, the features of one batch. Needs a GPU.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from common import BATCH, SIDE, Row, network, options, report, rounds, synchronise
from samc.engine.cuda import Folding, Plan, stride_and_padding
from samc.engine.graphs import Constants
from samc.engine.program import compile_program

CLAIM = "The tiles of the convolutions' kernels are the fastest of those tried."
PAST, KEPT = 19, 43
LAUNCHES = {"gradients": 5, "inference": 50}
# of a kernel in one measurement: those of inference take a few microseconds
SHAPES = {
    "gradients": (
        (64, 32, 2, 3), (64, 32, 2, 2), (32, 32, 2, 3), (32, 32, 1, 3), (64, 16, 2, 4), (64, 32, 4, 3), (64, 32, 4, 4),
        (128, 32, 4, 3), (128, 16, 4, 4), (128, 32, 8, 3), (64, 64, 4, 2), (128, 64, 4, 2), (128, 32, 4, 2),
        (256, 32, 8, 3), (256, 16, 8, 3), (128, 16, 4, 3), (64, 16, 4, 4),
    ),
    "inference": (
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
    """One launch of a kernel, which can be repeated with another tile."""

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

    def recorded(self, launches: int) -> Callable[[], None]:
        """So many launches as one graph: the kernels of inference take less time than launching them one by one."""
        self.kernel[self.grid](*self.arguments, **self.options)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
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
        if columns < 2 * call.channels and (columns > 16 or of == "inference"):
            yield from (Tile(rows, columns, depth, warps, stages) for rows, depth, warps, stages in SHAPES[of])


@contextmanager
def noting(found: dict[str, Call], where: str) -> Iterator[None]:
    """Kernels are not launched meanwhile, only noted, with what they do and where."""
    from samc.engine.kernels import convolution  # noqa: PLC0415  (Triton is only where a GPU is)

    def note(kernel: Any, grid: tuple[int, ...], *arguments: Any, **given: int) -> None:
        way = f"{where}, {kernel.__name__.removesuffix('_kernel')}"
        found[f"{way}, back" if way in found else way] = Call(kernel, grid, arguments, given)

    convolution.launch_kernel, before = note, convolution.launch_kernel
    yield
    convolution.launch_kernel = before


def calls(of: str, images: int, side: int, device: torch.device) -> dict[str, Call]:
    """Every launch of a convolution's kernel in one pass through the network, by a name; alike ones once.

    A pass is one of all past tasks with so many images each and of a batch, forward and back, or inference on a batch.
    """
    from samc.engine.kernels import convolution  # noqa: PLC0415
    from samc.engine.kernels.warmup import survey  # noqa: PLC0415

    model = network(PAST + 1, device, side).to(memory_format=torch.channels_last)
    program, why = compile_program(model)
    assert program is not None, why
    folding, found = Folding(model, program, Constants()), dict[str, Call]()
    sizes = [BATCH] if of == "inference" else [images] * PAST + [BATCH]
    with torch.no_grad():
        kinds = survey(program, torch.rand(sum(sizes), 3, side, side, device=device))
        weights, plan = folding.weights(torch.float32), Plan(sizes, device)
        for kind, norm, residual, relu in kinds.fused.values():
            layer, seen = kinds.convs[kind]
            cout, cin, taps, _ = layer.weight.shape
            where = f"{cin} to {cout}, {taps}×{taps}, stride {layer.stride[0]}"
            image, how = seen.contiguous(memory_format=torch.channels_last), stride_and_padding(layer)
            weight = weights[layer]
            if of == "inference":
                after = convolution.After(norm, residual, relu)
                with noting(found, where if residual is None else f"{where}, residual"):
                    convolution.convolve(image, weight, *how, after)
            elif not any(name.startswith(where) for name in found):
                grad = torch.randn_like(nn.functional.conv2d(image, layer.weight, None, *how))
                grad = grad.contiguous(memory_format=torch.channels_last)
                rows = torch.empty(len(sizes), layer.weight.numel(), device=device)
                with noting(found, where):
                    convolution.convolve(image, weight, *how)
                    if cin > 3:
                        convolution.convolve_back(grad, weight, image, *how)
                    convolution.weight_gradients(image, grad, plan.starts, layer.weight.shape, *how, rows)
    return found


def compiled(tried: list[Call]) -> list[Call]:
    from samc.engine.kernels.launch import only_compile  # noqa: PLC0415

    with ThreadPoolExecutor(os.cpu_count(), initializer=only_compile) as pool:
        return [call for call, there in zip(tried, pool.map(Call.compile, tried), strict=True) if there]


def main(arguments: list[str] | None = None) -> None:
    given = options(__doc__, arguments, "--side", "--of")
    if given.device.type != "cuda":
        print(f"{CLAIM} There is no GPU here, and nothing to measure.")
        return
    of, side, rows = given.of or "gradients", int(given.side or SIDE), list[Row]()
    if of not in LAUNCHES:
        raise SystemExit(f"--of {of}: it is one of {', '.join(LAUNCHES)}")
    found = calls(of, 2 if given.quick else KEPT, side, given.device)
    tried = {name: list({call.tile: call, **{tile: call.using(tile) for tile in others(call, of)}}.values())
             for name, call in found.items()}  # fmt: skip
    there = {id(call) for call in compiled([call for calls in tried.values() for call in calls])}
    for name, variants in tried.items():
        cases = {str(tuple(call.tile)): call.recorded(LAUNCHES[of]) for call in variants if id(call) in there}
        spent = rounds(cases, given.device, given.quick)
        synchronise(given.device)
        used, best = str(tuple(found[name].tile)), min(spent, key=lambda case: spent[case])
        rows.append({"convolution": name, "tile": used, "ms": 1000 * spent[used] / LAUNCHES[of], "best": best,
                     "best ms": 1000 * spent[best] / LAUNCHES[of], "times": spent[used] / spent[best]})  # fmt: skip
    now, could = (sum(row[name] for row in rows) for name in ("ms", "best ms"))
    report(
        f"tiles_{of}_{side}", CLAIM, rows, f"All of them take {now:.2f} ms, with the best tiles {could:.2f} ms.", given
    )


if __name__ == "__main__":
    main()
