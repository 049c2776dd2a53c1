"""Tests of the rows of the evaluation tables, against figures computed by hand."""

import numpy as np

from data import HORIZON, STATE, Batch, Floats
from evaluate import demand_row, need_row, spread
from quantile import LEVELS


def constant(value: float) -> Floats:
    """Returns the same value at all levels of two examples."""
    return np.full((2, len(LEVELS)), value, np.float32)


def test_needs_of_one_seed() -> None:
    # One node held, with needs of 0 and 2, costs 1 - q and q at each level: 0.5 on average.
    row = need_row("log", "model", np.array([0.0, 2.0], np.float32), [constant(1.0)])
    assert row == "| log | model | 0.5000 | 0.500, 0.500 | 1.00 |"


def test_needs_of_two_seeds() -> None:
    # Two nodes held cost 2 (1 - q) and 0, and the mean of the twelve levels is 0.6179, so the loss is
    # 0.3821. The mean is (0.5 + 0.3821) / 2, and the deviation is |difference| / sqrt 2.
    row = need_row("log", "model", np.array([0.0, 2.0], np.float32), [constant(1.0), constant(2.0)])
    assert row == "| log | model | 0.4410 ± 0.0834 | 0.500, 0.750 | 1.50 |"


def test_demand_errors_are_scaled_by_the_maximum_and_skip_missing_values() -> None:
    ahead = np.full((2, HORIZON), 1.0, np.float32)
    ahead[1] = np.nan
    state = np.zeros((2, len(STATE)), np.float32)
    batch = Batch(target=state, time=np.zeros((2, 0), np.int64), state=state, need=state[:, 0], ahead=ahead)
    medians = np.full((2, HORIZON, len(LEVELS)), 0.5, np.float32)
    assert demand_row("log", batch, [medians], 2.0) == "| log | 0.25, 0.0625 | 0.25, 0.0625 | 0.25, 0.0625 |"


def test_one_figure_has_no_standard_deviation() -> None:
    assert spread([0.25], ".2f") == "0.25"
    assert spread([1.0, 3.0], ".1f") == "2.0 ± 1.4"
