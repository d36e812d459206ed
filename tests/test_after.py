"""After the fit: filters, forecasts, what was omitted, derived quantities and checks of the model."""
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.derived import hitting_times, omitted_ahead, sequence_fates
from hmmop_nb.inference import full_walk, gap_laws, omitted_visits
from hmmop_nb.lab.checking import compare_fits, pointwise
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
