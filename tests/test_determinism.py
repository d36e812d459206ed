"The same seed gives the same bytes: on any number of threads, with chains side by side or one after the other, in one go or in several, for every sampler."
import numba
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.emissions import emission_weights
from hmmop_nb.engine.lattice import as_walk, draw_matches, scaled_densities
from hmmop_nb.engine.messages import draw_paths, layout

MODEL = hm.degree_chain(4, 3, psi=.4, scale=.4, seed=0)
DATA = MODEL.sample(150, 15, seed=1) # more than one block of every kernel
RUN = dict(n_states=4, draws=5, warmup=4, chains=3, seed=7, progress=False)
FITS = {
    "known": lambda **run: hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, **run), "naive": lambda **run: hm.fit_naive(DATA.sequences, **run),
    "naive, sparse": lambda **run: hm.fit_naive(DATA.sequences, prior=hm.Prior(T="sparse"), **run),
    "random": lambda **run: hm.fit_random(DATA.sequences, DATA.n_steps, **run), "analytic": lambda **run: hm.fit_analytic(DATA.sequences, .4, **run),
    **{f"matching, {p}": lambda p=p, **run: hm.fit_matching(DATA.sequences, DATA.n_steps, placement=p, inner=2, **run) for p in ("exact", "gibbs", "paper")},
    **{f"gaps, {v}": lambda v=v, **run: hm.fit_gaps(DATA.sequences, .4, variant=v, leaps=8, max_gap=20, **run) for v in ("collapsed", "augmented", "paper")}}


def as_bytes(post, chains=None): return b"".join(np.ascontiguousarray(x[:chains]).tobytes() for x in (post.T, post.start, post.psi, post.log_density, *post.emission.values(), *post.extra.values()))


@pytest.fixture(autouse=True)
def threads():
    before = numba.get_num_threads()
    yield before
    numba.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:a share of:RuntimeWarning")
@pytest.mark.parametrize("name", FITS)
def test_same_seed_same_bytes(name, threads, tmp_path):
    fit, path = FITS[name], tmp_path / "run.npz"
    numba.set_num_threads(1) # chains one after the other, kernels on one thread
    expected = as_bytes(fit(**RUN))
    assert as_bytes(fit(**RUN | dict(seed=8))) != expected
    numba.set_num_threads(threads)
    assert as_bytes(fit(**RUN)) == expected, "threads"
    assert as_bytes(fit(**RUN | dict(chains=1))) == as_bytes(fit(**RUN), 1), "the first chain does not know of the others"
    fit(**RUN | dict(draws=2), checkpoint=path) # stop after two draws, then go on
    numba.set_num_threads(1)
    assert as_bytes(fit(**RUN, checkpoint=path)) == expected, "resumed"


@pytest.mark.filterwarnings("ignore:fit_em stopped:UserWarning")
def test_em_is_the_same_on_any_number_of_threads(threads):
    for more in (dict(psi=.4), dict(n_steps=DATA.n_steps)):
        got = []
        for n in {1, threads}:
            numba.set_num_threads(n)
            got.append(as_bytes(hm.fit_em(DATA.sequences, n_states=4, seed=1, max_iter=5, **more)))
        assert len(set(got)) == 1


def test_block_sizes_change_no_draw():
    data, weights = layout(DATA.sequences, DATA.positions, DATA.n_steps), emission_weights(MODEL.emission)
    draw = lambda **how: draw_paths(data, MODEL.start, MODEL.T, weights, 5, 1, psi=np.array(MODEL.psi), states=True, **how)
    expected = draw()
    for lanes in (1, 7, 64, 500):
        for blocks in (1, 3, 64):
            got = draw(lanes=lanes, blocks=blocks)
            for name in ("states", "log_likelihood"): assert getattr(got, name).tobytes() == getattr(expected, name).tobytes(), (lanes, blocks, name)
            for name in ("transitions", "first", "observed", "omitted"): assert getattr(got.counts, name).tobytes() == getattr(expected.counts, name).tobytes(), (lanes, blocks, name)
            np.testing.assert_allclose(got.counts.emission, expected.counts.emission, rtol=1e-12, atol=1e-12) # sums in another order


def test_memory_limits_change_no_draw():
    b, _ = scaled_densities(MODEL.emission, DATA.sequences.values)
    draw = lambda **how: draw_matches(b, DATA.sequences.offsets, DATA.n_steps, as_walk(MODEL.start, MODEL.T, MODEL.psi), 5, 1, states=True, **how)
    expected = draw()
    for room in (0, 2000, 2**30):
        got = draw(room=room)
        for a, c in zip((*got.counts, *got[1:]), (*expected.counts, *expected[1:])): assert a.tobytes() == c.tobytes()
