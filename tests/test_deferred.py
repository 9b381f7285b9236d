"""Work that is done a step later: in order, once, and in time for whoever asks."""

import numpy as np
import pytest
import torch

from samc.engine.deferred import DeferredQueue, to_host_async


def test_at_most_so_many_are_left_undone_and_all_in_order():
    done, queue = [], DeferredQueue(lag=2)
    for number in range(5):
        queue.put(lambda number=number: done.append(number))
        assert done == list(range(max(0, number - 1)))
    queue.flush()
    assert done == [0, 1, 2, 3, 4]


def test_without_a_lag_everything_is_done_at_once():
    queue = DeferredQueue(lag=0)
    assert queue.put(lambda: 7).result == 7


def test_asking_does_what_came_before_but_not_what_comes_after():
    done, queue = [], DeferredQueue(lag=9)
    deferred = [queue.put(lambda number=number: done.append(number) or number) for number in range(4)]
    assert deferred[2]() == 2
    assert done == [0, 1, 2]
    assert deferred[0]() == 0  # asking again does nothing again
    assert done == [0, 1, 2]


def test_a_job_that_fails_is_not_tried_again():
    queue = DeferredQueue(lag=1)
    queue.put(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        queue.flush()
    queue.flush()


def test_on_the_host_nothing_has_to_travel():
    values = torch.arange(6, dtype=torch.uint8).view(2, 3)
    assert np.array_equal(to_host_async(values)(), values.numpy())
