"The saved study of correctness is complete and says what the page says; mutants are caught now."
import csv
from pathlib import Path

import numba
import numpy as np
import pytest

from hmmop_nb.lab import trust

RESULTS = Path(__file__).resolve().parents[1] / "nbs" / "results"


def load(name):
    with open(RESULTS / name) as file: return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def one_thread():
    "The data are small: a second thread would only wait."
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(threads)


def stamped():
    "Whether the tables name their code; then they hold everything, made by one run."
    codes = {r.get("code") for name in ("tests", "ranks", "mutants") for r in load(f"trust_{name}.csv")}
    assert len(codes) == 1, f"rows of different code stand side by side: {codes}"
    return codes != {None}


@pytest.fixture(scope="module")
def limit(): return .01 / sum(trust.SETTINGS[r["name"]].right for r in load("trust_tests.csv"))


def test_every_setting_was_tested_in_full():
    rows, ranks = load("trust_tests.csv"), load("trust_ranks.csv")
    rng = np.random.default_rng(0)
    def found(name, test):
        return {r["quantity"] for r in rows if (r["name"], r["test"]) == (name, test)}
    studied = {name: s for name, s in trust.SETTINGS.items() if stamped() or name not in trust.LIVE}
    for name, setting in studied.items():
        names = set(trust.quantities_at(setting, [trust.draw_point(setting, rng)], [0.]))
        assert {r["quantity"] for r in ranks if r["name"] == name} == names
        assert found(name, "calibration") == names
        assert found(name, "joint") == names | {k + "²" for k in names}
    quadrature = {r["name"] for r in rows if r["test"] == "quadrature"}
    assert quadrature == {s.name for s in trust.kinds()} & set(studied)
    assert all(len(r["ranks"]) == trust.SETTINGS[r["name"]].rounds for r in ranks)


def test_saved_p_values_follow_from_saved_ranks():
    tests = [r for r in load("trust_tests.csv") if r["test"] == "calibration"]
    p = {(r["name"], r["quantity"]): float(r["p"]) for r in tests}
    for r in load("trust_ranks.csv"):
        again = trust.rank_p(np.array([trust.DIGITS.index(c) for c in r["ranks"]]))
        assert again == pytest.approx(p[r["name"], r["quantity"]], rel=.02, abs=1e-12)


def test_only_the_algorithm_as_printed_fails(limit):
    failed = {r["name"] for r in load("trust_tests.csv") if float(r["p"]) < limit}
    wrong = {name for name, setting in trust.SETTINGS.items() if not setting.right}
    assert failed == wrong == {"Matching paper: psi"}


def test_every_mutant_was_caught_or_is_named_as_one_that_may_slip(limit):
    rows = load("trust_mutants.csv")
    assert len(trust.MUTANTS) == 35 and set(trust.MAY_SLIP) == set(trust.LIVE_MUTANTS) # all are caught below
    for name in trust.MUTANTS:
        mine = [r for r in rows if r["name"] == name]
        if not mine and not stamped() and name in trust.MAY_SLIP: continue # older than the mutant
        assert {r["test"] for r in mine} == {"joint", "calibration", "quadrature"}
        assert min(float(r["p"]) for r in mine) < limit or name in trust.MAY_SLIP, name


@pytest.mark.parametrize("name", ["lost beginning", "keep for odds", "omitted weigh one"])
def test_a_mutant_is_caught_now(name, limit):
    mutant = trust.MUTANTS[name]
    setting, cycles = trust.SETTINGS[mutant.setting], 450
    healthy = trust.worst(trust.joint_test(setting, cycles))[1]
    with trust.infected(mutant): sick = trust.worst(trust.joint_test(setting, cycles))[1]
    assert sick.p < limit < healthy.p


@pytest.mark.parametrize("name", trust.LIVE_MUTANTS)
def test_a_mutant_that_may_slip_through_the_study_is_caught_now(name):
    "By a shorter run, and at a limit that fits so few comparisons."
    mutant = trust.MUTANTS[name]
    setting = trust.SETTINGS[mutant.setting]
    with trust.infected(mutant):
        cycles = {"law ignored": 300, "no correction": 450}.get(name)
        if cycles: found = trust.joint_test(setting, cycles)
        else: found = trust.quadrature_test(setting, 1000)
    assert trust.worst(found)[1].p < 1e-3


@pytest.mark.parametrize("name", trust.LIVE)
def test_lists_of_all_kinds_pass_a_short_joint_test(name):
    "Some twenty comparisons; a right sampler fails one of them at this limit once in five hundred runs."
    assert trust.worst(trust.joint_test(trust.SETTINGS[name], 150))[1].p > 1e-4


@pytest.mark.parametrize("name", trust.MUTANTS)
def test_a_mutant_leaves_no_trace(name):
    "Every mutant can be made from the present code; the package is whole again afterwards."
    changed = trust.MUTANTS[name].make()
    before = {(home, key): getattr(home, key) for home, key in changed}
    with trust.infected(trust.MUTANTS[name]):
        assert all(getattr(home, key) is not old for (home, key), old in before.items())
    assert all(getattr(home, key) is old for (home, key), old in before.items())


@pytest.mark.parametrize("name", trust.MUTANTS)
def test_a_mutant_infects_its_setting(name):
    "With the same random numbers the chain goes elsewhere; else the error sits in unused code."
    mutant = trust.MUTANTS[name]
    setting = trust.SETTINGS[mutant.setting]
    healthy = trust.joint_chain(setting, trust.CHAIN)
    with trust.infected(mutant):
        try: sick = trust.joint_chain(setting, trust.CHAIN)
        except (ValueError, FloatingPointError, IndexError): return # it stops: that is an effect
    assert any((healthy[key] != sick[key]).any() for key in healthy)


@pytest.mark.parametrize("name", ["Gaps", "Matching"])
def test_memory_does_not_grow(name):
    rows = [r for r in load("trust_long.csv") if r["run"] == name]
    sweeps = np.array([int(r["sweep"]) for r in rows])
    memory = np.array([float(r["resident_mb"]) for r in rows])
    assert sweeps[-1] == 10_000 and len(rows) > 20
    settled = memory[sweeps >= 1000]
    assert settled.max() - settled[0] < 4 # megabytes


def test_a_million_sequences_bring_no_surprise():
    """Matching draws T anew in its first sweep; Gaps began with 3% of flat probability mixed in,
    and needs some warm-up to lose it."""
    rows = {r["run"]: r for r in load("trust_long.csv") if r["l1"]}
    assert all(int(r["sequences"]) == 1_000_000 for r in rows.values())
    assert float(rows["Matching, one sweep"]["l1"]) < .002
    assert float(rows["Gaps, one sweep"]["l1"]) < .03


LOSS = list(trust.LOSS_SETTINGS)


def loss_limit(): return .01 / len(load("trust_omission_tests.csv"))


def test_every_sampler_of_the_omission_was_tested_in_full_and_passes():
    rows, ranks = load("trust_omission_tests.csv"), load("trust_omission_ranks.csv")
    rng = np.random.default_rng(0)
    for name, setting in trust.LOSS_SETTINGS.items():
        names = set(trust.quantities_at(setting, [trust.draw_point(setting, rng)], [0.]))
        mine = {(r["test"], r["quantity"]) for r in rows if r["name"] == name}
        assert {k for test, k in mine if test == "calibration"} == names
        assert {k for test, k in mine if test == "joint"} == names | {k + "²" for k in names}
        assert all(len(r["ranks"]) == setting.rounds for r in ranks if r["name"] == name)
    assert {r["name"] for r in rows} == set(LOSS) and min(float(r["p"]) for r in rows) > loss_limit()


def test_every_mutant_of_the_omission_was_caught_or_is_named_as_one_that_slips():
    rows, slipped = load("trust_omission_mutants.csv"), set()
    for name in trust.LOSS_MUTANTS:
        mine = [float(r["p"]) for r in rows if r["name"] == name]
        assert len(mine) == 2
        if min(mine) > loss_limit(): slipped.add(name)
    assert slipped <= set(trust.LOSS_SLIPS) and len(slipped) < len(trust.LOSS_MUTANTS) / 2


@pytest.mark.parametrize("name", LOSS)
def test_samplers_report_the_log_likelihood_of_the_oracles(name):
    setting, rng = trust.LOSS_SETTINGS[name], np.random.default_rng(3)
    point = trust.draw_point(setting, rng)
    data = trust.simulate(setting, point, rng)
    sampler = setting.sampler(setting.problem(data, point.model))
    state = setting.begin(sampler, point, np.uint64(5))
    prior = trust.losses.log_prior(sampler.problem, state.theta)
    assert state.log_density - prior == pytest.approx(trust.loss_log_likelihood(setting, point, data), rel=1e-9)


@pytest.mark.parametrize("name", trust.LOSS_MUTANTS)
def test_a_mutant_of_the_omission_infects_and_leaves_no_trace(name):
    mutant = trust.LOSS_MUTANTS[name]
    setting, before = trust.LOSS_SETTINGS[mutant.setting], {}
    healthy = trust.joint_chain(setting, 6)
    changed = mutant.make()
    before = {(home, key): getattr(home, key) for home, key in changed}
    with trust.infected(mutant):
        try: sick = trust.joint_chain(setting, 6)
        except (ValueError, FloatingPointError, IndexError): sick = None
    assert all(getattr(home, key) is old for (home, key), old in before.items())
    assert sick is None or any((healthy[key] != sick[key]).any() for key in healthy)


def test_a_broken_sampler_of_bursts_is_caught_now():
    mutant = trust.LOSS_MUTANTS["kind not named"]
    setting = trust.LOSS_SETTINGS[mutant.setting]
    healthy = trust.worst(trust.joint_test(setting, 240))[1]
    with trust.infected(mutant): sick = trust.worst(trust.joint_test(setting, 240))[1]
    assert sick.p < 1e-4 < healthy.p
