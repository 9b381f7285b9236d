"""The kernels of convolution.py, in Triton.

Images are channels-last, weights too: (out, row, column, in) in memory. A convolution is a matrix product over pixels
whose left side is gathered on the fly. float32 is computed on the matrix units as three products of halves: a number is
the ten bits that they take and a rest, and all but rest times rest is added up. That keeps seven digits and is faster,
at 20 to 160 channels, than cuDNN's float32 (docs/performance.md).
"""

import os

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
# where kernels run as Python, one program after the other


@triton.jit
def coarse(values):
    """The part of float32 numbers that the matrix units take: all but the last 13 bits."""
    return (values.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def completed(total):
    """The total once the matrix units are done with it, by a move that the compiler cannot see through, and drops.

    If nobody asks for a product before a loop goes on, Triton leaves it under way on a Hopper, and assemblers before
    CUDA 13.3's fill the registers that it still reads: beside other processes it came out wrong.
    """
    if INTERPRETED:
        return total
    return tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [total], tl.float32, is_pure=True, pack=1)


@triton.jit
def product(left, coarse_right, fine_right, total):
    """total + left·right; in bfloat16 as it is."""
    if left.dtype == tl.float32:
        coarse_left = coarse(left)
        total = tl.dot(left - coarse_left, coarse_right, total, input_precision="tf32")
        total = tl.dot(coarse_left, fine_right, total, input_precision="tf32")
        return completed(tl.dot(coarse_left, coarse_right, total, input_precision="tf32"))
    return tl.dot(left, coarse_right, total)


@triton.jit
def within(start, size: tl.constexpr, SIDE: tl.constexpr):
    """Of SIDE neighbours from start on one bit each: whether it is one of 0 to size − 1."""
    return (1 << tl.minimum(size - start, SIDE)) - (1 << tl.maximum(-start, 0))


@triton.jit
def inside_taps(top, left, height: tl.constexpr, width: tl.constexpr, SIDE: tl.constexpr):
    """For each pixel one bit a tap: whether the tap falls onto the image. Rows of taps are copies of their columns."""
    rows, bits = within(top, height, SIDE), top * 0
    for row in tl.static_range(SIDE):
        bits += ((rows >> row) & 1) << (row * SIDE)
    return bits * within(left, width, SIDE)


@triton.jit(do_not_specialize=["pixels"])
def forward_kernel(
    x, weight, rest, y, mean, variance, scale, shift, residual, pixels,
    height: tl.constexpr, width: tl.constexpr, out_height: tl.constexpr, out_width: tl.constexpr,
    CIN: tl.constexpr, COUT: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    EPSILON: tl.constexpr, INFERENCE: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y[m, n] = Σ_k patch(x)[m, k]·weight[n, k]; if INFERENCE, with a batch norm in eval mode and what follows it."""
    TAPS: tl.constexpr = SIDE * SIDE
    K: tl.constexpr = TAPS * CIN
    VECTOR: tl.constexpr = 4 if CIN % 4 == 0 else 1
    TILES: tl.constexpr = (COUT + BN - 1) // BN
    m = (tl.program_id(0) // TILES) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % TILES) * BN + tl.arange(0, BN)
    inside = m % (out_height * out_width)
    top = (inside // out_width) * STRIDE - PAD
    left = (inside % out_width) * STRIDE - PAD
    base = tl.multiple_of((((m // (out_height * out_width)) * height + top) * width + left) * CIN, VECTOR)
    taps = tl.where(m < pixels, inside_taps(top, left, height, width, SIDE), 0)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        # channels of one tap lie side by side in fours: the loads may be wide
        tap = tl.max_constancy(k // CIN, VECTOR)
        row, column = tap // SIDE, tap % SIDE
        channel = tl.max_contiguous(tl.multiple_of(k % CIN, VECTOR), VECTOR)
        valid = (((taps[:, None] >> tap[None, :]) & 1) != 0) & (k < K)[None, :]
        offset = (row * width + column) * CIN + channel
        patch = tl.load(x + base[:, None] + offset[None, :], mask=valid, other=0.0)
        place = k[:, None] + n[None, :] * K
        inside_weight = (k < K)[:, None] & (n < COUT)[None, :]
        one = tl.load(weight + place, mask=inside_weight, other=0.0)
        two = tl.load(rest + place, mask=inside_weight, other=0.0)
        total = product(patch, one, two, total)
    place, inside_y = m[:, None] * COUT + n[None, :], (m < pixels)[:, None] & (n < COUT)[None, :]
    if INFERENCE:
        spread = tl.sqrt(tl.load(variance + n, mask=n < COUT, other=1.0) + EPSILON)
        factor = tl.load(scale + n, mask=n < COUT, other=0.0) / spread
        centre = tl.load(mean + n, mask=n < COUT, other=0.0)
        total = (total - centre[None, :]) * factor[None, :]
        total += tl.load(shift + n, mask=n < COUT, other=0.0)[None, :]
        if RESIDUAL:
            total += tl.load(residual + place, mask=inside_y, other=0.0)
        if RELU:
            total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + place, total, mask=inside_y)


@triton.jit(do_not_specialize=["images"])
def strided_back_kernel(
    dy, weight, rest, dx, images,
    height: tl.constexpr, width: tl.constexpr, out_height: tl.constexpr, out_width: tl.constexpr,
    CIN: tl.constexpr, COUT: tl.constexpr, SIDE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dx of a convolution with stride 2: pixels of each of the four parities see their own taps, so none is idle."""
    VECTOR: tl.constexpr = 4 if COUT % 4 == 0 else 1
    TILES: tl.constexpr = (CIN + BN - 1) // BN
    down, across = tl.program_id(1) // 2, tl.program_id(1) % 2
    half_height, half_width = (height + 1) // 2, (width + 1) // 2
    m = (tl.program_id(0) // TILES) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % TILES) * BN + tl.arange(0, BN)
    inside = m % (half_height * half_width)
    image = m // (half_height * half_width)
    a, b = inside // half_width, inside % half_width
    if SIDE == 3:
        taps = (1 + down) * (1 + across)  # even rows are seen by the middle tap, odd rows by the outer two
    else:
        taps = (1 - down) * (1 - across)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, taps * COUT, BK):
        k = start + tl.arange(0, BK)
        tap = tl.max_constancy(k // COUT, VECTOR)
        channel = tl.max_contiguous(tl.multiple_of(k % COUT, VECTOR), VECTOR)
        first, second = tap // (1 + across), tap % (1 + across)
        i = a[:, None] + (down * (1 - first))[None, :]
        j = b[:, None] + (across * (1 - second))[None, :]
        valid = (i < out_height) & (j < out_width) & (k < taps * COUT)[None, :] & (image < images)[:, None]
        place = tl.multiple_of(((image[:, None] * out_height + i) * out_width + j) * COUT, (1, VECTOR))
        grad = tl.load(dy + place + channel[None, :], mask=valid, other=0.0)
        if SIDE == 3:
            row, column = 1 - down + 2 * down * first, 1 - across + 2 * across * second
        else:
            row, column = 0 * first, 0 * second
        # turned weights: (in, taps in reverse, out)
        turned = SIDE * SIDE - 1 - row * SIDE - column
        there = (turned * COUT + channel)[:, None] + n[None, :] * (SIDE * SIDE * COUT)
        inside_weight = (k < taps * COUT)[:, None] & (n < CIN)[None, :]
        one = tl.load(weight + there, mask=inside_weight, other=0.0)
        two = tl.load(rest + there, mask=inside_weight, other=0.0)
        total = product(grad, one, two, total)
    i, j = 2 * a + down, 2 * b + across
    place = ((image * height + i) * width + j)[:, None] * CIN + n[None, :]
    tl.store(dx + place, total, mask=((image < images) & (i < height) & (j < width))[:, None] & (n < CIN)[None, :])


@triton.jit(do_not_specialize=["splits"])
def weight_kernel(
    x, dy, part, starts, splits,
    height: tl.constexpr, width: tl.constexpr, out_height: tl.constexpr, out_width: tl.constexpr,
    CIN: tl.constexpr, COUT: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    BP: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """part[group, split, n, k] = Σ over the split's pixels of patch(x)[m, k]·dy[m, n]."""
    TAPS: tl.constexpr = SIDE * SIDE
    K: tl.constexpr = TAPS * CIN
    VECTOR: tl.constexpr = 4 if CIN % 4 == 0 else 1
    TILES: tl.constexpr = (COUT + BN - 1) // BN
    k = (tl.program_id(0) // TILES) * BK + tl.arange(0, BK)
    n = (tl.program_id(0) % TILES) * BN + tl.arange(0, BN)
    group = tl.program_id(1) // splits
    area = out_height * out_width
    first, last = tl.load(starts + group) * area, tl.load(starts + group + 1) * area
    share = (last - first + splits - 1) // splits
    low = first + (tl.program_id(1) % splits) * share
    high = tl.minimum(low + share, last)
    tap = tl.max_constancy(k // CIN, VECTOR)
    row, column = tap // SIDE, tap % SIDE
    channel = tl.max_contiguous(tl.multiple_of(k % CIN, VECTOR), VECTOR)
    offset = (row * width + column) * CIN + channel
    total = tl.zeros((BK, BN), tl.float32)
    for start in range(low, high, BP):
        m = start + tl.arange(0, BP)
        inside = m % area
        top = (inside // out_width) * STRIDE - PAD
        left = (inside % out_width) * STRIDE - PAD
        base = tl.multiple_of((((m // area) * height + top) * width + left) * CIN, VECTOR)
        i, j = top[None, :] + row[:, None], left[None, :] + column[:, None]
        valid = (i >= 0) & (i < height) & (j >= 0) & (j < width) & (m < high)[None, :] & (k < K)[:, None]
        patch = tl.load(x + offset[:, None] + base[None, :], mask=valid, other=0.0)
        there = m[:, None] * COUT + n[None, :]
        grad = tl.load(dy + there, mask=(m < high)[:, None] & (n < COUT)[None, :], other=0.0)
        if grad.dtype == tl.float32:
            rough = coarse(grad)
            total = product(patch, rough, grad - rough, total)
        else:
            total = product(patch, grad, grad, total)
    # in the order of the parameter's own elements: out, in, row, column
    place = n[None, :] * K + ((k % CIN) * TAPS + k // CIN)[:, None]
    whole = tl.program_id(1).to(tl.int64) * (K * COUT)
    tl.store(part + whole + place, total, mask=(k < K)[:, None] & (n < COUT)[None, :])
