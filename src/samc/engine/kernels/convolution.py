"""Convolutions of a folded batch on a GPU: shared weights forward and back, weight gradients by group."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
from jaxtyping import Int64
from torch import Tensor, nn

from samc.engine.kernels.convolution_kernels import forward_kernel, strided_back_kernel, weight_kernel
from samc.engine.kernels.launch import launch_kernel

PROGRAMS = 1024
# how many programs a launch should at least have, so that all multiprocessors are busy


# of a program's tile, by number of output channels: pixels, channels, depth; its warps and stages. Measured: tiles.py
# among the benchmarks.
TILES = {20: (128, 32, 32, 4, 3), 40: (128, 64, 32, 4, 3), 80: (128, 128, 16, 4, 3), 160: (128, 64, 16, 4, 3)}
OTHER_TILE = (64, 32, 32, 4, 3)
# inference is on few images: in the last stages many programs with short loops are quicker than few with long ones
INFERENCE_TILES = {**TILES, 80: (64, 32, 64, 4, 3), 160: (64, 32, 64, 4, 3)}
# the same for weight gradients: depth, output channels, pixels
WEIGHT_TILES = {20: (64, 32, 32, 2, 3), 40: (64, 64, 16, 2, 4), 80: (128, 32, 32, 4, 3), 160: (64, 64, 16, 2, 4)}
OTHER_WEIGHT_TILE = (64, 32, 32, 2, 3)


class ConvWeights(NamedTuple):
    """A layer's weights as the product takes them: what the matrix units see, and the rest.

    Twice: (out, taps, in), and, where there is a way back, turned for it: (in, taps in reverse, out).
    """

    coarse: Tensor
    rest: Tensor
    shape: torch.Size
    turned_coarse: Tensor | None = None
    turned_rest: Tensor | None = None


def turned_places(weights: Sequence[Tensor]) -> Int64[Tensor, "n"]:
    """Where in all layers' weights each of the turned ones comes from."""
    places, first = [], 0
    for weight in weights:
        cout, cin, side, _ = weight.shape
        own = torch.arange(first, first := first + weight.numel()).view(cout, side * side, cin)
        places.append(own.flip(1).permute(2, 1, 0).reshape(-1))
    return torch.cat(places).to(weights[0].device)


def split(weights: Sequence[Tensor], turned: Int64[Tensor, "n"] | None, kind: torch.dtype) -> list[ConvWeights]:
    """All layers' weights, in a few launches; without places to turn them to only those for the way forward."""
    flat = torch.cat([weight.permute(0, 2, 3, 1).reshape(-1) for weight in weights])
    if kind == torch.float32:
        coarse = (flat.view(torch.int32) & -8192).view(torch.float32)
        both = [coarse, flat - coarse]
    else:
        both = [flat.to(kind)] * 2
    sizes, shapes = [weight.numel() for weight in weights], [weight.shape for weight in weights]
    there = [part.split(sizes) for part in both]
    back = [] if turned is None else [part.split(sizes) for part in torch.stack(both)[:, turned]]
    return [ConvWeights(*parts) for parts in zip(*there, shapes, *back, strict=True)]


class After(NamedTuple):
    """What follows a convolution where batch norm is in eval mode: its layer, what is added, whether a ReLU comes."""

    norm: nn.BatchNorm2d
    residual: Tensor | None
    relu: bool


def convolve(x: Tensor, weights: ConvWeights, stride: int, padding: int, after: After | None = None) -> Tensor:
    """The images of a batch, convolved; channels-last in and out."""
    count, cin, height, width = x.shape
    cout, _, side, _ = weights.shape
    out_height, out_width = ((size + 2 * padding - side) // stride + 1 for size in (height, width))
    y = empty(x, count, cout, out_height, out_width)
    sizes = (height, width, out_height, out_width)
    launch(x, weights.coarse, weights.rest, y, sizes, cin, cout, side, stride, padding, after)
    return y


def convolve_back(dy: Tensor, weights: ConvWeights, like: Tensor, stride: int, padding: int) -> Tensor:
    """The gradient with respect to the images that went in."""
    count, cin, height, width = like.shape
    cout, _, side, _ = weights.shape
    out_height, out_width = dy.shape[2:]
    assert weights.turned_coarse is not None
    assert weights.turned_rest is not None
    dx = empty(like, count, cin, height, width)
    if stride == 1:
        sizes = (out_height, out_width, height, width)
        launch(dy, weights.turned_coarse, weights.turned_rest, dx, sizes, cout, cin, side, 1, side - 1 - padding)
        return dx
    block, tile, depth, warps, stages = TILES.get(cin, OTHER_TILE)
    pixels = count * ((height + 1) // 2) * ((width + 1) // 2)
    grid = (triton.cdiv(pixels, block) * triton.cdiv(cin, tile), 4)
    launch_kernel(
        strided_back_kernel, grid,
        dy, weights.turned_coarse, weights.turned_rest, dx, count, height, width, out_height, out_width, cin, cout,
        side, block, tile, depth, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return dx


def launch(
    x: Tensor, weight: Tensor, rest: Tensor, y: Tensor, sizes: tuple[int, ...], cin: int, cout: int, side: int,
    stride: int, padding: int, after: After | None = None,
) -> None:  # fmt: skip
    tiles = TILES if after is None else INFERENCE_TILES
    pixels, (block, tile, depth, warps, stages) = y.numel() // cout, tiles.get(cout, OTHER_TILE)
    running: tuple[Tensor | None, ...]
    running, flags = (y,) * 5, (0.0, False, False, False)  # anything will do: none of it is read
    if after is not None:
        norm, residual, relu = after
        running = norm.running_mean, norm.running_var, norm.weight, norm.bias, y if residual is None else residual
        flags = norm.eps, True, residual is not None, relu
    grid = (triton.cdiv(pixels, block) * triton.cdiv(cout, tile),)
    launch_kernel(
        forward_kernel, grid,
        x, weight, rest, y, *running, pixels, *sizes, cin, cout, side, stride, padding, *flags, block, tile, depth,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def weight_gradients(
    x: Tensor, dy: Tensor, starts: Tensor, shape: torch.Size, stride: int, padding: int, out: Tensor
) -> None:
    """One gradient of the weights a group into `out`, (groups, elements), in the order of the parameter's elements."""
    cout, cin, side, _ = shape
    groups, depth = len(starts) - 1, side * side * cin
    block, tile, run, warps, stages = WEIGHT_TILES.get(cout, OTHER_WEIGHT_TILE)
    block = min(block, triton.next_power_of_2(depth))
    programs = triton.cdiv(depth, block) * triton.cdiv(cout, tile)
    pixels = dy.numel() // cout // groups
    splits = max(1, min(triton.cdiv(PROGRAMS, programs * groups), pixels // 256))
    part = torch.empty(groups, splits, depth * cout, device=x.device)
    launch_kernel(
        weight_kernel, (programs, groups * splits),
        x, dy, part, starts, splits, *x.shape[2:], *dy.shape[2:], cin, cout, side, stride, padding, run, block, tile,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    torch.sum(part, 1, out=out)


def empty(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
