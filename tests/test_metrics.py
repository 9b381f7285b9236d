"""Metrics on a matrix whose answers were worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samc import metrics

# untrained, then after tasks 1, 2, 3
MATRIX = np.array([[0.5, 0.4, 0.3], [0.9, 0.5, 0.4], [0.7, 0.8, 0.6], [0.8, 0.6, 1.0]])


def test_by_hand():
    assert metrics.average_accuracy(MATRIX) == pytest.approx((0.8 + 0.6 + 1.0) / 3)
    assert metrics.backward_transfer(MATRIX) == pytest.approx(((0.8 - 0.9) + (0.6 - 0.8)) / 2)
    assert metrics.backward_transfer(MATRIX, gem2017=True) == pytest.approx(((0.8 - 0.9) + (0.6 - 0.8)) / 3)
    assert metrics.forward_transfer(MATRIX) == pytest.approx(((0.5 - 0.4) + (0.6 - 0.3)) / 2)
    assert metrics.forgetting(MATRIX) == pytest.approx(((0.9 - 0.8) + (0.8 - 0.6)) / 2)
    assert metrics.just_learnt(MATRIX).tolist() == [0.9, 0.8, 1.0]
    so_far = 0.9, (0.7 + 0.8) / 2, (0.8 + 0.6 + 1.0) / 3
    assert metrics.average_incremental_accuracy(MATRIX) == pytest.approx(sum(so_far) / 3)


def test_forgetting_is_not_minus_bwt_where_a_task_first_improved():
    matrix = [[0, 0, 0], [0.5, 0, 0], [0.9, 0.5, 0], [0.6, 0.5, 0.5]]
    assert metrics.backward_transfer(matrix) == pytest.approx(0.05)
    assert metrics.forgetting(matrix) == pytest.approx(0.15)


BETWEEN = [[[0.1], [0.2]], [[0.3, 0.1], [0.65, 0.2]], [[0.75, 0.7, 0.1], [0.6, 0.5, 0.9]]]
# tests within tasks 1, 2, 3, of the tasks up to each


def test_the_stability_gap_by_hand():
    """Task 1 falls to 0.3 between 0.9 and 0.7, and to 0.6 between 0.7 and 0.8; task 2 to 0.5 between 0.8 and 0.6."""
    assert metrics.stability_gap(MATRIX, BETWEEN) == pytest.approx(((0.7 - 0.3) + (0.7 - 0.6) + (0.6 - 0.5)) / 3)
    assert metrics.lowest_accuracy(MATRIX, BETWEEN) == pytest.approx((0.3 + 0.5) / 2)


def test_without_tests_between_there_is_no_gap():
    assert metrics.stability_gap(MATRIX, [[], [], []]) == 0
    assert metrics.lowest_accuracy(MATRIX, [[], [], []]) == pytest.approx((0.7 + 0.6) / 2)
    assert metrics.stability_gap([[0.2], [0.9]], [[[0.5]]]) == 0
    assert metrics.lowest_accuracy([[0.2], [0.9]], [[[0.5]]]) == pytest.approx(0.9)
    # an accuracy that only rises between two tests falls below neither
    assert metrics.stability_gap(MATRIX, [[], [[0.95, 0.1]], []]) == 0


def test_one_task_transfers_nothing():
    matrix = [[0.2], [0.9]]
    assert metrics.average_accuracy(matrix) == 0.9
    assert metrics.backward_transfer(matrix) == metrics.forward_transfer(matrix) == metrics.forgetting(matrix) == 0


@pytest.mark.parametrize("shape", [(3, 3), (3, 1), (1, 0), (4,)])
def test_a_matrix_without_its_untrained_row_is_refused(shape):
    with pytest.raises(ValueError, match="a row for no task and one for each task"):
        metrics.average_accuracy(np.zeros(shape))


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_forgetting_bounds_minus_bwt(tasks, random):
    matrix = np.array([[random.random() for _ in range(tasks)] for _ in range(tasks + 1)])
    assert metrics.forgetting(matrix) >= -metrics.backward_transfer(matrix) - 1e-12
    assert metrics.forgetting(matrix) >= 0
