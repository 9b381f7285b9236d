"""GEM's cone: the gradient nearest to the proposed one that no past task objects to; exact, and it cannot fail."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

RIDGE = 1e-3
# added to the Gram diagonal, as in the authors' code, so that equal or vanishing references leave one solution


BLOCK = 1 << 12
# products that are added up in single precision before they go into a double
MOST_ON_DEVICE = 127
# references that the device's own solver takes; beyond, their products cross over to the host


def project(
    gradient: Float[Tensor, "p"], references: Float[Tensor, "t p"], margin: float, ridge: float = RIDGE
) -> Float[Tensor, "p"]:
    """The gradient itself if it has an acute angle with every reference, else its projection."""
    if gradient.device.type == "cuda" and len(references) <= MOST_ON_DEVICE:
        from samc.engine.kernels.qp import dual_weights  # noqa: PLC0415  (Triton is only where a GPU is)

        weights = dual_weights(
            products(references, references), products(references, gradient[None])[:, 0], margin, ridge
        )
        return gradient + weights @ references
    overlaps = products(references, gradient[None])[:, 0].cpu().numpy()
    if (overlaps >= 0).all() or not np.isfinite(overlaps).all():  # a network that has diverged has no cone
        return gradient
    gram = products(references, references).cpu().numpy()
    weights = torch.from_numpy(solve_dual(gram, overlaps, margin, ridge)).to(gradient)
    return gradient + weights @ references


def products(left: Float[Tensor, "s p"], right: Float[Tensor, "t p"]) -> Float64[Tensor, "s t"]:
    """Every row of one with every row of the other: blocks in single precision, their sum in double.

    In single precision alone a sum over a million products keeps four digits (measured: 8e-5), too few to tell nearly
    parallel references apart; so it keeps seven, and nothing is copied.
    """
    count = left.shape[1] // BLOCK
    whole = count * BLOCK
    a, b = (part[:, :whole].unflatten(1, (count, BLOCK)).transpose(0, 1) for part in (left, right))
    rest = left[:, whole:].double() @ right[:, whole:].double().T
    return torch.bmm(a, b.mT).sum(0, dtype=torch.float64) + rest


def solve_dual(
    gram: Float[np.ndarray, "t t"], overlaps: Float[np.ndarray, "t"], margin: float, ridge: float = RIDGE
) -> Float[np.ndarray, "t"]:
    """argmin ½ vᵀ(G + ridge·I)v + overlapsᵀv  subject to v ≥ margin: the weight of each reference."""
    size = len(overlaps)
    # rounding of the Gram matrix grows with its entries; a ridge below that would not make it definite
    floor = 8 * size * np.finfo(np.float64).eps * float(np.trace(gram))
    definite = (gram + gram.T) / 2 + max(ridge, floor) * np.eye(size)
    # v = margin + u turns the bound into u ≥ 0
    return margin + non_negative(definite, -(overlaps + margin * definite.sum(1)))


def non_negative(matrix: Float[np.ndarray, "t t"], target: Float[np.ndarray, "t"]) -> Float[np.ndarray, "t"]:
    """argmin ½ uᵀAu − bᵀu subject to u ≥ 0, for a positive definite A: Lawson and Hanson's active-set method.

    `free` holds the entries that may differ from zero. Each round frees the one whose slope is steepest, solves
    for the free entries alone, and pins again those that would turn negative. The objective falls with every round
    and there are finitely many sets; rounding is met by ending at the first round that frees nothing new.
    """
    solution = np.zeros_like(target)
    free = np.zeros(len(target), bool)
    scale = np.abs(target).max() + np.abs(matrix).max()
    tried: set[bytes] = set()
    while True:
        slopes = np.where(free, -np.inf, target - matrix @ solution)
        steepest = int(slopes.argmax())
        if slopes[steepest] <= 1e-13 * scale or free.tobytes() in tried:
            return solution
        tried.add(free.tobytes())
        free[steepest] = True
        while free.any():
            proposed = np.zeros_like(target)
            proposed[free] = np.linalg.solve(matrix[np.ix_(free, free)], target[free])
            falling = free & (proposed <= 0)
            if not falling.any():
                solution = proposed
                break
            # go towards the proposal as far as the first entry that reaches zero, and pin it there
            shares = np.full_like(target, np.inf)
            shares[falling] = solution[falling] / np.maximum(solution - proposed, np.finfo(float).tiny)[falling]
            solution = solution + shares.min() * (proposed - solution)
            free &= shares > shares.min()
            solution[~free] = 0
