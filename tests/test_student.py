"""Student's distribution and the tests made of it, against printed numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samc.report.student import moments, paired_p, student_quantile, student_tail, welch_p, welch_p_of_moments

# hours of sleep that ten patients gained by two drugs (Student 1908)
FIRST = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
SECOND = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452)])
def test_students_quantile_is_the_printed_one(freedom, quantile):
    assert student_quantile(freedom) == pytest.approx(quantile, abs=5e-5)
    assert student_tail(student_quantile(freedom), freedom) == pytest.approx(0.05)


def test_many_degrees_are_nearly_normal():
    assert student_quantile(10_000) == pytest.approx(1.9602, abs=5e-5)
    assert student_tail(1.0, 1e6) == pytest.approx(math.erfc(1 / math.sqrt(2)), abs=1e-6)


@given(st.floats(0, 50))
def test_one_and_two_degrees_have_a_formula(t):
    assert student_tail(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-7)
    assert student_tail(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-7)


def test_degrees_between_whole_ones_lie_between_them():
    tails = [student_tail(2.0, freedom) for freedom in (4, 4.1, 4.5, 4.9, 5)]
    assert tails == sorted(tails, reverse=True)


def test_the_sleep_of_ten_patients():
    differences = [b - a for a, b in zip(FIRST, SECOND, strict=True)]
    assert paired_p(differences) == pytest.approx(0.002833, abs=5e-7)
    assert welch_p(FIRST, SECOND) == pytest.approx(0.07939, abs=5e-6)  # 17.776 degrees


def test_welch_with_unequal_numbers():
    assert welch_p((3.0, 4.0, 1.0, 2.1), (490.2, 340.0, 433.9)) == pytest.approx(0.010751561149785, rel=1e-10)


def test_welch_of_printed_means_and_deviations():
    # two degrees, by their formula: t = 2/√(3/3), where one does not scatter, and 2/√(1/2 + 1/2), where both do alike
    for pair in (((1.0, math.sqrt(3), 3), (3.0, 0.0, 5)), ((1.0, 1.0, 2), (3.0, 1.0, 2))):
        assert welch_p_of_moments(*pair) == pytest.approx(1 - 2 / math.sqrt(6))
    assert welch_p_of_moments(moments(FIRST), moments(SECOND)) == welch_p(FIRST, SECOND)
    assert welch_p_of_moments((1.0, 0.0, 1), (2.0, 1.0, 5)) is None
    assert welch_p_of_moments((1.0, 0.0, 3), (2.0, 0.0, 5)) is None


def test_no_test_of_one_value_or_of_values_that_do_not_scatter():
    assert [paired_p(values) for values in ((), (1.0,), (2.0, 2.0))] == [None] * 3
    assert [welch_p(*pair) for pair in (((1.0,), (1.0, 2.0)), ((1.0, 1.0), (2.0, 2.0)))] == [None] * 2
    assert welch_p((1.0, 1.0), (2.0, 3.0)) == pytest.approx(student_tail(3.0, 1))
