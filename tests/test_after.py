"""After the fit: filters, forecasts, what was omitted, derived quantities and checks of the model."""
import pickle

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.derived import hitting_times, omitted_ahead, omitted_in, sequence_fates
from hmmop_nb.inference import full_walk, gap_laws, omitted_visits
from hmmop_nb.lab.checking import compare_fits, leave_one_out, pointwise
from hmmop_nb.lab.oracles import every_match

MODEL = hm.HMMOP([[.6, .4, 0], [.2, .5, .3], [.5, 0, .5]], [.5, .3, .2], hm.Gaussian([0, 1, 2], .7), [.3, .6, .1])
SEEN = [.3, 1.4, 2.2]
PLANE = hm.HMMOP(MODEL.T, MODEL.start, hm.GaussianVector([[0, 0], [2, 0], [0, 2]], [.3 * np.eye(2)] * 3), .4)


@pytest.mark.parametrize("steps", [None, 12])
def test_appended_data_never_change_what_the_filter_said(steps):
    "Not by a bit: each row is settled when its observation is read."
    for values in ([7.], [-1e9, 0.], [1., 1e6, 2.]):
        before = hm.filtered_marginals(MODEL, [SEEN], steps)[0]
        after = hm.filtered_marginals(MODEL, [[*SEEN, *values]], steps)[0]
        assert np.array_equal(before, after[:3])
    assert not np.allclose(hm.posterior_marginals(MODEL, [[*SEEN, 0.]], steps)[0][:3], before)


def test_filter_ends_where_the_smoother_ends():
    data = MODEL.sample(30, 40, seed=1).sequences
    for a, b in zip(hm.filtered_marginals(MODEL, data), hm.posterior_marginals(MODEL, data)):
        assert np.allclose(a[-1], b[-1])


def test_vectors_missing_values_and_labels_are_welcome():
    lists = [np.array(x) for x in PLANE.sample(4, 20, seed=2).sequences]
    lists[0][1, 0] = lists[0][2] = np.nan
    data = hm.Sequences.from_list(lists, missing=True)
    for rows in (hm.filtered_marginals(PLANE, data), hm.forecast(PLANE, data, 3), hm.forecast(PLANE, data, 3, "step")):
        assert all(np.allclose(x.sum(1), 1) for x in rows)
    assert [len(x) for x in hm.expected_gaps(PLANE, data)] == [len(x) for x in lists]
    known = hm.filtered_marginals(MODEL, [SEEN], labels=[[2, -1, 0]])[0]
    assert known[0].tolist() == [0, 0, 1] and known[2].tolist() == [1, 0, 0]


def test_a_posterior_with_words_for_states_is_understood():
    lists = [["sun", "rain", "sun"], ["rain", "rain", "sun", "sun"]] * 10
    post = hm.fit(lists, psi=.3, draws=20, warmup=20, chains=2, seed=0, progress=False)
    assert np.allclose(hm.filtered_marginals(post, [["sun"]])[0], [[0, 1]])
    assert hm.forecast(post, [["sun", "rain"]], 2)[0].shape == (2, 2)
    assert len(hm.expected_gaps(post, [["sun", "rain"]])[0]) == 2
    assert "T[rain, sun]" not in repr(post.derive(hm.timescales)) and "rain" in post._repr_html_()
    assert hm.check(post, lists, replicas=40).p["transitions"] > .05


def test_forecasts_with_a_length_lose_what_the_end_takes():
    ahead = hm.forecast(MODEL, [SEEN], 6, n_steps=6)[0]
    chance = ahead.sum(1)
    assert (np.diff(chance) <= 0).all() and chance[0] < 1 and chance[3] == 0, "after three of six steps at most three more"
    free = hm.forecast(MODEL, [SEEN], 6)[0]
    assert np.allclose(free.sum(1), 1)
    assert np.allclose(hm.forecast(MODEL, [SEEN], 6, n_steps=200)[0], free)
    assert np.allclose(hm.forecast(MODEL, [SEEN], 3, positions=[[0, 2, 5]], what="step")[0].sum(1), 1)


def test_gaps_add_up_and_agree_with_enumeration():
    found = every_match(MODEL, SEEN, 6)
    total, gaps = found.weight.sum(), np.zeros(3)
    for place, weight in zip(found.places, found.weight): gaps += weight.sum() * (np.diff(np.r_[-1, place]) - 1)
    assert np.allclose(hm.expected_gaps(MODEL, [SEEN], 6)[0], gaps / total)
    assert np.isclose(omitted_visits(MODEL, [SEEN], 6)[0].sum(), 3)
    law = gap_laws(MODEL, [SEEN], most=200)[0]
    assert np.allclose(law.sum(1), 1) and np.allclose(law @ np.arange(201), hm.expected_gaps(MODEL, [SEEN])[0])


def test_mixed_knowledge_by_sequence_is_taken_list_by_list():
    steps, where = [np.nan, 6, np.nan], [None, None, [0, 3, 4]]
    together = hm.expected_gaps(MODEL, [SEEN] * 3, steps, positions=where)
    alone = [hm.expected_gaps(MODEL, [SEEN])[0], hm.expected_gaps(MODEL, [SEEN], 6)[0], np.array([0, 2, 0.])]
    assert all(np.allclose(a, b) for a, b in zip(together, alone))
    filtered = hm.filtered_marginals(MODEL, [SEEN] * 2, steps[:2])
    assert np.allclose(filtered[1], hm.filtered_marginals(MODEL, [SEEN], 6)[0])


def test_impossible_and_absurd_lists():
    cycle = hm.HMMOP(np.roll(np.eye(3), 1, 1), [1, 0, 0], hm.Categorical(np.eye(3)), 0.)
    for ask in (hm.filtered_marginals, hm.forecast, hm.expected_gaps, full_walk):
        with pytest.raises(ValueError, match="sequence 1"): ask(cycle, [[0, 1], [0, 0]])
    sharp = hm.HMMOP(MODEL.T, MODEL.start, hm.Gaussian([0, 1, 2], 1e-3), MODEL.psi)
    wild = [[0., 1e6, -1e6, 1e12, 2.]]
    for steps in (None, 9):
        assert np.allclose(hm.filtered_marginals(sharp, wild, steps)[0].sum(1), 1)
        assert np.isfinite(hm.expected_gaps(sharp, wild, steps)[0]).all()


def test_empty_lists():
    assert hm.filtered_marginals(MODEL, [[]])[0].shape == (0, 3)
    assert hm.expected_gaps(MODEL, [[]], 4)[0].shape == (0,)
    assert np.allclose(hm.forecast(MODEL, [[]], 1, "step", n_steps=4)[0][0], MODEL.start)
    assert np.allclose(sequence_fates(MODEL, [[]], [2]), 1)


def test_fates_do_not_depend_on_what_was_missed():
    "Where a walk is absorbed can be read from the observed chain; when it is cannot."
    T = np.array([[.6, .2, .1, .1], [.3, .5, 0, .2], [0, 0, 1, 0], [0, 0, 0, 1]])
    R = hm.thin(T, [.5, .2, .7, .1])
    assert np.allclose(hm.fates(T, [2, 3]), hm.fates(R, [2, 3]))
    assert (hitting_times(T, [2, 3])[:2] > hitting_times(R, [2, 3])[:2]).all()
    assert np.allclose(omitted_ahead(T, .5).sum(1), 1)


def test_derived_bands_come_from_every_draw():
    data = MODEL.sample(40, 40, seed=3)
    post = hm.fit_gaps(data.sequences, MODEL.psi, emission=MODEL.emission, draws=60, warmup=60, chains=2, seed=0, progress=False)
    scales = post.derive(hm.timescales)
    assert scales.values.shape == (2, 60, 2)
    assert np.allclose(scales.values[1, 7], hm.timescales(post.T[1, 7]))
    low, high = scales.interval(.9)
    assert (low < scales.mean).all() and (scales.mean < high).all()
    by_model = post.derive(lambda m: hm.forecast(m, [SEEN], 2)[0], of="model")
    assert by_model.values.shape == (2, 60, 2, 3)
    logs = pointwise(post, data.sequences)
    assert logs.shape == (2, 60, 40)
    table = compare_fits({"a": post, "same": logs}, data.sequences)
    assert np.allclose(table["difference"], 0)


def test_the_right_model_passes_and_bursts_are_found():
    plain = MODEL.sample(150, 50, seed=4)
    assert hm.check(MODEL, plain.sequences, 50).ok
    burst = MODEL.sample(150, 50, seed=4, omission=hm.MarkovOmission(.6, .3))
    found = hm.check(MODEL, burst.sequences, 50)
    assert "numbers seen" in found.flagged and "bursts" in found.verdict


def test_a_check_is_the_same_with_the_same_seed():
    data = MODEL.sample(20, 30, seed=5).sequences
    a, b, c = (hm.check(MODEL, data, replicas=40, seed=s) for s in (1, 1, 2))
    assert a.p == b.p and a.p != c.p


BURSTY = hm.HMMOP([[.85, .1, .05], [.1, .8, .1], [0, .45, .55]], [.4, .3, .3], hm.Gaussian([0, 2, 4], .6), .4)


@pytest.fixture(scope="module")
def bursty():
    "Lists with visits lost in bursts, a fit that knows of bursts and one that does not."
    lists = BURSTY.sample(60, 40, seed=1, omission=hm.MarkovOmission(.6, .3)).sequences
    how = dict(n_steps=40, emission=BURSTY.emission, draws=30, warmup=60, chains=2, seed=0, progress=False)
    return lists, hm.fit(lists, omission=hm.MarkovOmission(np.nan, np.nan), **how), hm.fit(lists, **how)


def test_omission_processes_stand_in_one_table(bursty):
    lists, knows, plain = bursty
    table = compare_fits({"bursts": knows, "one psi": plain}, lists, 40)
    assert table["name"] == ["bursts", "one psi"] and table["difference"][1] < -2 * table["se_difference"][1]


def test_a_check_loses_visits_as_the_fit_says(bursty):
    lists, knows, plain = bursty
    assert hm.check(knows, lists, 40, replicas=100).p["numbers seen"] > .02
    assert hm.check(plain, lists, 40, replicas=100).p["numbers seen"] < .02
    assert set(hm.check(knows, lists, replicas=20).p) == {"values", "transitions", "Chapman-Kolmogorov", "runs"}


def test_arviz_takes_pointwise_likelihoods(bursty):
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed: pip install hmmop_nb[arviz]")
    lists, knows, _ = bursty
    logs = pointwise(knows, lists, 40)
    loo = arviz.loo(knows.to_arviz(logs), pointwise=True)
    elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd # ArviZ before and from 1.0
    assert float(elpd) == pytest.approx(leave_one_out(logs)[0].sum(), abs=.1)
    if hasattr(arviz, "waic"):
        flat = logs.reshape(-1, len(lists))
        by_hand = (np.logaddexp.reduce(flat, axis=0) - np.log(len(flat)) - flat.var(0)).sum()
        assert float(arviz.waic(knows.to_arviz(logs)).elpd_waic) == pytest.approx(by_hand, abs=.1)


def test_folds_choose_the_number_of_states():
    lists = BURSTY.sample(60, 40, seed=2).sequences
    found = hm.choose_n_states(lists, [2, 3, 4], psi=.4, by="cross_validation", folds=3, seed=0)
    assert found.best == 3 and "cross-validation" in found.head
    top = int(np.argmax(found["cross_validated"]))
    assert found["difference"][top] == found["se_difference"][top] == 0
    assert found["difference"][0] < -2 * found["se_difference"][0]


def test_a_sticky_prior_counts_states():
    "Its draws agree, its share stands in the table, and it says so if the number is no candidate."
    lists = BURSTY.sample(60, 40, seed=2).sequences
    how = dict(psi=.4, by="sticky", held_out=0, restarts=0, seed=0)
    found = hm.choose_n_states(lists, [2, 3, 4], **how)
    assert found.best == 3 and found["sticky"][1] > .5 and "3 states by the sticky prior" in found.head
    assert "no candidate" in hm.choose_n_states(lists, [1], **how).head


@pytest.mark.parametrize("wrong", [dict(psi=[.4, .4]), dict(n_steps=40), dict(psi=1.)], ids=str)
def test_a_sticky_prior_needs_one_psi(wrong):
    with pytest.raises(ValueError, match="psi: is"):
        hm.choose_n_states(BURSTY.sample(9, 20, seed=0).sequences, [2], by="sticky", held_out=0, **wrong)


@pytest.mark.parametrize("wrong, text", [(dict(folds=1), "folds: expected"), (dict(folds=100), "folds: 100 of them"),
                                         (dict(by="cv"), "by: is 'cv'")], ids=str)
def test_folds_that_make_no_sense_are_named(wrong, text):
    with pytest.raises(ValueError, match=text):
        hm.choose_n_states(BURSTY.sample(9, 20, seed=0).sequences, [1], **(dict(by="cross_validation") | wrong))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_fits_in_threads_and_in_processes(backend):
    joblib = pytest.importorskip("joblib", reason="joblib comes with scikit-learn")
    lists = list(BURSTY.sample(30, 30, seed=3).sequences)
    jobs = (joblib.delayed(hm.GapHMM(3, psi=.4, seed=0).fit)(lists) for _ in range(2))
    alone = hm.GapHMM(3, psi=.4, seed=0).fit(lists)
    for one in joblib.Parallel(n_jobs=2, backend=backend)(jobs):
        assert np.array_equal(one.transmat_, alone.transmat_) and np.array_equal(one.predict(lists), alone.predict(lists))


def test_an_estimator_and_its_posterior_travel_as_pickles():
    lists = list(BURSTY.sample(30, 30, seed=3).sequences)
    fitted = hm.GapHMM(3, psi=.4, seed=0).fit(lists)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(lists), fitted.predict_proba(lists)) and repr(again) == repr(fitted)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted.posterior_)).T, fitted.posterior_.T)


def test_words_are_read_by_every_method_of_the_estimator():
    lists = [["sun", "rain", "sun"], ["rain", "rain", "sun", "sun"]] * 10
    diary = hm.GapHMM(psi=.3, seed=0).fit(lists)
    new = [["sun", "rain", "rain"]]
    assert diary.predict(new).tolist() == diary.decode(new)[1].tolist() == [1, 0, 0]
    assert diary.score_samples(new)[1].argmax(1).tolist() == [1, 0, 0]
    assert diary.score(new) == pytest.approx(diary.decode(new)[0]) and np.isfinite(diary.bic(new))
    model = diary.posterior_
    assert hm.decode(model, new)[0].tolist() == [1, 0, 0] and len(hm.place(model, new, 5)[0]) == 3
    assert len(gap_laws(model, new)[0]) == 3 and len(full_walk(model, new).states[0]) >= 3
    assert omitted_in(model, new).shape == (1,) and sequence_fates(model, new, [0]).shape == (1, 1)


def test_omitted_visits_are_a_derived_quantity():
    data = MODEL.sample(50, 30, seed=6)
    post = hm.fit_gaps(data.sequences, MODEL.psi, emission=MODEL.emission, draws=30, warmup=40, chains=2, seed=0, progress=False)
    lost = post.derive(lambda m: omitted_in(m, data.sequences), of="model")
    assert lost.values.shape == (2, 30, 50) and (lost.mean >= 0).all()
    known = omitted_in(MODEL, data.sequences, 30, positions=data.positions)
    assert np.allclose(known, [w[-1] + 1 - len(w) if len(w) else 0 for w in data.positions])
