"""ACC, BWT, FWT, forgetting and the like from accuracies: pure functions of fractions, never of percentages."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

Matrix = ArrayLike | Sequence[Sequence[float | None]]
# row 0 is the untrained network, row i the network after i tasks; column j is the test accuracy on task j. None, or
# NaN, where nobody could test: on a task that was unknown when earlier ones were learnt
Between = Sequence[Sequence[Sequence[float]]]
# for each task the tests that were made while it was learnt, each of the tasks up to it


def as_matrix(matrix: Matrix) -> Float[np.ndarray, "rows tasks"]:
    rows = np.asarray(matrix, float)
    if rows.ndim != 2 or len(rows) != rows.shape[1] + 1 or rows.shape[1] < 1:
        raise ValueError(f"an accuracy matrix has a row for no task and one for each task; got {rows.shape}")
    return rows


def just_learnt(matrix: Matrix) -> Float[np.ndarray, "tasks"]:
    """Each task's accuracy right after it was learnt."""
    return np.diag(as_matrix(matrix)[1:])


def average_accuracy(matrix: Matrix) -> float:
    """ACC: mean over the tasks after the last one."""
    return float(as_matrix(matrix)[-1].mean())


def average_incremental_accuracy(matrix: Matrix) -> float:
    """The mean over tasks of the accuracy over all tasks so far: iCaRL's measure, usual with one head."""
    rows = as_matrix(matrix)[1:]
    return float(np.mean([rows[last, : last + 1].mean() for last in range(len(rows))]))


def backward_transfer(matrix: Matrix, *, gem2017: bool = False) -> float:
    """BWT: what later learning did to earlier tasks: the sum of (accuracy at the end − when just learnt).

    It is divided by T − 1, the number of tasks that can be forgotten, as in GEM's paper: `bwt` of a record. With
    `gem2017` it is divided by T, as in GEM's code and in the SAMC paper's released metrics.py: `bwt_by_t` of a record,
    which is what stands beside the paper's figures. By T it is the smaller: by a fifth of five tasks.
    """
    changes = as_matrix(matrix)[-1] - just_learnt(matrix)
    count = len(changes) if gem2017 else len(changes) - 1
    return float(changes.sum() / count) if count else 0.0  # the last task's change is zero


def forward_transfer(matrix: Matrix) -> float:
    """FWT: accuracy on a task just before it is learnt, above the untrained network's; over T − 1 tasks.

    Fewer where the untrained network was not tested on all of them.
    """
    rows = as_matrix(matrix)
    gains = np.diag(rows[:-1])[1:] - rows[0, 1:]
    gains = gains[~np.isnan(gains)]
    return float(gains.mean()) if len(gains) else 0.0


def forgetting(matrix: Matrix) -> float:
    """The best accuracy a task ever had, once learnt, less its last; over T − 1 tasks. Not always −BWT."""
    rows = as_matrix(matrix)[1:]
    losses = [rows[task:, task].max() - rows[-1, task] for task in range(len(rows) - 1)]
    return float(np.mean(losses)) if losses else 0.0


def lowest_accuracy(matrix: Matrix, between: Between) -> float:
    """min-ACC (De Lange et al. 2023): the lowest accuracy that a task ever had, once learnt; mean over T − 1 tasks.

    Tests between those of the matrix count too.
    """
    rows = as_matrix(matrix)[1:]
    lows = [
        min([*rows[task:, task], *(test[task] for tests in between[task + 1 :] for test in tests)])
        for task in range(len(rows) - 1)
    ]
    return float(np.mean(lows)) if lows else float(rows[-1].mean())


def stability_gap(matrix: Matrix, between: Between) -> float:
    """How far accuracy falls between two tests of the matrix below the lower of them, and comes back.

    Mean over each task and each later one that was tested while it was learnt; 0 where none was.
    """
    rows = as_matrix(matrix)
    gaps = [
        max(0.0, min(rows[now, task], rows[now + 1, task]) - min(test[task] for test in tests))
        for now, tests in enumerate(between)
        for task in range(now)
        if tests
    ]
    return float(np.mean(gaps)) if gaps else 0.0
