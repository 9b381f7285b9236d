"""Batch norm of a folded batch on a GPU, in Triton: statistics by group, with the sum and the ReLU that follow it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from samc.engine.kernels.convolution import PROGRAMS
from samc.engine.kernels.launch import launch_kernel

SPLITS = 32
# of a group's pixels, summed up apart
ELEMENTS = 4096
# of a tile: pixels times channels


@triton.jit
def passed(value, y, dy, valid, scale, shift, residual, relu):
    """The part of dy that came through the ReLU; what it let pass is seen from x again, unless something was added."""
    grad = tl.load(dy, mask=valid, other=0.0).to(tl.float32)
    if relu:
        if residual:
            grad = tl.where(tl.load(y, mask=valid, other=0.0).to(tl.float32) > 0, grad, 0.0)
        else:
            grad = tl.where(value * scale[None, :] + shift[None, :] > 0, grad, 0.0)
    return grad


@triton.jit(do_not_specialize=["area", "residual", "relu"])
def sums_kernel(x, y, dy, weight, bias, mean, deviation, part, starts, area, residual, relu, C: tl.constexpr,
                BC: tl.constexpr, BP: tl.constexpr, SPLITS: tl.constexpr, BACK: tl.constexpr):  # fmt: skip
    """Two sums a channel over a split of a group's pixels.

    Forward Σ(x − x₀) and Σ(x − x₀)², where x₀ is the group's first pixel: so that a large mean costs no digits.
    Backward Σdz and Σdz·x̂, where dz is what came through the ReLU.
    """
    group, split = tl.program_id(1), tl.program_id(0)
    c = tl.arange(0, BC)
    first, last = tl.load(starts + group) * area, tl.load(starts + group + 1) * area
    share = (last - first + SPLITS - 1) // SPLITS
    low = first + split * share
    high = tl.minimum(low + share, last)
    if BACK:
        centre = tl.load(mean + group * C + c, mask=c < C, other=0.0)
        root = tl.load(deviation + group * C + c, mask=c < C, other=1.0)
        narrow = 1 / root
        scale = tl.load(weight + c, mask=c < C, other=0.0) / root
        shift = tl.load(bias + c, mask=c < C, other=0.0) - centre * scale
    else:
        centre = tl.load(x + first * C + c, mask=c < C, other=0.0).to(tl.float32)
    one, two = tl.zeros((BP, BC), tl.float32), tl.zeros((BP, BC), tl.float32)
    for start in range(low, high, BP):
        p = start + tl.arange(0, BP)
        place, valid = p[:, None] * C + c[None, :], (p < high)[:, None] & (c < C)[None, :]
        value = tl.load(x + place, mask=valid, other=0.0).to(tl.float32)
        if BACK:
            grad = passed(value, y + place, dy + place, valid, scale, shift, residual, relu)
            one += grad
            two += grad * (value - centre[None, :]) * narrow[None, :]
        else:
            value = tl.where(valid, value - centre[None, :], 0.0)
            one += value
            two += value * value
    place = ((group * SPLITS + split) * 2) * C + c
    tl.store(part + place, tl.sum(one, 0), mask=c < C)
    tl.store(part + place + C, tl.sum(two, 0), mask=c < C)


@triton.jit(do_not_specialize=["area", "has_residual", "relu"])
def normalise_kernel(x, residual, y, weight, bias, mean, variance, deviation, part, starts, area, epsilon,
                     has_residual, relu, C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
                     SPLITS: tl.constexpr):  # fmt: skip
    """y = (x − mean)/deviation·weight + bias, plus the residual, through the ReLU; the statistics are kept too."""
    group, block = tl.program_id(1), tl.program_id(0)
    c, s = tl.arange(0, BC), tl.arange(0, SPLITS)
    first, last = tl.load(starts + group) * area, tl.load(starts + group + 1) * area
    place, valid = ((group * SPLITS + s) * 2)[:, None] * C + c[None, :], (c < C)[None, :] & (s >= 0)[:, None]
    count = (last - first).to(tl.float32)
    shifted = tl.sum(tl.load(part + place, mask=valid, other=0.0), 0) / count
    squares = tl.sum(tl.load(part + place + C, mask=valid, other=0.0), 0) / count
    centre = tl.load(x + first * C + c, mask=c < C, other=0.0).to(tl.float32) + shifted
    spread = tl.maximum(squares - shifted * shifted, 0.0)
    root = tl.sqrt(spread + epsilon)
    if block == 0:
        tl.store(mean + group * C + c, centre, mask=c < C)
        tl.store(variance + group * C + c, spread, mask=c < C)
        tl.store(deviation + group * C + c, root, mask=c < C)
    scale = tl.load(weight + c, mask=c < C, other=0.0) / root
    shift = tl.load(bias + c, mask=c < C, other=0.0) - centre * scale
    for start in range(first + block * BP, last, tl.num_programs(0) * BP):
        p = start + tl.arange(0, BP)
        where, inside = p[:, None] * C + c[None, :], (p < last)[:, None] & (c < C)[None, :]
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
        if has_residual:
            value += tl.load(residual + where, mask=inside, other=0.0).to(tl.float32)
        if relu:
            value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)  # who has diverged is to see it
        tl.store(y + where, value, mask=inside)


@triton.jit(do_not_specialize=["area", "residual", "relu"])
def back_kernel(x, y, dy, dx, dresidual, weight, bias, mean, deviation, grads, part, starts, area, residual, relu,
                C: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, SPLITS: tl.constexpr):  # fmt: skip
    """dx from dy; the residual gets what came through the ReLU; the gradients of weight and bias, by group."""
    group, block = tl.program_id(1), tl.program_id(0)
    c, s = tl.arange(0, BC), tl.arange(0, SPLITS)
    first, last = tl.load(starts + group) * area, tl.load(starts + group + 1) * area
    place, valid = ((group * SPLITS + s) * 2)[:, None] * C + c[None, :], (c < C)[None, :] & (s >= 0)[:, None]
    one = tl.sum(tl.load(part + place, mask=valid, other=0.0), 0)
    two = tl.sum(tl.load(part + place + C, mask=valid, other=0.0), 0)
    if block == 0:
        tl.store(grads + (group * 2) * C + c, two, mask=c < C)
        tl.store(grads + (group * 2 + 1) * C + c, one, mask=c < C)
    count = (last - first).to(tl.float32)
    centre = tl.load(mean + group * C + c, mask=c < C, other=0.0)
    root = tl.load(deviation + group * C + c, mask=c < C, other=1.0)
    scale = tl.load(weight + c, mask=c < C, other=0.0) / root
    shift = tl.load(bias + c, mask=c < C, other=0.0) - centre * scale
    level, tilt = one / count, two / count / root
    for start in range(first + block * BP, last, tl.num_programs(0) * BP):
        p = start + tl.arange(0, BP)
        where, inside = p[:, None] * C + c[None, :], (p < last)[:, None] & (c < C)[None, :]
        value = tl.load(x + where, mask=inside, other=0.0).to(tl.float32)
        grad = passed(value, y + where, dy + where, inside, scale, shift, residual, relu)
        if residual:
            tl.store(dresidual + where, grad, mask=inside)
        value = grad - level[None, :] - (value - centre[None, :]) * tilt[None, :]
        tl.store(dx + where, scale[None, :] * value, mask=inside)


def shape_of(x: Tensor, starts: Tensor) -> tuple[int, int, int, int, int, int]:
    """Groups, pixels an image, channels and the tile: channels, pixels, splits of a group."""
    groups, channels = len(starts) - 1, x.shape[1]
    area = x.shape[2] * x.shape[3]
    wide = triton.next_power_of_2(channels)
    block = max(16, ELEMENTS // wide)
    return groups, area, channels, wide, block, SPLITS


def normalise(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float, starts: Tensor, relu: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The normalised images, and each group's mean, variance (of all its pixels) and deviation by channel."""
    groups, area, channels, wide, block, splits = shape_of(x, starts)
    part = torch.empty(groups, splits, 2, channels, device=x.device)
    mean, variance, deviation = (torch.empty(groups, channels, device=x.device) for _ in range(3))
    y = torch.empty_like(x)
    tile = (channels, wide, block, splits)
    launch_kernel(
        sums_kernel, (splits, groups),
        x, x, x, weight, bias, mean, deviation, part, starts, area, 0, 0, *tile, False, num_warps=4,
    )  # fmt: skip
    programs = blocks(x, groups, area, block)
    launch_kernel(
        normalise_kernel, (programs, groups),
        x, x if residual is None else residual, y, weight, bias, mean, variance, deviation, part, starts, area, epsilon,
        int(residual is not None), int(relu), *tile, num_warps=4,
    )  # fmt: skip
    return y, mean, variance, deviation


def normalise_back(
    dy: Tensor, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, deviation: Tensor, starts: Tensor,
    relu: bool, has_residual: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:  # fmt: skip
    """The gradients of the images, of the residual, and (groups, 2, channels): of weight and bias."""
    groups, area, channels, wide, block, splits = shape_of(x, starts)
    part = torch.empty(groups, splits, 2, channels, device=x.device)
    grads = torch.empty(groups, 2, channels, device=x.device)
    dx = torch.empty_like(x)
    dresidual = torch.empty_like(x) if has_residual else None
    tile = (channels, wide, block, splits)
    flags = int(has_residual), int(relu)
    launch_kernel(
        sums_kernel, (splits, groups),
        x, y, dy, weight, bias, mean, deviation, part, starts, area, *flags, *tile, True, num_warps=4,
    )  # fmt: skip
    programs = blocks(x, groups, area, block)
    launch_kernel(
        back_kernel, (programs, groups),
        x, y, dy, dx, dx if dresidual is None else dresidual, weight, bias, mean, deviation, grads, part, starts,
        area, *flags, *tile, num_warps=4,
    )  # fmt: skip
    return dx, dresidual, grads


def blocks(x: Tensor, groups: int, area: int, block: int) -> int:
    """Programs to a group: enough to fill the device, no more than there are tiles."""
    return max(1, min(triton.cdiv(2 * PROGRAMS, groups), triton.cdiv(len(x) * area // groups, block)))
