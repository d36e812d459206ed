"""What must hold for every model and every data set, tried on many.

Relabelling, splitting, impossible states, extreme values. Examples are drawn by Hypothesis from a
fixed seed, so that a run is the same run tomorrow.
"""
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hmmop_nb as hm

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40, database=None,
                          suppress_health_check=list(HealthCheck))
settings.load_profile("fixed")


@st.composite
def models(draw, most=4, psi=(0., .95), family=None):
    "A model with zeros in some places, of any of the three families."
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    S = draw(st.integers(1, most))
    def law(*shape):
        p = rng.dirichlet(np.full(shape[-1], draw(st.sampled_from([.3, 1., 5.]))), shape[:-1])
        p = np.where(p < draw(st.sampled_from([0., .05])), 0., p)
        return p / p.sum(-1, keepdims=True)
    family = family or draw(st.sampled_from(["gaussian", "poisson", "categorical"]))
    if family == "gaussian": emission = hm.Gaussian(rng.normal(0, 2, S), rng.uniform(.2, 2, S))
    elif family == "poisson": emission = hm.Poisson(rng.gamma(2, 2, S))
    else: emission = hm.Categorical(rng.dirichlet(np.ones(3), S))
    return hm.HMMOP(law(S, S), law(S), emission, rng.uniform(*psi, S))


def permuted(model, p):
    "The same model with its states renumbered: new state `i` is old state `p[i]`."
    e = model.emission
    emission = type(e)(*(np.asarray(x)[p] for x in vars(e).values()))
    return hm.HMMOP(model.T[np.ix_(p, p)], model.start[p], emission, model.psi[p])


def with_ghost(model):
    "The same model with one more state that is never entered."
    e, T = model.emission, np.pad(model.T, ((0, 1), (0, 1)))
    T[-1, 0] = 1.
    emission = type(e)(*(np.concatenate([x, x[:1]]) for x in map(np.asarray, vars(e).values())))
    return hm.HMMOP(T, np.r_[model.start, 0.], emission, np.r_[model.psi, .5])


def close(a, b, tolerance=1e-9): np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def some(model, seed, n=4, steps=9):
    "Data that the model can produce."
    return model.sample(n, steps, seed=seed)


@given(models(), st.randoms(use_true_random=False))
def test_renumbering_states_renumbers_every_answer(model, random):
    p = list(range(model.n_states))
    random.shuffle(p)
    other, data = permuted(model, p), some(model, random.randrange(10**6))
    close(hm.thin(other.T, other.psi), hm.thin(model.T, model.psi)[np.ix_(p, p)])
    first = hm.thin_start(model.start, model.T, model.psi)
    close(hm.thin_start(other.start, other.T, other.psi), first[p])
    seen = data.sequences
    for steps in (None, 9):
        close(hm.log_likelihood(other, seen, steps), hm.log_likelihood(model, seen, steps))
        marginals = hm.posterior_marginals(model, seen, steps)
        for a, b in zip(hm.posterior_marginals(other, seen, steps), marginals):
            close(a, b[:, p], 1e-8)
    for n, w, v in zip(seen.lengths, hm.place(model, seen, 9), hm.place(other, seen, 9)):
        assert len(w) == len(v) == n


@given(models(), st.integers(0, 10**6))
def test_a_state_that_cannot_be_entered_changes_nothing(model, seed):
    other, seen = with_ghost(model), some(model, seed).sequences
    S = model.n_states
    close(hm.thin(other.T, other.psi)[:S, :S], hm.thin(model.T, model.psi))
    for steps in (None, 9):
        close(hm.log_likelihood(other, seen, steps), hm.log_likelihood(model, seen, steps))
        marginals = hm.posterior_marginals(model, seen, steps)
        for a, b in zip(hm.posterior_marginals(other, seen, steps), marginals):
            close(a[:, :S], b, 1e-8)
            assert (a[:, S] == 0).all()
        best = hm.decode(model, seen, steps, "viterbi")
        for a, b in zip(hm.decode(other, seen, steps, "viterbi"), best):
            assert (a < S).all() and len(a) == len(b)


@given(models(), st.integers(0, 10**6), st.permutations(range(6)))
def test_sequences_do_not_know_of_each_other(model, seed, order):
    seen = some(model, seed, 6).sequences
    for steps in (None, 9):
        logs = hm.log_likelihood(model, seen, steps)
        labels = list(hm.decode(model, seen, steps))
        shuffled = [seen[i] for i in order]
        close(hm.log_likelihood(model, shuffled, steps), logs[list(order)], 1e-12)
        for i in range(6):
            close(hm.log_likelihood(model, [seen[i]], steps), logs[i:i + 1], 1e-12)
            np.testing.assert_array_equal(hm.decode(model, [seen[i]], steps)[0], labels[i])


@given(models(most=3), st.integers(0, 10**6))
def test_the_future_of_a_list_adds_up(model, seed):
    "With symbols, what a list can go on with has probability one in all."
    if not isinstance(model.emission, hm.Categorical): return
    seen = list(some(model, seed, 1).sequences[0][:4])
    if not seen: return
    longer = hm.log_likelihood(model, [seen + [o] for o in range(3)])
    close(np.logaddexp.reduce(longer), hm.log_likelihood(model, [seen])[0])


@given(models(psi=(0., .9)), st.floats(0, .9))
def test_thin_and_unthin_are_inverse(model, psi):
    for p in (psi, model.psi):
        R = hm.thin(model.T, p)
        assert (R >= 0).all()
        close(R.sum(-1), 1, 1e-12)
        close(hm.unthin(R, p), model.T, 1e-7)
    close(hm.compose(model.T, psi, psi), model.T, 1e-7)
    twice = hm.thin(hm.thin(model.T, psi), .3) # thinning twice is thinning once
    close(twice, hm.thin(model.T, 1 - (1 - psi) * .7), 1e-9)
    assert hm.admissible_psi(hm.thin(model.T, psi))[1] >= psi - 1e-5


@given(models(), st.sampled_from([0., 1e-300, 1e-12, 1 - 1e-9, 1 - 1e-12]))
def test_psi_at_its_ends(model, psi):
    R, r0 = hm.thin(model.T, psi), hm.thin_start(model.start, model.T, psi)
    assert np.isfinite(R).all() and np.isfinite(r0).all() and (R >= 0).all()
    close(R.sum(-1), 1, 1e-9)
    close(r0.sum(), 1, 1e-6)
    if psi < 1e-6: close(R, model.T, 1e-9)
    extreme = hm.HMMOP(model.T, model.start, model.emission, psi)
    complete = hm.HMMOP(model.T, model.start, model.emission, 0.)
    values = some(complete, 1, 2, 5).full
    logs = hm.log_likelihood(extreme, values)
    assert not np.isnan(logs).any()
    expected = hm.log_likelihood(complete, values) + 10 / 2 * np.log1p(-psi)
    np.testing.assert_allclose(hm.log_likelihood(extreme, values, 5), expected, rtol=1e-9)


@given(models(family="gaussian"), st.floats(40, 1e6), st.integers(0, 10**6))
def test_emissions_far_away(model, far, seed):
    lists = [np.array([0., far, -far, 0.])]
    for steps in (None, 6):
        logs = hm.log_likelihood(model, lists, steps)
        assert not np.isnan(logs).any()
        if np.isfinite(logs[0]):
            gamma = hm.posterior_marginals(model, lists, steps)[0]
            close(gamma.sum(1), 1, 1e-9)
            assert len(hm.decode(model, lists, steps)[0]) == 4


@given(st.integers(0, 10**6), st.sampled_from([1e-300, 1e-200, 1e-100]))
def test_tiny_probabilities(seed, tiny):
    T = np.array([[1 - tiny, tiny], [tiny, 1 - tiny]])
    model = hm.HMMOP(T, [1 - tiny, tiny], hm.Categorical(np.eye(2)), .3)
    lists = [[0, 1, 0, 1, 1], [1, 0]]
    logs = hm.log_likelihood(model, lists)
    assert np.isfinite(logs).all()
    r, rows = hm.thin_start(model.start, T, .3), hm.thin(T, .3)
    logs_of = np.log(rows)
    expected = [np.log(r[x[0]]) + sum(logs_of[i, j] for i, j in zip(x, x[1:])) for x in lists]
    np.testing.assert_allclose(logs, expected, rtol=1e-9)
    for steps in (None, 7):
        assert [list(x) for x in hm.decode(model, lists, steps, "viterbi")] == lists
        for gamma, x in zip(hm.posterior_marginals(model, lists, steps), lists):
            close(gamma, np.eye(2)[x])


@given(models(), st.integers(0, 10**6))
def test_places_and_labels_fit_together(model, seed):
    data = some(model, seed)
    for w, n in zip(hm.place(model, data.sequences, 9), data.sequences.lengths):
        assert len(w) == n and (np.diff(w) > 0).all() and (n == 0 or 0 <= w[0] <= w[-1] < 9)
    full = hm.place(model, data.full, 9) if (model.psi < 1).all() else []
    for w in full: np.testing.assert_array_equal(w, np.arange(9))


@given(models(), st.integers(0, 10**6))
def test_one_observation_of_one_step(model, seed):
    value = some(model, seed, 1, 1).full[0]
    b = np.exp(model.emission.log_likelihood(value)[0])
    weight = model.start * (1 - model.psi) * b
    close(hm.log_likelihood(model, [value], 1)[0], np.log(weight.sum()))
    close(hm.posterior_marginals(model, [value], 1)[0][0], weight / weight.sum())


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=6), st.data())
def test_sequences_keep_what_they_are_given(lists, data):
    s = hm.Sequences.from_list(lists)
    assert [list(x) for x in s] == lists and len(s) == len(lists) and s.offsets[-1] == len(s.values)
    again = hm.Sequences.from_lengths(s.values, s.lengths)
    assert (again.values == s.values).all() and (again.offsets == s.offsets).all()
    pick = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=4))
    assert [list(x) for x in s[np.array(pick, int)]] == [lists[i] for i in pick]
    for i in range(len(s.values)): assert s.values[i] == s[s.locate(i)[0]][s.locate(i)[1]]


@given(models(most=3), st.integers(0, 10**6))
@settings(max_examples=10)
def test_fits_are_sound_on_anything(model, seed):
    "Draws are probabilities, whatever the data: one observation, one state, empty sequences."
    data, family = some(model, seed, 2, 4), type(model.emission).__name__.lower()
    if not len(data.sequences.values): return
    run = dict(n_states=model.n_states, emission=family, draws=3, warmup=3, chains=1, seed=seed,
               progress=False)
    fits = [hm.fit_naive(data.sequences, **run), hm.fit_matching(data.sequences, 4, **run),
            hm.fit_gaps(data.sequences, .4, **run),
            hm.fit_known(data.sequences, data.positions, 4, **run)]
    for fit in fits:
        close(fit.T.sum(-1), 1, 1e-9)
        assert np.isfinite(fit.log_density).all() and np.isfinite(fit.psi).all()
        assert (fit.T >= 0).all()


@pytest.mark.parametrize("psi", [.001, .5, .95])
def test_ten_thousand_steps(psi):
    model = hm.degree_chain(5, 3, psi=psi, seed=0)
    data = model.sample(1, 10_000, seed=1)
    short = [np.array(x) for x in data.sequences]
    logs = hm.log_likelihood(model, short)
    assert np.isfinite(logs).all()
    close(sum(x.sum() for x in hm.posterior_marginals(model, short)), len(short[0]), 1e-8)
    if psi < .95: return
    assert np.isfinite(hm.log_likelihood(model, short, 10_000)).all()
    w = hm.place(model, short, 10_000)[0]
    assert len(w) == len(short[0]) and (np.diff(w) > 0).all()
    fit = hm.fit_matching(short, 10_000, emission=model.emission, draws=2, warmup=1, chains=1,
                          seed=0, progress=False)
    assert np.isfinite(fit.log_density).all()
