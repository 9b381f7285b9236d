"""The cone against quadprog, which solves the same problem in its own way, and on the inputs that make others fail."""

import numpy as np
import pytest
import quadprog
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from samc.projection import RIDGE, products, project, solve_dual
from toys import needs_triton


def oracle(gram, overlaps, margin, ridge=RIDGE):
    size = len(overlaps)
    return quadprog.solve_qp(gram + ridge * np.eye(size), -overlaps, np.eye(size), np.full(size, margin))[0]


def agrees(references, gradient, margin):
    """The weights agree with quadprog's; and the projected gradient, which is what is used."""
    gram, overlaps = references @ references.T, references @ gradient
    ours, theirs = solve_dual(gram, overlaps, margin), oracle(gram, overlaps, margin)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * max(1, np.abs(theirs).max()))
    np.testing.assert_allclose(
        gradient + ours @ references, gradient + theirs @ references, rtol=1e-5, atol=1e-5 * np.linalg.norm(gradient)
    )


def test_one_constraint_by_hand():
    # G = 4, overlap = −2: v = 2/4 without a ridge; the projection removes what points against the reference
    gradient, reference = torch.tensor([-1.0, 3.0]), torch.tensor([[2.0, 0.0]])
    assert project(gradient, reference, margin=0.0, ridge=0.0).tolist() == pytest.approx([0.0, 3.0])
    # a margin above that solution wins: v = 0.75
    assert project(gradient, reference, margin=0.75, ridge=0.0).tolist() == pytest.approx([0.5, 3.0])


def test_a_gradient_inside_the_cone_is_returned_itself():
    gradient = torch.tensor([1.0, 1.0])
    assert project(gradient, torch.eye(2), margin=0.5) is gradient


@pytest.mark.slow
def test_a_thousand_random_problems():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        tasks, size = rng.integers(1, 25), rng.integers(1, 60)
        scale = 10.0 ** rng.uniform(-2, 2)
        agrees(scale * rng.normal(size=(tasks, size)), scale * rng.normal(size=size), rng.choice([0.0, 0.1, 0.5, 1.0]))


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["duplicates", "zeros", "one zero", "nearly parallel", "opposite", "rank one"])
def test_degenerate_references(kind, margin):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(6, 40))
    references = {
        "duplicates": np.repeat(base[:2], 3, axis=0),
        "zeros": np.zeros_like(base),
        "one zero": base * (np.arange(6) != 3)[:, None],
        "nearly parallel": base[:1] + 1e-6 * base,
        "opposite": np.concatenate([base[:3], -base[:3]]),
        "rank one": np.outer(rng.normal(size=6), base[0]),
    }[kind]
    for _ in range(20):
        agrees(references, rng.normal(size=40), margin)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 2), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_the_solution_satisfies_its_optimality_conditions(tasks, size, margin, seed):
    rng = np.random.default_rng(seed)
    references, gradient = rng.normal(size=(tasks, size)), rng.normal(size=size)
    gram, overlaps = references @ references.T, references @ gradient
    weights = solve_dual(gram, overlaps, margin)
    grads = (gram + RIDGE * np.eye(tasks)) @ weights + overlaps
    assert (weights >= margin).all()
    assert (grads >= -1e-7).all()
    assert np.abs(grads * (weights - margin)).max() < 1e-6


@given(st.integers(1, 10), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_no_past_task_objects_afterwards(tasks, seed):
    random = torch.Generator().manual_seed(seed)
    references, gradient = (torch.randn(*shape, generator=random) for shape in ((tasks, 50), (50,)))
    projected = project(gradient, references, margin=0.0, ridge=0.0)
    assert bool((references @ projected >= -1e-3).all())


@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e12])
def test_any_scale_ends_and_is_finite(scale):
    random = torch.Generator().manual_seed(0)
    references = torch.randn(5, 30, generator=random).repeat(3, 1) * scale
    gradient = -references.mean(0)
    assert bool(torch.isfinite(project(gradient, references, margin=0.5)).all())


def test_more_tasks_than_dimensions():
    rng = np.random.default_rng(0)
    references, gradient = rng.normal(size=(300, 100)), rng.normal(size=100)
    agrees(references, gradient, 0.5)


def test_a_diverged_gradient_is_left_alone():
    gradient = torch.tensor([float("nan"), 1.0])
    assert project(gradient, torch.eye(2), margin=0.5) is gradient


@needs_triton
@pytest.mark.parametrize("kind", ["spread", "nearly parallel", "equal", "agreeing"])
@pytest.mark.parametrize("count", [1, 2, 7, 19])
def test_the_kernel_finds_what_the_host_finds(count, kind):
    """The quadratic program as a GPU solves it, in Triton's interpreter."""
    from samc.engine.kernels.qp import dual_weights

    random = np.random.default_rng(count)
    references = random.normal(size=(count, 60))
    if kind == "nearly parallel":
        references = references[:1] + 1e-3 * references
    if kind == "equal":
        references[:] = references[:1]
    gradient = references.sum(0) if kind == "agreeing" else random.normal(size=60) - 2 * references.mean(0)
    gram, overlaps = references @ references.T, references @ gradient
    for margin in (0.0, 0.5):
        found = dual_weights(torch.tensor(gram), torch.tensor(overlaps), margin, RIDGE).numpy()
        expected = solve_dual(gram, overlaps, margin) if (overlaps < 0).any() else np.zeros(count)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@needs_triton
def test_the_kernel_leaves_a_network_alone_that_has_diverged():
    from samc.engine.kernels.qp import dual_weights

    assert dual_weights(torch.eye(2).double(), torch.tensor([torch.nan, -1.0]).double(), 0.5, RIDGE).tolist() == [0, 0]


def test_products_keep_seven_digits():
    rows = torch.randn(3, 1_000_003, generator=torch.Generator().manual_seed(0))
    expected = rows.double() @ rows.double().T
    assert float((products(rows, rows) - expected).abs().max()) < 3e-7 * 1e6
