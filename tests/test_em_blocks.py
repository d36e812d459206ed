"EM passes over the data in blocks: what it holds, and that the answer does not depend on them."
import tracemalloc

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb import em
from hmmop_nb.engine.problem import pose

MODEL = hm.degree_chain(psi=.5, seed=0)


@pytest.mark.parametrize("known", [dict(psi=.5), dict(n_steps=40)])
@pytest.mark.parametrize("emission", ["gaussian", MODEL.emission])
def test_blocks_do_not_change_the_sums(monkeypatch, known, emission):
    made = MODEL.sample(60, 40, seed=1)
    problem = em.settle(pose(made.sequences, n_states=10, emission=emission, **known))
    params = problem.family.pack(dict(means=MODEL.emission.means, scales=MODEL.emission.scales))
    theta = em.theta_of(MODEL, params)
    whole = em.expectations(problem, theta)
    monkeypatch.setattr(em, "BLOCK", 50)
    assert len(em.blocks_of(made.sequences.offsets, em.BLOCK)) > 10
    parts = em.expectations(problem, theta)
    np.testing.assert_allclose(parts.log_likelihood, whole.log_likelihood, rtol=1e-12)
    for x, y in zip(parts.counts, whole.counts): np.testing.assert_allclose(x, y, 1e-9, 1e-9)


def test_no_array_has_a_row_for_every_observation():
    made = MODEL.sample(10_000, 80, seed=2)
    n, S = len(made.sequences.values), 10
    how = dict(psi=.5, n_states=S, init=MODEL, max_iter=3, tol=1e3)
    hm.fit_em(made.sequences[:20], **how) # compile
    tracemalloc.start()
    try:
        hm.fit_em(made.sequences, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally: tracemalloc.stop()
    assert peak < 8 * n * S # one such array; there were six at a time
