"""The smallest possible error: against counting, enumeration, the design's figures and itself."""
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.lab.chains import persistent_chain
from hmmop_nb.limits import INFORMATION, Walk, if_lengths, if_positions, least_se, moves_of_T, predicted_draws

KEEPS = (.2, .35, .5, .65, .8, .9)
DENSE = np.array([[.25, .65, .1], [.2, .5, .3], [.5, .2, .3]])
SIZE = dict(n_sequences=400, n_steps=50)


def price(chains, keep):
    both = [[hm.limit(T, 1 - keep, n_sequences=1, n_steps=2000, known=known).l1 for T in chains]
            for known in ("nothing", "positions")]
    return np.divide(*np.mean(both, 1))


def test_price_of_unknown_places_on_chains_of_degree_five():
    found = [price([hm.degree_chain(seed=seed).T for seed in range(5)], keep) for keep in KEEPS]
    np.testing.assert_allclose(found, [2.30, 1.73, 1.44, 1.26, 1.13, 1.06], atol=.011)


def test_price_of_unknown_places_on_the_cycle():
    rings = [np.array(hm.cyclic_multipartite(seed=seed).T) for seed in range(2)]
    def ratio(T, keep):
        law = hm.stationary(T)
        return np.divide(*(least_se(T, 1 - keep, law, places=places).sum() for places in (False, True)))
    for keep, wanted in zip(KEEPS[1:], (1.08, 1.02, 1.00, 1.00, 1.00)):
        assert abs(np.mean([ratio(T, keep) for T in rings]) - wanted) < .012


def test_complete_walks_have_the_error_of_counted_steps():
    pi = hm.stationary(DENSE)
    found = hm.limit(DENSE, .5, known="everything", **SIZE)
    np.testing.assert_allclose(found.sd, np.sqrt(DENSE * (1 - DENSE) / (400 * 49 * pi[:, None])), rtol=1e-9)
    assert found.l1 == pytest.approx(np.sqrt(2 / np.pi) * found.sd.sum(1).mean())


@pytest.mark.parametrize("psi", [.3, .7, np.array([.2, .6, .5])], ids=str)
@pytest.mark.parametrize("T", [DENSE, np.array([[.3, .7, 0.], [.2, .5, .3], [.5, .2, .3]])], ids=["dense", "holed"])
def test_to_know_more_never_hurts(T, psi):
    found = {known: hm.limit(T, psi, known=known, **SIZE) for known in INFORMATION}
    more = ["nothing", "lengths", "positions", "everything"]
    for less, known in zip(more, more[1:]):
        assert (found[known].sd <= found[less].sd * (1 + 1e-9)).all()
    first = hm.limit(T, psi, start=hm.stationary(T), **SIZE) # known, which is something too
    assert (first.sd <= found["nothing"].sd * (1 + 1e-9)).all()


@pytest.mark.parametrize("known", INFORMATION)
def test_information_is_proportional_to_the_number_of_sequences(known):
    one, many = (hm.limit(DENSE, .5, n_sequences=n, n_steps=20, known=known) for n in (1, 100))
    np.testing.assert_allclose(100 * one.information, many.information, rtol=1e-12)
    assert one.l1 == pytest.approx(10 * many.l1)


def test_shares_of_knowledge_add_up():
    parts = [hm.limit(DENSE, .5, known=known, start=hm.stationary(DENSE), **SIZE).information for known in ("nothing", "positions")]
    mixed = hm.limit(DENSE, .5, known={"nothing": .25, "positions": .75}, start=hm.stationary(DENSE), **SIZE)
    np.testing.assert_allclose(mixed.information, .25 * parts[0] + .75 * parts[1], rtol=1e-10)


def test_a_constant_psi_costs_nothing_if_lengths_are_known_and_everything_if_not():
    told, learned = (hm.limit(DENSE, .5, known="lengths", psi_learned=learned, **SIZE).l1 for learned in (False, True))
    assert learned == pytest.approx(told, rel=.01) and learned >= told * (1 - 1e-9)
    assert hm.limit(DENSE, .5, psi_learned=True, **SIZE).l1 == np.inf
    with pytest.raises(ValueError, match="known: 'nothing' does not determine T"):
        hm.plan(DENSE, .5, target=.1, n_steps=50, psi_learned=True)


def test_lengths_lie_between_nothing_and_positions_for_all_benchmarks():
    for T in (hm.degree_chain(seed=1).T, persistent_chain(seed=0).T, hm.part_of_speech().T):
        for keep in (.2, .5, .9):
            walk = Walk(np.array(T), np.full(len(T), 1 - keep), hm.stationary(T), 80)
            gain = if_positions(walk, moves_of_T(walk.T)) - if_lengths(walk, moves_of_T(walk.T))
            assert np.linalg.eigvalsh(gain).min() > -.02 * np.abs(gain).max()


def test_zeros_that_are_told_help_and_zeros_that_are_seen_need_not_be():
    T = np.array(hm.degree_chain(seed=0).T)
    everywhere = np.ones(T.shape)
    told, untold = hm.limit(T, .5, **SIZE), hm.limit(T, .5, support=everywhere, **SIZE)
    assert untold.l1 > 1.2 * told.l1 and len(untold.moves) == 90 and len(told.moves) == 40
    for known in ("positions", "everything"):
        assert hm.limit(T, .5, known=known, support=everywhere, **SIZE).l1 == hm.limit(T, .5, known=known, **SIZE).l1
    ring = np.roll(np.eye(3), 1, 1) * .9 + np.roll(np.eye(3), 2, 1) * .1
    assert len(hm.limit(ring, 0., support=np.ones((3, 3)), **SIZE).moves) == 3 # nothing omitted: what is not seen is not there


def test_a_state_that_is_never_visited_is_never_learned():
    T = np.array([[.5, .5, 0.], [.5, .5, 0.], [.2, .3, .5]])
    found = hm.limit(T, .3, **SIZE)
    assert np.isinf(found.sd[2]).all() and np.isfinite(found.sd[:2]).all() and found.l1 == np.inf
    assert np.isfinite(hm.limit(T, .3, start=np.full(3, 1 / 3), **SIZE).l1)


def test_nothing_to_learn_is_learned_at_once():
    ring = np.roll(np.eye(4), 1, 1)
    assert hm.limit(ring, .5, **SIZE).l1 == 0
    assert hm.plan(ring, .5, target=.01, n_steps=10).n_sequences == 1


@pytest.mark.parametrize("known", INFORMATION)
def test_plan_and_limit_agree(known):
    found = hm.plan(DENSE, .5, target=.03, n_steps=40, known=known)
    assert found.limit.l1 <= .03 < hm.limit(DENSE, .5, n_sequences=found.n_sequences - 1, n_steps=40, known=known).l1
    assert found.needed[known] == found.n_sequences and f"{found.n_sequences:,} sequences" in str(found)


def test_maximum_likelihood_reaches_the_limit():
    "Mean L1 error over 30 data sets; its standard error is about 5% of it, the end of the lists pulls by less."
    model = hm.HMMOP(DENSE, hm.stationary(DENSE), hm.Categorical(np.eye(3)), .5)
    def error(seed):
        data = model.sample(200, 60, seed=seed)
        return hm.l1_distance(hm.fit_em(data.sequences, psi=.5, emission=model.emission, progress=False).mean_T, DENSE)
    errors = [error(seed) for seed in range(30)]
    bound = hm.limit(DENSE, .5, n_sequences=200, n_steps=60).l1
    assert .85 < np.mean(errors) / bound < 1.2


def test_predicted_draws_are_those_of_the_design():
    T = hm.degree_chain(seed=1).T
    found = [[predicted_draws(T, 1 - keep, n_steps=80, known=known) for keep in (.2, .35, .5, .8)] for known in ("positions", "lengths")]
    np.testing.assert_allclose(found[0], [.021, .066, .14, .47], rtol=.04)
    np.testing.assert_allclose(found[1], [.0003, .002, .007, .08], rtol=.2)
    assert predicted_draws(T, 0., n_steps=80, known="nothing") == pytest.approx(1, abs=1e-6)


HIDDEN = hm.Gaussian([0., 1.5, 3.], .5)


@pytest.mark.parametrize("known", INFORMATION)
def test_hidden_states_cost_and_states_told_apart_do_not(known):
    "Lists are drawn, 1,000 of them: errors of a few per cent."
    seen = hm.limit(DENSE, .5, known=known, **SIZE)
    far, near = (hm.limit(DENSE, .5, known=known, emission=e, **SIZE) for e in (hm.Gaussian([0., 50., 100.], 1.), HIDDEN))
    np.testing.assert_allclose(far.sd, seen.sd, rtol=.15)
    np.testing.assert_allclose(far.others["start"], seen.others["start"], rtol=.15)
    if known != "everything": assert near.l1 > 1.1 * seen.l1
    assert set(near.others) == {"start", "means", "scales"}


def test_emissions_that_are_known_hide_less_than_learned_ones():
    told, learned = (hm.limit(DENSE, .5, emission=HIDDEN, emission_learned=x, **SIZE) for x in (False, True))
    assert told.l1 < learned.l1 and "means" not in told.others


def test_a_share_of_the_places_lies_between_none_and_all():
    found = [hm.limit(DENSE, .5, known=share, **SIZE).l1 for share in (0., .2, .5, 1.)]
    none, every = (hm.limit(DENSE, .5, known=known, **SIZE).l1 for known in ("nothing", "positions"))
    assert found[0] == pytest.approx(none) and found[3] == pytest.approx(every, rel=.05)
    assert (np.diff(found) < 0).all()


def test_psi_and_start_have_limits_of_their_own():
    "With lengths, one psi is a share of coins: its error is that of counting."
    found = hm.limit(DENSE, .5, known="lengths", psi_learned=True, **SIZE).others
    np.testing.assert_allclose(found["psi"], np.sqrt(.25 / (400 * 50)), rtol=.03)
    whole = hm.limit(DENSE, .5, known="everything", **SIZE).others["start"]
    pi = hm.stationary(DENSE)
    np.testing.assert_allclose(whole, np.sqrt(pi * (1 - pi) / 400), rtol=1e-9)


@pytest.mark.parametrize("wrong, text", [
    (dict(known=1.5), "known: is 1.5"), (dict(emission=hm.Gaussian([0., 1.], 1.)), "emission: expected an emission object of 3"),
    (dict(emission=HIDDEN, lists=20), "lists: 20 of them are too few"), (dict(emission=HIDDEN, lists=45, n_steps=2), "lists: 45 of them hold"),
    (dict(psi=1.), "psi: psi is 1.0, but must be below 1|psi: psi.*below 1"), (dict(known="gaps"), "known: is 'gaps'"),
    (dict(known={"nothing": .5}), "known: expected shares"), (dict(known={}), "known: expected shares"),
    (dict(n_steps=0), "n_steps: expected a whole number"), (dict(n_sequences=1.5), "n_sequences: expected a whole number"),
    (dict(n_steps=10**6), "n_steps: is too large"), (dict(start=[.5, .5]), "start: expected one entry"),
    (dict(support=np.eye(3)), r"support: has no entry at \[0, 1\]"), (dict(support=np.ones(3)), "support: expected a matrix"),
    (dict(psi=[0., .5, .5], psi_learned=True), r"psi: psi\[0\] is 0.0, but must be above 0"),
    (dict(T=np.ones((2, 3, 3)) / 3), "T: expected one matrix"), (dict(start_learned="no"), "start_learned: expected True or False"),
], ids=str)
def test_bad_input_is_named(wrong, text):
    with pytest.raises(ValueError, match=f"^({text})"):
        hm.limit(**(dict(T=DENSE, psi=.5) | SIZE | wrong))
