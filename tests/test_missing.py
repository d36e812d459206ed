"""Visits without a value: exact against enumeration, and of no influence on what is learned from the others."""
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.reading import read_sequences

T = np.array([[.6, .3, .1], [.2, .5, .3], [.3, .3, .4]])
START = np.array([.5, .3, .2])
PSI = [.3, .5, .2]
PROBS = np.array([[.7, .2, .1], [.1, .6, .3], [.2, .2, .6]])
RUN = dict(draws=3, warmup=2, chains=1, seed=4, progress=False)


class Own:
    "An emission of a class of its own, which knows nothing of nan."
    n_states = 3

    def check(self, values, name="sequences"):
        assert not np.isnan(values).any()
        return values

    def log_likelihood(self, values):
        return np.log(PROBS.T[self.check(np.asarray(values, float)).astype(int)])


def holes(lists): return read_sequences(lists, missing="value")[0]


@pytest.mark.parametrize("n_steps", [None, 8])
@pytest.mark.parametrize("emission", [hm.Categorical(PROBS), Own()])
def test_a_missing_symbol_is_summed_over(emission, n_steps):
    model = hm.HMMOP(T, START, emission, PSI)
    every = [hm.log_likelihood(hm.HMMOP(T, START, hm.Categorical(PROBS), PSI), [[0, a, 2, b, 1]], n_steps)[0]
             for a in range(3) for b in range(3)]
    got = hm.log_likelihood(model, holes([[0, None, 2, None, 1]]), n_steps)
    assert np.isclose(got[0], np.logaddexp.reduce(every), rtol=1e-12)


@pytest.mark.parametrize("emission", [hm.Gaussian([0., 1., 2.], .5), hm.Poisson([.5, 1., 3.])])
def test_a_missing_number_is_summed_over(emission):
    model = hm.HMMOP(T, START, emission, PSI)
    grid = np.linspace(-8, 10, 3601) if isinstance(emission, hm.Gaussian) else np.arange(60)
    step = grid[1] - grid[0]
    each = hm.log_likelihood(model, [[0, x, 2] for x in grid], 6)
    assert np.isclose(hm.log_likelihood(model, holes([[0, np.nan, 2]]), 6)[0], np.log(np.exp(each).sum() * step), rtol=1e-9)


@pytest.mark.parametrize("emission", [hm.Gaussian([0., 1., 2.], .5), hm.Poisson([.5, 1., 3.]), hm.Categorical(PROBS), Own()])
def test_samplers_see_the_same_likelihood(emission):
    data = holes([[0, None, 2, None, 1], [None, 1]])
    fits = [hm.fit_naive(data, emission=emission, **RUN), hm.fit_gaps(data, .4, emission=emission, **RUN),
            hm.fit_matching(data, 7, emission=emission, **RUN), hm.fit_known(data, [[0, 1, 3, 4, 6], [2, 3]], 7, psi=.4, emission=emission, **RUN)]
    for fitted in fits[:3]:
        known = dict(n_steps=7) if fitted.info["method"] == "matching" else {}
        for d in range(3):
            at = hm.HMMOP(fitted.T[0, d], fitted.start[0, d], emission, fitted.psi[0, d])
            assert np.isclose(fitted.stats["log_likelihood"][0, d], hm.log_likelihood(at, data, **known).sum(), rtol=1e-9)


@pytest.mark.parametrize("family, values", [("gaussian", [.1, .9, 2.2, 1.4, .3]), ("poisson", [0, 3, 2, 7, 1]),
                                            ("categorical", [0, 1, 1, 2, 0])])
@pytest.mark.parametrize("method", ["naive", "gaps", "matching", "em"])
def test_emissions_of_one_state_are_learned_from_the_values_alone(family, values, method):
    "With one state nothing but the values matters, so draws agree with those for the list without the holes."
    known = dict(naive={}, gaps=dict(psi=0.), matching=dict(n_steps=9, psi=.2), em=dict(psi=0.))[method]
    run = {} if method == "em" else RUN
    fit = getattr(hm, f"fit_{method}")
    with_holes = fit(holes([[*values[:2], None, *values[2:], None]]), n_states=1, emission=family, **known, **run)
    without = fit([values], n_states=1, emission=family, **known, **run)
    for name in without.emission: assert np.allclose(with_holes.emission[name], without.emission[name], rtol=1e-12)


def test_labels_states_and_places_of_a_list_with_holes():
    model = hm.HMMOP(T, START, hm.Categorical(np.eye(3)), PSI)
    data = holes([[0, None, 2]])
    assert hm.decode(model, data).values[[0, 2]].tolist() == [0, 2]
    assert hm.place(model, data, 5).lengths.tolist() == [3]
    marginals = hm.posterior_marginals(model, data)[0]
    every = [np.exp(hm.log_likelihood(model, [[0, x, 2]])[0]) for x in range(3)]
    assert np.allclose(marginals[1], np.array(every) / np.sum(every))


def test_a_missing_position_is_told_about_positions():
    with pytest.raises(ValueError, match="positions: sequence 0, observation 1 is nan; give the step of every observation"):
        hm.fit_known([[0., 1.]], [[0, np.nan]], 4, n_states=1, **RUN)
