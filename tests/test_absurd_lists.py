"""Lists that scaled recursions cannot hold: samplers and EM are exact, or refuse with reason."""
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.emissions import Gaussian
from hmmop_nb.lab.oracles import every_match, exact_observed

SHORT = dict(draws=4, warmup=2, chains=1, seed=0, progress=False)
HALVES = [[0., 0., 1., 1., 1.]] # two observations of state 0, three of state 1
NARROW = Gaussian([0, 1], 1000**-.5)
PLACES = np.array([0, 1, 2, 4, 6])


def fitted(method, sequences, emission, allowed, psi=.5, n_steps=None, places=None):
    "A short run of one method; the prior has zeros where the chain may not go."
    common = dict(emission=emission, prior=hm.Prior(T=allowed))
    if method == "em": return hm.fit_em(sequences, psi=psi, seed=0, **common)
    if method == "em, length known":
        return hm.fit_em(sequences, psi=psi, n_steps=n_steps, seed=0, **common)
    common |= SHORT
    if method == "naive": return hm.fit_naive(sequences, **common)
    if method == "known": return hm.fit_known(sequences, places, n_steps, psi=psi, **common)
    kind, _, how = method.partition(" ")
    if kind == "gaps": return hm.fit_gaps(sequences, psi, variant=how, **common)
    return hm.fit_matching(sequences, n_steps, psi=psi, placement=how, **common)


def exact(model, method, sequences, n_steps, places):
    "The log-likelihood by listing every explanation."
    if method == "naive":
        model = hm.HMMOP(model.T, model.start, model.emission, 0.)
    if method in ("naive", "em") or method.startswith("gaps"):
        return sum(exact_observed(model, x)[0] for x in sequences)
    total = 0.
    for x, N, at in zip(sequences, n_steps, places):
        found = every_match(model, x, N)
        rows = slice(None)
        if method == "known": rows = (found.places == at).all(1)
        total += np.logaddexp.reduce(found.log_weight[rows], axis=None)
    return total


EXACT = ["naive", "known", "gaps collapsed", "gaps augmented", "gaps paper", "matching exact", "em",
         "em, length known"]


def log_likelihoods(post, method, emission):
    "That of every draw, and the model of every draw."
    logs = post.log_density[0] if "em" in method else post.stats["log_likelihood"][0]
    psi = np.broadcast_to(post.psi[0], (post.n_draws, post.n_states))
    models = [hm.HMMOP(T, start / start.sum(), emission, p)
              for T, start, p in zip(post.T[0], post.start[0], psi)]
    return logs, models


@pytest.mark.parametrize("method", EXACT)
def test_a_list_between_two_states_that_are_never_left_has_its_true_likelihood(method):
    post = fitted(method, HALVES, NARROW, np.eye(2), n_steps=[7], places=[PLACES])
    logs, models = log_likelihoods(post, method, NARROW)
    for log, model in zip(logs, models):
        assert log == pytest.approx(exact(model, method, HALVES, [7], [PLACES]), abs=1e-6)
        assert -1000 < log < -980 # and not the -1,488 of the other state


@pytest.mark.parametrize("placement", ["gibbs", "paper"])
def test_placing_by_turns_begins_from_a_walk_that_can_be(placement):
    post = fitted(f"matching {placement}", HALVES, NARROW, np.eye(2), n_steps=[7])
    assert (post.stats["log_likelihood"] > -1000).all()


def left_to_right(seed):
    "Lists of a chain without return that were read in the wrong order here and there."
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, 4))
    allowed = np.triu(np.ones((S, S)))
    lists, steps, places = [], [], []
    for _ in range(3):
        N = int(rng.integers(4, 7 if S == 3 else 8))
        walk = np.sort(rng.integers(0, S, N))
        at = np.sort(rng.choice(N, int(rng.integers(2, 5)), replace=False))
        x = walk[at] + rng.normal(0, .03, len(at))
        if rng.random() < .7: x = rng.permutation(x)
        lists.append(x)
        steps.append(N)
        places.append(at)
    return lists, steps, places, Gaussian(np.arange(S), 1000**-.5), allowed


@pytest.mark.parametrize("method", EXACT)
def test_left_to_right_data_are_held_whatever_their_order(method):
    held = 0
    for seed in range(31):
        lists, steps, places, emission, allowed = left_to_right(seed)
        post = fitted(method, lists, emission, allowed, psi=.4, n_steps=steps, places=places)
        logs, models = log_likelihoods(post, method, emission)
        true = exact(models[-1], method, lists, steps, places)
        assert logs[-1] == pytest.approx(true, rel=1e-9)
        held += true < -600
    assert held > 8 # data that are beyond the reach of scaled messages, or near it


def test_what_cannot_be_is_still_refused():
    symbols = hm.Categorical(np.eye(2))
    for run in (lambda: hm.fit_naive([[0, 1, 0]], emission=symbols,
                                     prior=hm.Prior(T=np.triu(np.ones((2, 2)))), **SHORT),
                lambda: hm.fit_matching([[0, 1, 0]], [5], psi=.5, emission=symbols,
                                        prior=hm.Prior(T=np.triu(np.ones((2, 2)))), **SHORT)):
        with pytest.raises(ValueError, match="sequence 0 has probability zero under the model"):
            run()
