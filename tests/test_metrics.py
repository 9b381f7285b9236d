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


def test_forgetting_is_not_minus_bwt_where_a_task_first_improved():
    matrix = [[0, 0, 0], [0.5, 0, 0], [0.9, 0.5, 0], [0.6, 0.5, 0.5]]
    assert metrics.backward_transfer(matrix) == pytest.approx(0.05)
    assert metrics.forgetting(matrix) == pytest.approx(0.15)


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
