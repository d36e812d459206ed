"""The same seed gives the same bytes for every sampler.

On any number of threads, with chains side by side or one after the other, in one go or in several.
"""
import os
import subprocess
import sys
from functools import partial

import numba
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.emissions import emission_weights
from hmmop_nb.engine.lattice import as_walk, draw_matches, scaled_densities
from hmmop_nb.engine.messages import draw_paths, layout
from hmmop_nb.engine.problem import Counts

MODEL = hm.degree_chain(4, 3, psi=.4, scale=.4, seed=0)
DATA = MODEL.sample(150, 15, seed=1) # more than one block of every kernel
RUN = dict(n_states=4, draws=5, warmup=4, chains=3, seed=7, progress=False)
MATCHING = partial(hm.fit_matching, DATA.sequences, DATA.n_steps, inner=2)
GAPS = partial(hm.fit_gaps, DATA.sequences, .4, leaps=8, max_gap=20)
FITS = {
    "known": partial(hm.fit_known, DATA.sequences, DATA.positions, DATA.n_steps),
    "naive": partial(hm.fit_naive, DATA.sequences),
    "naive, sparse": partial(hm.fit_naive, DATA.sequences, prior=hm.Prior(T="sparse")),
    "random": partial(hm.fit_random, DATA.sequences, DATA.n_steps),
    "analytic": partial(hm.fit_analytic, DATA.sequences, .4),
    **{f"matching, {p}": partial(MATCHING, placement=p) for p in ("exact", "gibbs", "paper")},
    **{f"gaps, {v}": partial(GAPS, variant=v) for v in ("collapsed", "augmented", "paper")},
}


def as_bytes(post, chains=None):
    "All draws of the first chains, end to end."
    main = (post.T, post.start, post.psi, post.log_density)
    arrays = (*main, *post.emission.values(), *post.extra.values())
    return b"".join(np.ascontiguousarray(x[:chains]).tobytes() for x in arrays)


@pytest.fixture(autouse=True)
def threads():
    before = numba.get_num_threads()
    yield before
    numba.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:max_gap:RuntimeWarning")
@pytest.mark.parametrize("name", FITS)
def test_same_seed_same_bytes(name, threads, tmp_path):
    fit, path = FITS[name], tmp_path / "run.npz"
    numba.set_num_threads(1) # chains one after the other, kernels on one thread
    expected = as_bytes(fit(**RUN))
    assert as_bytes(fit(**RUN | dict(seed=8))) != expected
    numba.set_num_threads(threads)
    assert as_bytes(fit(**RUN)) == expected, "threads"
    alone = as_bytes(fit(**RUN | dict(chains=1)))
    assert alone == as_bytes(fit(**RUN), 1), "the first chain does not know of the others"
    fit(**RUN | dict(draws=2), checkpoint=path) # stop after two draws, then go on
    numba.set_num_threads(1)
    assert as_bytes(fit(**RUN, checkpoint=path)) == expected, "resumed"


@pytest.mark.filterwarnings("ignore:max_iter:RuntimeWarning")
def test_em_is_the_same_on_any_number_of_threads(threads):
    for more in (dict(psi=.4), dict(n_steps=DATA.n_steps)):
        got = []
        for n in {1, threads}:
            numba.set_num_threads(n)
            fitted = hm.fit_em(DATA.sequences, n_states=4, seed=1, max_iter=5, **more)
            got.append(as_bytes(fitted))
        assert len(set(got)) == 1


def test_block_sizes_change_no_draw():
    data = layout(DATA.sequences, DATA.positions, DATA.n_steps)
    weights = emission_weights(MODEL.emission)
    draw = partial(draw_paths, data, MODEL.start, MODEL.T, weights, 5, 1, psi=np.array(MODEL.psi),
                   states=True)
    expected = draw()
    for lanes in (1, 7, 64, 500):
        for blocks in (1, 3, 64):
            got = draw(lanes=lanes, blocks=blocks)
            for name in ("states", "log_likelihood"):
                mine, other = getattr(got, name), getattr(expected, name)
                assert mine.tobytes() == other.tobytes(), (lanes, blocks, name)
            for name, mine, other in zip(Counts._fields, got.counts, expected.counts):
                if name == "emission": # sums in another order
                    np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
                else: assert mine.tobytes() == other.tobytes(), (lanes, blocks, name)


def test_memory_limits_change_no_draw():
    b, _ = scaled_densities(MODEL.emission, DATA.sequences.values)
    walk = as_walk(MODEL.start, MODEL.T, MODEL.psi)
    draw = partial(draw_matches, b, DATA.sequences.offsets, DATA.n_steps, walk, 5, 1, states=True)
    expected = draw()
    for room in (0, 2000, 2**30):
        got = draw(room=room)
        for a, c in zip(got.counts, expected.counts): assert a.tobytes() == c.tobytes()
        for name in ("log_likelihood", "labels", "places", "states"):
            assert getattr(got, name).tobytes() == getattr(expected, name).tobytes()


EM_IN_A_PROCESS = """
import hashlib
import hmmop_nb as hm
model = hm.HMMOP([[.7, .3], [.2, .8]], [.5, .5], hm.Categorical([[.5, .3, .2], [.1, .2, .7]]), .4)
data = [list(s) for s in model.sample(40, 30, seed=1).sequences]
many = hm.HMMOP(model.T, model.start, hm.Categorical([[1 / 60] * 60] * 2), .4)
held = hashlib.sha256()
for source in (data, many.sample(40, 30, seed=1).sequences):
    fitted = hm.fit_em(source, psi=.4, n_states=2, emission="categorical", restarts=1, seed=3)
    held.update(fitted.T.tobytes() + fitted.emission["probs"].tobytes())
print(held.hexdigest())
"""


def test_em_does_not_depend_on_the_order_of_sets():
    found = set()
    for seed in "012":
        run = subprocess.run([sys.executable, "-c", EM_IN_A_PROCESS], text=True, check=True,
                             capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed})
        found.add(run.stdout)
    assert len(found) == 1
