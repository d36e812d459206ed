"""Bad input says what is wrong, where, and what to do; odd input gives the right answer.

No argument is changed.
"""
import pytest

import bad_input

ROWS = bad_input.rows()
FUNCTIONS = """
Sequences Gaussian Categorical Poisson HMMOP thin unthin stationary fit_known fit_naive fit_random
fit_analytic fit_matching fit_gaps fit_em Prior Posterior log_likelihood decode posterior_marginals
place""".split()


def test_the_table_is_long_enough():
    assert sum(bool(row.says) for row in ROWS) >= 90
    assert sum(not row.says for row in ROWS) >= 15
    assert set(FUNCTIONS) <= {row.function.split(".")[0] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.function}: {row.what}")
def test_row(row):
    told = bad_input.tell(row)
    assert told.ok, f"{told.outcome} (wanted {row.says or 'the same answer'})"
