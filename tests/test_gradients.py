"""Flat gradients against backward(), and what batch norm is left with."""

import copy

import torch
from torch.nn import functional as F

from samc.gradients import Batch, descend, gradient, reference_gradients
from samc.models import ReducedResNet18


def model():
    net = ReducedResNet18(6, seed=3)
    for task, classes in enumerate(((0, 1), (2, 3), (4, 5))):
        net.assign(task, classes)
    return net


def batch(task, count, seed):
    random = torch.Generator().manual_seed(seed)
    return Batch(torch.rand(count, 3, 10, 10, generator=random), torch.arange(count) % 2 + 2 * task, task)


def by_backward(net, x, y, columns):
    """Mean cross-entropy where each row sees its own two columns of the full output."""
    net = copy.deepcopy(net).train()
    logits = net.linear(net.features(x).mean((2, 3)))
    mask = torch.full_like(logits, -torch.inf)
    for row, first in enumerate(columns):
        mask[row, first : first + 2] = 0
    loss = F.cross_entropy(logits + mask, y)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()]), loss.detach(), net


def test_one_task():
    net, now = model(), batch(1, 6, 0)
    expected, loss, after = by_backward(net, now.x, now.y, [2] * 6)
    found, found_loss = gradient(net, [now])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found_loss, loss)
    assert all(p.grad is None for p in net.parameters())
    for a, b in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_several_tasks_in_one_batch_each_with_its_own_head():
    net, parts = model(), [batch(2, 4, 1), batch(0, 2, 2), batch(1, 3, 3)]
    columns = [4] * 4 + [0] * 2 + [2] * 3
    x, y = torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts])
    expected, loss, _ = by_backward(net, x, y, columns)
    found, found_loss = gradient(net, parts)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found_loss, loss)


def test_references_are_one_gradient_a_task_with_its_own_statistics():
    net, parts = model(), [batch(0, 5, 1), batch(1, 3, 2)]
    after = copy.deepcopy(net)
    expected = [by_backward(net, p.x, p.y, [2 * p.task] * len(p.y))[0] for p in parts]
    found = reference_gradients(net, parts)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-6, rtol=1e-4)
    for part in parts:  # running statistics: as if each task's images had been shown in turn
        after.train()(part.x, part.task)
    for a, b in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_descend_is_sgd():
    net, other = model(), model()
    flat = torch.randn(sum(p.numel() for p in net.parameters()), generator=torch.Generator().manual_seed(0))
    start = 0
    for p in other.parameters():
        p.grad = flat[start : start + p.numel()].view_as(p).clone()
        start += p.numel()
    torch.optim.SGD(other.parameters(), lr=0.3).step()
    descend(net, flat, 0.3)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))
