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


def test_a_flush_from_inside_such_work_does_not_run_later_work_early():
    done, queue = [], DeferredQueue(lag=9)

    def first():
        queue.flush()
        done.append("first")

    def second():
        queue.put(lambda: done.append("put by the second"))
        queue.flush()
        done.append("second")

    for work in (first, second, lambda: done.append("third")):
        queue.put(work)
    queue.flush()
    assert done == ["first", "second", "third", "put by the second"]
    assert not queue.waiting


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_what_such_work_puts_itself_comes_after_what_waits_already(lag):
    done, queue = [], DeferredQueue(lag)

    def work(number):
        queue.put(lambda: done.append(f"put by {number}"))
        queue.flush()
        done.append(number)

    for number in range(4):
        queue.put(lambda number=number: work(number))
    queue.flush()
    assert [entry for entry in done if isinstance(entry, int)] == [0, 1, 2, 3]
    assert [entry for entry in done if isinstance(entry, str)] == [f"put by {number}" for number in range(4)]
    assert all(done.index(number) < done.index(f"put by {number}") for number in range(4))


def test_work_that_asks_for_what_comes_after_it_is_told_so():
    queue, later = DeferredQueue(lag=9), []
    early = queue.put(lambda: [deferred() for deferred in later])
    later.append(queue.put(lambda: 7))
    with pytest.raises(RuntimeError, match="asked for the result of work that is done after it"):
        early()
    assert later[0]() == 7


def test_on_the_host_nothing_has_to_travel():
    values = torch.arange(6, dtype=torch.uint8).view(2, 3)
    assert np.array_equal(to_host_async(values)(), values.numpy())
