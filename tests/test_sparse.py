"Many states, few ways: the sparse roads against the dense one, and where they are taken."
import numba
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb import em, inference
from hmmop_nb.engine import sparse
from hmmop_nb.engine.scale import in_blocks

S = 80
RNG = np.random.default_rng(0)
NEAR = np.abs(np.arange(S)[:, None] - np.arange(S)) <= 1
T = NEAR * RNG.random((S, S))
T /= T.sum(1, keepdims=True)
MODEL = hm.HMMOP(T, RNG.dirichlet(np.ones(S)), hm.Gaussian(np.arange(S) * 1., .7), RNG.uniform(.2, .7, S))
MADE = MODEL.sample(60, 40, seed=1)
LISTS = MADE.sequences
KNOWN = dict(psi=MODEL.psi, emission=MODEL.emission, prior=hm.Prior(T=1. * NEAR))


def dense(monkeypatch):
    "Take the dense road from now on."
    for module in (em, inference): monkeypatch.setattr(module, "sparse_walk", lambda *_: None)


def pass_at(data):
    problem = em.settle(em.pose(data, **KNOWN, init=MODEL, scale=True))
    return em.expectations(problem, em.theta_of(MODEL))


def test_the_sparse_road_is_taken_where_it_pays_and_nowhere_else():
    assert sparse.sparse_walk(MODEL.T, MODEL.start, MODEL.psi) is not None
    full = RNG.dirichlet(np.ones(S), S)
    assert sparse.sparse_walk(full, MODEL.start, MODEL.psi) is None
    small = hm.degree_chain(10, 3, seed=0)
    assert sparse.sparse_walk(small.T, small.start, small.psi) is None
    assert sparse.sparse_walk(MODEL.T, MODEL.start, np.where(np.arange(S) == 3, 1., MODEL.psi)) is None


def test_answers_are_those_of_the_dense_road(monkeypatch):
    marginals = np.concatenate(hm.posterior_marginals(MODEL, LISTS))
    logs, labels, step = hm.log_likelihood(MODEL, LISTS), hm.decode(MODEL, LISTS).values, pass_at(LISTS)
    assert step.seen is None, "latent counts came from the entries of T"
    dense(monkeypatch)
    plain = pass_at(LISTS)
    assert plain.seen is not None
    np.testing.assert_allclose(logs, hm.log_likelihood(MODEL, LISTS), rtol=1e-12)
    np.testing.assert_allclose(marginals, np.concatenate(hm.posterior_marginals(MODEL, LISTS)), atol=1e-12)
    np.testing.assert_array_equal(labels, hm.decode(MODEL, LISTS).values)
    np.testing.assert_allclose(step.log_likelihood, plain.log_likelihood, rtol=1e-13)
    for x, y in zip(step.counts, plain.counts): np.testing.assert_allclose(x, y, atol=1e-10)


def test_blocks_give_what_memory_gives():
    one, two = pass_at(LISTS), pass_at(in_blocks(LISTS, size=300))
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=1e-13)
    for x, y in zip(one.counts, two.counts): np.testing.assert_allclose(x, y, atol=1e-10)


def test_the_same_bytes_on_one_and_two_threads():
    if numba.config.NUMBA_NUM_THREADS < 2: pytest.skip("one thread only")
    found, before = [], numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            found.append(pass_at(LISTS).counts)
    finally: numba.set_num_threads(before)
    for x, y in zip(*found): assert x.tobytes() == y.tobytes()


def test_em_keeps_zeros_and_climbs(monkeypatch):
    "From the same start both roads end at the same top; without one, from equal ways."
    how = KNOWN | dict(max_iter=60, tol=1e-3)
    one, level = hm.fit_em(LISTS, **how, init=MODEL), hm.fit_em(LISTS, **how)
    assert (one.T[0, 0][~NEAR] == 0).all() and (level.T[0, 0][~NEAR] == 0).all()
    trace = level.info["trace"]
    assert (np.diff(trace) > -1e-6).all() and trace[-1] > hm.log_likelihood(MODEL, LISTS).sum()
    dense(monkeypatch)
    two = hm.fit_em(LISTS, **how, init=MODEL)
    assert abs(one.log_density[0, 0] - two.log_density[0, 0]) < 1e-2


@pytest.mark.parametrize("by_factors", [False, True])
def test_lists_that_scaling_loses_go_another_road(by_factors):
    "Far-off values: messages of the only possible states are too small to be held; the answer is that in logarithms."
    log_b = np.full((6, S), -800.)
    log_b[np.arange(6), [0, 70, 2, 60, 5, 79]] = 0.
    psi = np.full(S, .01)
    factors = sparse.find_factors(T, psi, 10**6) if by_factors else sparse.no_factors()
    walk = sparse.Walk(MODEL.start, psi, *sparse.both_ways(T, psi), factors, *np.nonzero(T))
    ends = np.array([0, 6])
    one, two = sparse.flow(log_b, ends, T, walk), sparse.dense_flow(log_b, ends, T, walk, True)
    assert np.isfinite(two.log_likelihood[0]) and two.log_likelihood[0] < -600
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(one.marginals, two.marginals, atol=1e-10)
    alone = sparse.flow(log_b, ends, T, walk, expect=False)
    np.testing.assert_allclose(alone.log_likelihood, two.log_likelihood, rtol=1e-12)


def test_what_cannot_be_is_minus_infinity():
    log_b = np.where(np.arange(S) == 3, 0., -np.inf)[None]
    start = np.eye(S)[70]
    chain = np.where(np.arange(S)[:, None] >= 70, np.eye(S), T) # who begins at 70 stays there
    walk = sparse.sparse_walk(chain, start, MODEL.psi)
    assert sparse.flow(log_b, np.array([0, 1]), chain, walk, expect=False).log_likelihood[0] == -np.inf


def test_a_list_longer_than_the_room_goes_the_dense_road(monkeypatch):
    monkeypatch.setattr(sparse, "ROOM", 10 * S * sparse.WIDE)
    found = pass_at(LISTS)
    monkeypatch.undo()
    for x, y in zip(found.counts, pass_at(LISTS).counts): np.testing.assert_allclose(x, y, atol=1e-10)


def test_a_stream_of_many_states_is_learned():
    from hmmop_nb.engine.online import OnlineEM
    stream = OnlineEM(init=MODEL, **KNOWN)
    for a in range(0, 60, 20): stream.learn(LISTS[a:a + 20])
    assert (stream.model().T[~NEAR] == 0).all()
