"States keep one numbering where they have no names, and their names where they have some."
from itertools import permutations

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.posterior import Posterior

MODEL = hm.degree_chain(5, 3, psi=.5, scale=.5, seed=15) # means 0 to 4: half the spacing is sigma
DATA = MODEL.sample(400, 80, seed=15)
RUN = dict(n_states=5, draws=300, warmup=300, chains=3, seed=15, progress=False)


def nearest(T):
    "L1 distance to the truth in the best of all numberings."
    orders = map(list, permutations(range(5)))
    return min(hm.l1_distance(T[np.ix_(p, p)], MODEL.T) for p in orders)


@pytest.fixture(scope="module")
def switched():
    "Chains that settle on different numberings of the same states."
    return hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, psi=.5, variant="augmented", **RUN)


def test_chains_that_number_states_differently_are_not_averaged_as_they_are(switched):
    "Pooled as drawn the mean was 0.33 from the truth, though every chain was within 0.07."
    assert max(nearest(T) for T in switched.T.mean(1)) < .07
    assert switched.info["relabelled"] >= 300, "a whole chain had another numbering"
    assert hm.l1_distance(switched.mean_T, MODEL.T) < .07
    model = switched.model()
    np.testing.assert_allclose(model.emission.means, range(5), atol=.1)
    assert hm.l1_distance(model.T, MODEL.T) < .07
    assert "warnings" not in switched.info


def test_relabelling_again_changes_nothing(switched, tmp_path):
    again = switched.relabel()
    assert again.T.tobytes() == switched.T.tobytes() and again.info == switched.info
    switched.save(tmp_path / "post.npz")
    assert Posterior.load(tmp_path / "post.npz").relabel().T.tobytes() == switched.T.tobytes()


def test_chains_that_contradict_each_other_say_so_at_any_number_of_draws():
    "Two chains begin, and remain, on different sides of a ridge: their mean describes neither."
    few = RUN | dict(draws=100, seed=1)
    model = hm.degree_chain(5, 3, psi=.5, scale=.5, seed=1)
    data = model.sample(400, 80, seed=1)
    with pytest.warns(hm.SamplingWarning, match="mixing: .*apart in L1.*have not mixed"):
        hm.fit_known(data.sequences, data.positions, data.n_steps, psi=.5, **few)


def test_states_that_something_tells_apart_keep_their_numbers():
    "With a psi for each state it is psi that says which state is which."
    model = hm.HMMOP([[.6, .4], [.3, .7]], [.5, .5], hm.Gaussian([3., 0.], .3), [.6, .1])
    data = model.sample(100, 20, seed=1)
    told = dict(n_states=2, draws=40, warmup=60, chains=2, seed=1, progress=False)
    numbered = hm.fit_gaps(data.sequences, [.6, .1], init=model, **told)
    assert "relabelled" not in numbered.info and (numbered.psi == [.6, .1]).all()
    np.testing.assert_allclose(numbered.model().emission.means, [3, 0], atol=.2)


def test_a_run_that_begins_at_a_model_keeps_its_numbering():
    model = hm.HMMOP([[.6, .4], [.3, .7]], [.5, .5], hm.Gaussian([3., 0.], .3), .3)
    data = model.sample(100, 20, seed=1)
    told = dict(n_states=2, draws=20, warmup=20, chains=2, seed=1, progress=False)
    for init, means in [(model, [3, 0]), (None, [0, 3])]:
        numbered = hm.fit_naive(data.sequences, init=init, **told)
        np.testing.assert_allclose(numbered.model().emission.means, means, atol=.2)


def test_symbols_that_are_learned_come_in_one_numbering():
    "Symbols have no order, so chains number the states that emit them as it happens."
    probs = np.repeat(np.eye(4), 2, 1) * .42 + .02 # two symbols of its own for each state
    model = hm.HMMOP(np.eye(4) * .6 + .1, [.25] * 4, hm.Categorical(probs), 0.)
    data = model.sample(200, 40, seed=2)
    post = hm.fit_naive(data.sequences, n_states=4, emission="categorical", draws=60, warmup=100,
                        chains=4, seed=5, progress=False)
    assert post.info["relabelled"] > 0
    peaks = post.emission["probs"].mean(1).argmax(2) // 2 # the state that a symbol belongs to
    assert (peaks == peaks[0]).all() and sorted(peaks[0]) == [0, 1, 2, 3]


WORDS = [["sun", "rain", "rain", "sun"], ["rain", "clouds", "rain"], ["sun", "clouds", "rain"]]


@pytest.mark.parametrize("method", ["gaps", "em"])
def test_words_are_shown_as_words(method):
    run = dict(draws=20, warmup=10, chains=2) if method == "gaps" else {}
    post = hm.fit(WORDS, psi=.2, method=method, seed=0, progress=False, **run)
    names = post.summary("T")["name"].tolist()
    assert names[:4] == ["T[clouds, clouds]", "T[clouds, rain]", "T[clouds, sun]", "T[rain, clouds]"]
    assert post.summary("psi")["name"].tolist() == ["psi[clouds]", "psi[rain]", "psi[sun]"]
    axes = post.plot_T()
    assert [x.get_text() for x in axes[0].get_xticklabels()] == ["clouds", "rain", "sun"]
    if method == "gaps":
        axes = post.plot_trace([("rain", "sun")])
        assert axes[0].get_ylabel() == "T[rain, sun]"


def test_words_that_hidden_states_emit_name_symbols_only():
    post = hm.fit(WORDS, 2, psi=.2, draws=20, warmup=10, chains=2, seed=0, progress=False)
    names = post.summary("probs")["name"].tolist()
    assert names[:2] == ["probs[0, clouds]", "probs[0, rain]"]
    assert post.summary("start")["name"].tolist() == ["start[0]", "start[1]"]
