"""Work that is done a step later: in order, once, and in time for whoever asks."""

import numpy as np
import pytest
import torch
from samc.learners.later import Queue, fetched


def test_at_most_so_many_are_left_undone_and_all_in_order():
    done, queue = [], Queue(lag=2)
    for number in range(5):
        queue.put(lambda number=number: done.append(number))
        assert done == list(range(max(0, number - 1)))
    queue.settle()
    assert done == [0, 1, 2, 3, 4]


def test_without_a_lag_everything_is_done_at_once():
    queue = Queue(lag=0)
    assert queue.put(lambda: 7).result == 7


def test_asking_does_what_came_before_but_not_what_comes_after():
    done, queue = [], Queue(lag=9)
    promises = [queue.put(lambda number=number: done.append(number) or number) for number in range(4)]
    assert promises[2]() == 2
    assert done == [0, 1, 2]
    assert promises[0]() == 0  # asking again does nothing again
    assert done == [0, 1, 2]


def test_a_job_that_fails_is_not_tried_again():
    queue = Queue(lag=1)
    queue.put(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        queue.settle()
    queue.settle()


def test_on_the_host_nothing_has_to_travel():
    values = torch.arange(6, dtype=torch.uint8).view(2, 3)
    assert np.array_equal(fetched(values)(), values.numpy())
