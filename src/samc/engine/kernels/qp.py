"""GEM's quadratic program on a GPU, in Triton: the same active-set method as in cone.py, and the host need not wait."""

import numpy as np
import torch
import triton
import triton.language as tl
from jaxtyping import Float, Float64
from torch import Tensor


@triton.jit
def exchange(table, target, k, ROWS, COLUMNS, LINE):
    """One variable changes sides between free and pinned (a principal pivot): doing it twice changes nothing.

    Afterwards `target` holds the solution for free variables and the grad for pinned ones.
    """
    row = tl.sum(tl.where(k == ROWS, table, 0.0), 0)
    column = tl.sum(tl.where(k == COLUMNS, table, 0.0), 1)
    pivot = tl.sum(tl.where(k == LINE, row, 0.0), 0)
    here = tl.sum(tl.where(k == LINE, target, 0.0), 0)
    moved = table - column[:, None] * row[None, :] / pivot
    moved = tl.where(k == ROWS, row[None, :] / pivot, moved)
    moved = tl.where(k == COLUMNS, -column[:, None] / pivot, moved)
    moved = tl.where((k == ROWS) & (k == COLUMNS), 1 / pivot, moved)
    return moved, tl.where(k == LINE, here / pivot, target - column * here / pivot)


@triton.jit(do_not_specialize=["count", "most"])
def dual_kernel(gram, overlaps, weights, count, margin, ridge, tolerance, most, SIZE: tl.constexpr):
    """weights = argmin ½vᵀ(G + ridge·I)v + overlapsᵀv subject to v ≥ margin; zero where nobody objects."""
    line = tl.arange(0, SIZE)
    rows, columns = line[:, None] + 0 * line[None, :], line[None, :] + 0 * line[:, None]
    real = line < count
    square = (rows < count) & (columns < count)
    table = tl.load(gram + rows * count + columns, mask=square, other=0.0)
    table = (table + tl.load(gram + columns * count + rows, mask=square, other=0.0)) / 2
    overlap = tl.load(overlaps + line, mask=real, other=0.0)
    trace = tl.sum(tl.sum(tl.where(rows == columns, table, 0.0), 0), 0)
    # rounding of the Gram matrix grows with its entries; a ridge below that would not make it definite
    table += tl.where(rows == columns, tl.maximum(ridge, tolerance * count * trace), 0.0)
    table = tl.where((rows == columns) & (rows >= count), 1.0, table)
    target = tl.where(real, -(overlap + margin * tl.sum(tl.where(square, table, 0.0), 1)), -1.0)
    least = 1e-13 * (tl.max(tl.abs(target), 0) + tl.max(tl.max(tl.abs(table), 0), 0))
    free = line < 0
    solution = tl.zeros((SIZE,), tl.float64)
    finite = tl.sum(tl.where(real & ~(tl.abs(overlap) < float("inf")), 1, 0), 0) == 0
    going = finite & (tl.min(overlap, 0) < 0)
    objected = going
    pivots = 0
    while going & (pivots < most):
        grads = tl.where(free | (line >= count), -float("inf"), target)
        steepest = tl.max(grads, 0)
        going = steepest > least
        if going:
            k = tl.min(tl.where(grads == steepest, line, SIZE), 0)
            table, target = exchange(table, target, k, rows, columns, line)
            free = free | (line == k)
            pivots += 1
            falling = free & (target <= 0)
            while (tl.sum(tl.where(falling, 1, 0), 0) > 0) & (pivots < most):
                # towards the proposal as far as the first entry that reaches zero, which is pinned there
                proposed = tl.where(free, target, 0.0)
                shares = tl.where(falling, solution / tl.maximum(solution - proposed, 1e-300), float("inf"))
                share = tl.min(shares, 0)
                k = tl.min(tl.where(shares == share, line, SIZE), 0)
                solution = tl.where(line == k, 0.0, solution + share * (proposed - solution))
                table, target = exchange(table, target, k, rows, columns, line)
                free = free & (line != k)
                pivots += 1
                falling = free & (target <= 0)
            solution = tl.where(free, tl.maximum(target, 0.0), 0.0)
    found = tl.where(objected, margin + solution, 0.0)
    tl.store(weights + line, found.to(tl.float32), mask=real)


def dual_weights(
    gram: Float64[Tensor, "t t"], overlaps: Float64[Tensor, "t"], margin: float, ridge: float
) -> Float[Tensor, "t"]:
    """The weight of each reference in the projection."""
    count = len(overlaps)
    weights = torch.empty(count, device=gram.device)
    tolerance = 8 * float(np.finfo(np.float64).eps)
    # each round frees one variable; a few may be pinned again, and rounding must not turn for ever
    most = 8 * count + 32
    size = max(16, triton.next_power_of_2(count))
    dual_kernel[(1,)](gram.contiguous(), overlaps.contiguous(), weights, count, margin, ridge, tolerance, most, size,
                      num_warps=4 if size <= 64 else 8)  # fmt: skip
    return weights
