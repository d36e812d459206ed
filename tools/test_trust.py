"Every deliberate mistake is caught, anew, by the test that caught it best in the saved run."
import csv
import warnings
from pathlib import Path

import pytest

from hmmop_nb.trust import LEVEL, MUTANTS, SETTINGS, broken, calibration_p, calibration_ranks, grid_p, joint_ends, joint_p, worst

SAVED = Path(__file__).resolve().parents[1] / "nbs" / "results" / "trust_tests.csv"
TESTS = {"joint": lambda setting, seed: joint_p(joint_ends(setting, 80, seed=seed)), "grid": lambda setting, seed: grid_p(setting, seed=seed),
         "calibration": lambda setting, seed: calibration_p(calibration_ranks(setting, 40, seed=seed))}


def saved():
    with SAVED.open(newline="") as file: return [(row["name"], row["test"], float(row["p"])) for row in csv.DictReader(file)]


def test_the_saved_run_is_complete():
    names = {name for name, _, _ in saved()}
    assert names == {*SETTINGS, *MUTANTS}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_dies(name):
    p, test = min((p, test) for n, test, p in saved() if n == name)
    assert p < LEVEL
    with warnings.catch_warnings(), broken(MUTANTS[name]) as setting:
        warnings.simplefilter("ignore")
        again = worst(TESTS[test](setting, 0))
        if again[0] >= LEVEL: again = min(again, worst(TESTS[test](setting, 1))) # the last digits of another processor
    assert again[0] < LEVEL, again


@pytest.mark.parametrize("name", ["known", "matching, exact", "gaps, collapsed"])
def test_the_grid_passes_what_is_right(name): assert worst(grid_p(SETTINGS[name], seed=5))[0] > LEVEL
