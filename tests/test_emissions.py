"""Every family of emissions in every method: known and learned, whole rows and rows with holes."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.em import em_step, expectations
from hmmop_nb.engine import posterior
from hmmop_nb.engine.emissions import KINDS, Emission, Family, KnownEmission, emission_arrays, make_emission
from hmmop_nb.engine.families import Gamma, LearnedFamily, LogNormal, VonMises
from hmmop_nb.engine.problem import first_theta, pose
from hmmop_nb.engine.reading import read_sequences
from hmmop_nb.engine.vectors import LEARNED, BernoulliVector, Mixture

T = np.array([[.1, .8, .1], [.2, .1, .7], [.7, .2, .1]])
START = np.full(3, 1 / 3)
RUN = dict(draws=60, warmup=60, chains=1, seed=4, progress=False)
SHORT = dict(draws=3, warmup=2, chains=1, seed=4, progress=False)
CLOUD = hm.GaussianVector([[0., 0.], [3., 1.], [1., 4.]], [np.eye(2), [[1., .6], [.6, 1.]], [[.5, -.2], [-.2, .8]]])
ROWS = hm.Product(hm.Gaussian([0., 4., 8.], 1.), hm.Poisson([9., 1., 4.]))
EMISSIONS = {
    "gaussian": CLOUD,
    "student_t": hm.StudentT([0., 5., 10.], .7, 4.),
    "negative_binomial": hm.NegativeBinomial([2., 15., 60.], .1),
    "lognormal": LogNormal([0., 1.5, 3.], .4),
    "gamma": Gamma([4., 8., 20.], [4., 2., 1.]),
    "von_mises": VonMises([-2., 0., 2.], 8.),
    "bernoulli": BernoulliVector([[.9, .9, .9, .1, .1, .1], [.1, .1, .5, .9, .9, .1], [.1, .9, .1, .1, .9, .9]]),
    "product": ROWS,
}


def told(name): return ["gaussian", "poisson"] if name == "product" else name


def simulated(name, n=60, steps=40, seed=3):
    return hm.HMMOP(T, START, EMISSIONS[name], .3).sample(n, steps, seed=seed)


@pytest.mark.parametrize("name", EMISSIONS)
def test_a_simulated_chain_is_found_again(name):
    "60 walks of 40 steps, of which 70% are seen: 560 observations for each row of T; an entry to about .03."
    data = simulated(name)
    found = hm.fit(data.sequences, 3, psi=.3, emission=told(name), **RUN)
    like = hm.HMMOP(T, START, EMISSIONS[name], .3)
    found = found.relabel(like)
    assert hm.l1_distance(found.mean_T, T) < .25
    model = found.model()
    assert type(model.emission) is type(EMISSIONS[name])
    states = np.repeat([0, 1, 2], 50)
    rows = EMISSIONS[name].sample(states, np.random.default_rng(1))
    own, true = (emission.log_likelihood(rows)[np.arange(150), states] for emission in (model.emission, EMISSIONS[name]))
    assert abs(np.mean(own - true)) < .1 and np.abs(own - true).mean() < .25


EVERY = ["gaps", "matching", "known", "naive"]
RARE = ["augmented", "paper", "matching augmented", "gibbs", "known augmented", "mixed", "common", "analytic", "random"]


@pytest.mark.parametrize("method, name", [*((m, n) for m in EVERY for n in EMISSIONS),
                                          *((m, n) for m in RARE for n in ("gaussian", "student_t", "product"))])
def test_every_method_learns_every_family_and_sees_its_likelihood(method, name):
    data = simulated(name, 6, 8)
    seq, pos, n = data.sequences, data.positions, data.n_steps
    learn = dict(n_states=3, emission=told(name), **SHORT)
    fits = {
        "gaps": lambda: hm.fit_gaps(seq, .3, **learn), "augmented": lambda: hm.fit_gaps(seq, .3, variant="augmented", **learn),
        "paper": lambda: hm.fit_gaps(seq, .3, variant="paper", **learn), "matching": lambda: hm.fit_matching(seq, n, **learn),
        "matching augmented": lambda: hm.fit_matching(seq, n, variant="augmented", **learn),
        "gibbs": lambda: hm.fit_matching(seq, n, placement="gibbs", inner=2, **learn),
        "known": lambda: hm.fit_known(seq, pos, n, **learn),
        "known augmented": lambda: hm.fit_known(seq, pos, n, variant="augmented", **learn),
        "naive": lambda: hm.fit_naive(seq, **learn), "analytic": lambda: hm.fit_analytic(seq, .3, **learn),
        "random": lambda: hm.fit_random(seq, n, **learn), "common": lambda: hm.fit(seq, n_steps="common", **learn),
        "mixed": lambda: hm.fit(seq, n_steps=[8, np.nan, 8, np.nan, 8, np.nan], psi=.3,
                                positions=[pos[0], *[None] * 5], **learn)}
    found = fits[method]()
    if method not in ("gaps", "augmented", "paper", "naive", "matching", "matching augmented", "known", "known augmented", "mixed"): return
    known = dict(naive={}, matching=dict(n_steps=n), known=dict(positions=pos, n_steps=n)).get(method.split()[0], {})
    if method == "mixed": known = dict(n_steps=[8, np.nan, 8, np.nan, 8, np.nan], positions=[pos[0], *[None] * 5])
    for d in range(3):
        own = make_emission(found.family, {k: x[0, d] for k, x in found.emission.items()})
        at = hm.HMMOP(found.T[0, d], found.start[0, d], own, found.psi[0, d])
        assert np.isclose(found.stats["log_likelihood"][0, d], hm.log_likelihood(at, seq, **known).sum(), rtol=1e-8)


@pytest.mark.parametrize("name", EMISSIONS)
def test_known_emissions_go_through_everything(name):
    model = hm.HMMOP(T, START, EMISSIONS[name], .3)
    data = model.sample(8, 9, seed=1)
    seq, n = data.sequences, data.n_steps
    for found in (hm.fit(seq, psi=.3, emission=model.emission, **SHORT), hm.fit(seq, n_steps=n, emission=model.emission, **SHORT),
                  hm.fit_known(seq, data.positions, n, emission=model.emission, **SHORT),
                  hm.fit_naive(seq, emission=model.emission, **SHORT)):
        for array in found.emission.values(): assert (array == array[:1, :1]).all()
        assert np.allclose(found.model().emission.log_likelihood(seq.values), model.emission.log_likelihood(seq.values))
    marginals = np.concatenate(hm.posterior_marginals(model, seq))
    assert np.allclose(marginals.sum(1), 1) and len(marginals) == len(seq.values)
    assert hm.decode(model, seq, n, "viterbi").lengths.tolist() == seq.lengths.tolist()
    assert hm.place(model, seq, n).lengths.tolist() == seq.lengths.tolist()
    # against enumeration of all labels of the first list
    first = seq[0][:4]
    R, r0 = hm.thin(T, .3), hm.thin_start(START, T, .3)
    logs, total = model.emission.log_likelihood(first), 0.
    for path in np.ndindex(*(3,) * len(first)):
        p = r0[path[0]] * np.prod([R[a, b] for a, b in zip(path, path[1:])])
        total += p * np.exp(sum(logs[k, s] for k, s in enumerate(path)))
    assert np.isclose(hm.log_likelihood(model, [first])[0], np.log(total), rtol=1e-10)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_without_omission_the_numbers_are_those_of_hmmlearn(covariance):
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(5)
    full = np.array([np.cov(rng.normal(size=(3, 20))) for _ in range(3)])
    given = dict(full=full, tied=full[0], diag=full.diagonal(0, 1, 2), spherical=full[:, 0, 0])[covariance]
    ours = dict(full=full, tied=np.array([full[0]] * 3), diag=full.diagonal(0, 1, 2),
                spherical=np.repeat(full[:, 0, 0], 3).reshape(3, 3))[covariance]
    means = rng.normal(size=(3, 3)) * 2
    theirs = hmm.GaussianHMM(3, covariance)
    theirs.startprob_, theirs.transmat_, theirs.means_, theirs.covars_ = START, T, means, given
    model = hm.HMMOP(T, START, hm.GaussianVector(means, ours), 0.)
    lists = [model.emission.sample(rng.integers(3, size=k), rng) for k in (30, 7)]
    X, lengths = np.concatenate(lists), [30, 7]
    assert np.isclose(hm.log_likelihood(model, (X, lengths)).sum(), theirs.score(X, lengths), rtol=1e-8)
    gamma = np.concatenate(hm.posterior_marginals(model, (X, lengths)))
    assert np.allclose(gamma, theirs.predict_proba(X, lengths), atol=1e-8)
    found = hm.fit_naive((X, lengths), n_states=3, emission=("gaussian", dict(covariance=covariance)), **SHORT)
    assert found.info["emission_parameters"] == dict(full=27, tied=15, diag=18, spherical=12)[covariance]


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_an_em_step_is_that_of_hmmlearn(covariance):
    hmm = pytest.importorskip("hmmlearn.hmm")
    seq = hm.HMMOP(T, START, CLOUD, 0.).sample(5, 60, seed=8).sequences
    problem = pose(seq, emission=("gaussian", dict(covariance=covariance)), n_states=3, psi=0.)
    theta = first_theta(problem, np.random.default_rng(2))
    means, covariances = problem.family.unpack(theta.emission).values()
    theirs = hmm.GaussianHMM(3, covariance, init_params="", n_iter=1, tol=-np.inf, min_covar=0., covars_prior=0.,
                             covars_weight=0., means_weight=0.)
    theirs.startprob_, theirs.transmat_, theirs.means_ = theta.start, theta.T, means
    theirs.covars_ = dict(full=covariances, tied=covariances[0], diag=covariances, spherical=covariances[:, 0])[covariance]
    theirs.fit(seq.values, seq.lengths)
    found = expectations(problem, theta)
    assert np.isclose(found.log_likelihood, theirs.monitor_.history[0], rtol=1e-10)
    new = em_step(problem, theta, found, 1e-15)
    assert np.allclose(new.T, theirs.transmat_, atol=1e-8) # the chain is found by a climb
    means, covariances = problem.family.unpack(new.emission).values()
    assert np.allclose(means, theirs.means_, atol=1e-8)
    if covariance in ("full", "tied"): assert np.allclose(covariances, theirs.covars_, atol=1e-8)
    else: assert np.allclose(covariances, theirs._covars_, atol=1e-8)


SYMBOLS = hm.Categorical([[.7, .2, .1, 0.], [.1, .1, .2, .6], [.2, .5, .1, .2]])


@pytest.mark.parametrize("name, emission", [("poisson", hm.Poisson([2., 5., 9.])), ("categorical", SYMBOLS)])
def test_counts_and_symbols_are_those_of_hmmlearn(name, emission):
    hmm = pytest.importorskip("hmmlearn.hmm")
    seq = hm.HMMOP(T, START, emission, 0.).sample(5, 60, seed=8).sequences
    problem = pose(seq, emission=name, n_states=3, psi=0.)
    theta = first_theta(problem, np.random.default_rng(2))
    theirs = dict(poisson=hmm.PoissonHMM, categorical=hmm.CategoricalHMM)[name](3, init_params="", n_iter=1, tol=-np.inf)
    theirs.startprob_, theirs.transmat_ = theta.start, theta.T
    if name == "poisson": theirs.lambdas_, theirs.n_features = theta.emission[0][:, None].copy(), 1
    else: theirs.emissionprob_, theirs.n_features = theta.emission.copy(), 4
    X = seq.values.reshape(-1, 1)
    at = hm.HMMOP(theta.T, theta.start, problem.family.emission(theta.emission), 0.)
    assert np.isclose(hm.log_likelihood(at, seq).sum(), theirs.score(X, seq.lengths), rtol=1e-10)
    assert np.allclose(np.concatenate(hm.posterior_marginals(at, seq)), theirs.predict_proba(X, seq.lengths), atol=1e-8)
    new = em_step(problem, theta, expectations(problem, theta), 1e-15)
    theirs.fit(X, seq.lengths)
    assert np.allclose(new.T, theirs.transmat_, atol=1e-8) # the chain is found by a climb
    found = new.emission[0] if name == "poisson" else new.emission
    assert np.allclose(found, theirs.lambdas_[:, 0] if name == "poisson" else theirs.emissionprob_, atol=1e-8)


def test_mixtures_are_those_of_hmmlearn():
    "Its covariances are taken around the means before the step, ours around those after it."
    hmm = pytest.importorskip("hmmlearn.hmm")
    parts = hm.GaussianVector(np.array([[0., 0.], [2., 1.], [6., 0.], [6., 3.], [0., 6.], [3., 7.]]), [np.eye(2)] * 6)
    seq = hm.HMMOP(T, START, Mixture([[.4, .6]] * 3, parts), 0.).sample(5, 60, seed=8).sequences
    problem = pose(seq, emission=("mixture", dict(n_parts=2)), n_states=3, psi=0.)
    theta = first_theta(problem, np.random.default_rng(2))
    arrays = problem.family.unpack(theta.emission)
    weights, means, covariances = (arrays[name].copy() for name in ("weights", "means", "covariances"))
    theirs = hmm.GMMHMM(3, 2, covariance_type="full", init_params="", n_iter=1, tol=-np.inf)
    theirs.n_features = 2
    theirs.startprob_, theirs.transmat_, theirs.weights_ = theta.start, theta.T, weights
    theirs.means_, theirs.covars_ = means, covariances
    theirs._init_covar_priors(), theirs._fix_priors_shape()
    at = hm.HMMOP(theta.T, theta.start, problem.family.emission(theta.emission), 0.)
    assert np.isclose(hm.log_likelihood(at, seq).sum(), theirs.score(seq.values, seq.lengths), rtol=1e-10)
    gamma = np.concatenate(hm.posterior_marginals(at, seq))
    assert np.allclose(gamma, theirs.predict_proba(seq.values, seq.lengths), atol=1e-8)
    theirs.fit(seq.values, seq.lengths)
    new = em_step(problem, theta, expectations(problem, theta), 1e-15)
    found = problem.family.unpack(new.emission)
    assert np.allclose(new.T, theirs.transmat_, atol=1e-8)
    assert np.allclose(found["weights"], theirs.weights_, atol=1e-8) and np.allclose(found["means"], theirs.means_, atol=1e-8)
    moved = found["means"] - means
    assert np.allclose(found["covariances"] + moved[..., :, None] * moved[..., None, :], theirs.covars_, atol=1e-8)


def test_several_starts_are_tried_where_states_overlap_and_reported():
    model = hm.HMMOP(T, START, hm.Gaussian([0., 1.5, 3.], 1.), 0.)
    data = model.sample(40, 50, seed=1).sequences
    found = hm.fit_em(data, n_states=3, psi=0., seed=2)
    kinds = [each["kind"] for each in found.info["rehearsal"]]
    assert sorted(set(kinds)) == ["mixture", "neighbours", "random"] and kinds.count("random") >= 4
    assert found.info["log_likelihood"] > hm.fit_em(data, n_states=3, psi=0., init=model).info["log_likelihood"] - .1
    clear = hm.HMMOP(T, START, hm.Gaussian([0., 15., 30.], 1.), 0.).sample(40, 50, seed=1).sequences
    assert hm.fit_em(clear, n_states=3, psi=0., seed=2).info["rehearsal"] == []


@pytest.mark.parametrize("name", EMISSIONS)
def test_em_climbs_to_a_chain_like_the_true_one(name):
    data = simulated(name)
    true = hm.HMMOP(T, START, EMISSIONS[name], .3)
    for known in (dict(psi=.3), dict(psi=.3, n_steps=40)):
        found = hm.fit_em(data.sequences, n_states=3, emission=told(name), seed=1, tol=1e-2, **known)
        assert (np.diff(found.info["trace"]) > -1e-6).all() and found.info["converged"]
        assert found.info["log_likelihood"] > hm.log_likelihood(true, data.sequences, known.get("n_steps")).sum() - .1
        assert hm.l1_distance(found.relabel(true).mean_T, T) < .25
    with pytest.raises(ValueError, match="errors of"): hm.fit_em(data.sequences, n_states=3, emission=told(name), psi=.3, errors=True)


def test_em_takes_rows_of_which_different_things_are_known():
    data = simulated("gaussian", 40)
    n = np.where(np.arange(40) % 2, 40, np.nan)
    found = hm.fit(data.sequences, 3, psi=.3, n_steps=n, positions=[data.positions[0], *[None] * 39], method="em", seed=1)
    assert (np.diff(found.info["trace"]) > -1e-6).all()
    true = hm.HMMOP(T, START, CLOUD, .3)
    assert hm.l1_distance(found.relabel(true).mean_T, T) < .3


def test_the_number_of_states_is_chosen_for_rows_too():
    table = hm.choose_n_states(simulated("gaussian", 40, 30).sequences, [2, 3], psi=.3, seed=1)
    assert table.best == 3 and table["parameters"][1] == 3 * 2 + 2 + 3 * 2 + 3 * 3


def test_missing_coordinates_are_summed_out():
    "The integral over a missing coordinate by quadrature; a row without any value stands in the list."
    model = hm.HMMOP(T, START, CLOUD, [.3, .5, .2])
    row = [[0., 1.], [np.nan, 2.], [3., .5]]
    x, w = np.polynomial.legendre.leggauss(300)
    x = 12 * x
    for n_steps in (None, 6):
        whole = [hm.log_likelihood(model, [np.array([row[0], [v, 2.], row[2]])], n_steps)[0] for v in x]
        got = hm.log_likelihood(model, [np.array(row)], n_steps)[0]
        assert np.isclose(got, np.log((12 * w) @ np.exp(whole)), rtol=1e-9)
    blank = np.array([row[0], [np.nan, np.nan], row[2]])
    nothing = hm.GaussianVector(CLOUD.means[:, :1], CLOUD.covariances[:, :1, :1])
    single = hm.HMMOP(T, START, nothing, [.3, .5, .2])
    holes = read_sequences([[0., None, 3.]], missing="value")[0]
    first = np.c_[blank[:, 0], [np.nan] * 3]
    assert np.isclose(hm.log_likelihood(single, holes)[0], hm.log_likelihood(model, [first])[0], rtol=1e-12)
    assert hm.decode(model, [blank]).lengths[0] == 3


def test_holes_in_rows_are_learned_around():
    data = simulated("gaussian", 80)
    values = data.sequences.values.copy()
    values[np.random.default_rng(1).random(values.shape) < .25] = np.nan
    assert np.isnan(values).all(1).any()
    found = hm.fit(hm.Sequences(values, data.sequences.offsets), 3, psi=.3, **RUN).relabel(hm.HMMOP(T, START, CLOUD, .3))
    assert hm.l1_distance(found.mean_T, T) < .3
    assert np.abs(found.model().emission.means - CLOUD.means).max() < .4
    with pytest.raises(ValueError, match="observation 1 is nan"): hm.fit([[1., np.nan]], 2, psi=.3, emission="student_t", **SHORT)
    kept = hm.fit([[1., np.nan, 2., 7.]], 2, psi=.3, emission="student_t", missing="value", **SHORT)
    assert kept.info["n_observations"] == 4


def test_rows_come_in_all_forms():
    rows = np.arange(12.).reshape(6, 2)
    rows[1, 0] = np.nan
    lists = hm.Sequences.from_list([rows[:4], np.zeros(0), rows[4:]])
    assert lists.values.shape == (6, 2) and lists.lengths.tolist() == [4, 0, 2]
    assert "6 rows of 2 values (1 missing)" in repr(lists)
    table = dict(sequence=list("aaaabb"), x=rows[:, 0], y=rows[:, 1], order=[0, 1, 2, 3, 0, 1])
    forms = [(rows, [4, 2]), [rows[:4], rows[4:]], [rows[:4].tolist(), rows[4:].tolist()]]
    for form in forms: assert np.array_equal(read_sequences(form)[0].values, rows, equal_nan=True)
    assert np.array_equal(read_sequences(table, value=["x", "y"])[0].values, rows, equal_nan=True)
    assert np.array_equal(hm.Sequences.from_table(table, value=["y", "x"]).values, rows[:, ::-1], equal_nan=True)
    found = hm.fit(table, 2, psi=.3, value=["x", "y"], **SHORT)
    assert "means[0, y]" in found.summary()["name"].tolist()
    assert hm.log_likelihood(found, table).shape == (2,)

    class Cells:
        "An AnnData, as far as it is looked at."
        obs = dict(pseudotime=np.array([3., 1., 2.]))
        var_names = ["Gata1", "Klf1", "Sox2"]
        X = np.arange(9.).reshape(3, 3)
        obsm = dict(X_pca=np.arange(6.).reshape(3, 2))
    cells = Cells()
    class Obs(dict):
        columns = ["pseudotime"]
        def __len__(self): return 3
    cells.obs = Obs(Cells.obs)
    assert read_sequences(cells, value=["Klf1", "Gata1"])[0].values.tolist() == [[4., 3.], [7., 6.], [1., 0.]]
    assert read_sequences(cells, value="X_pca")[0].values.tolist() == [[2., 3.], [4., 5.], [0., 1.]]
    for wrong, said in (([rows, np.zeros((2, 3))], "rows of 3|rows of 2"), ([np.full((2, 2), np.inf)], "column 0 is inf"),
                        ([rows, np.zeros(3)], "of 1; give all the same columns")):
        with pytest.raises(ValueError, match=said): hm.Sequences.from_list(wrong)
    with pytest.raises(ValueError, match="one number per observation"): hm.fit([rows], 2, psi=.3, emission="poisson", **SHORT)
    with pytest.raises(ValueError, match="one number per observation"): hm.log_likelihood(hm.HMMOP(np.eye(2), [1, 0], hm.Gaussian([0, 1], 1.), 0.), [rows])
    with pytest.raises(ValueError, match="has 2 columns"): hm.log_likelihood(hm.HMMOP(np.eye(1), [1], hm.GaussianVector([[0., 0., 0.]], [[1., 1., 1.]]), 0.), [rows])
    with pytest.raises(ValueError, match="positions"): hm.fit_known([[1., 2.]], [[[0, 1], [1, 2]]], 4, n_states=1, **SHORT)
    with pytest.raises(ValueError, match="states"): hm.fit([rows], psi=.3, emission="states", **SHORT)


@pytest.mark.parametrize("name", [*EMISSIONS, "mixture"])
def test_posteriors_are_kept_and_told(name, tmp_path):
    if name == "mixture":
        emission = ("mixture", dict(n_parts=2))
        kinds = Mixture([[.5, .5]] * 3, hm.Gaussian([0., 1., 5., 6., 10., 11.], .2))
        data = hm.HMMOP(T, START, kinds, .3).sample(10, 8, seed=3).sequences
    else: emission, data = told(name), simulated(name, 10, 8).sequences
    found = hm.fit(data, 3, psi=.3, emission=emission, **SHORT | dict(draws=5, chains=2))
    found.save(tmp_path / "found.npz")
    again = hm.Posterior.load(tmp_path / "found.npz")
    assert again.family == found.family
    for part, x in found.emission.items(): assert np.array_equal(x, again.emission[part])
    values = data.values
    assert np.allclose(found.model().emission.log_likelihood(values), again.model().emission.log_likelihood(values))
    assert len(found.summary()["name"]) > 12
    flipped = hm.HMMOP(found.model().T[::-1, ::-1], START, reordered(found.model().emission), .3)
    turned = found.relabel(flipped)
    assert (turned.info["relabelled"] > 0) and np.allclose(np.sort(turned.T, None), np.sort(found.T, None))
    groups, dims = posterior.arviz_groups(found), posterior.arviz_dims(found)
    for part, x in found.emission.items():
        assert groups["posterior"][part] is x and len(dims[part]) == x.ndim - 2 and dims[part][0] == "state"
    begun = hm.fit(simulated(name, 10, 8).sequences if name != "mixture" else hm.HMMOP(T, START, kinds, .3).sample(10, 8, seed=3).sequences,
                   3, psi=.3, emission=emission, init=found.model(), **SHORT)
    assert begun.family == found.family


def reordered(emission):
    name, arrays = emission_arrays(emission)
    return make_emission(name, {k: x[::-1] for k, x in arrays.items()})


def test_states_are_numbered_by_what_they_emit():
    found = hm.fit(simulated("gaussian").sequences, 3, psi=.3, **RUN | dict(chains=2))
    assert (np.diff(found.model().emission.means[:, 0]) > 0).all()


THREADS = """
import numpy as np, hmmop_nb as hm
from tests.test_emissions import simulated, SHORT
data = simulated("gaussian", 30, 12)
values = data.sequences.values.copy()
values[::3, 0] = np.nan
seq = hm.Sequences(values, data.sequences.offsets)
n = np.where(np.arange(30) % 2, 12, np.nan)
for known in (dict(psi=.3), dict(n_steps=12), dict(psi=.3, n_steps=n)):
    found = hm.fit(seq, 3, **known, **SHORT | dict(chains=2))
    print(repr(found.T.sum()), repr(found.emission["covariances"].sum()), repr((found.emission["means"]**2).sum()))
"""


def test_the_number_of_threads_does_not_matter():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    said = [subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, cwd=root, check=True,
                           env=os.environ | dict(NUMBA_NUM_THREADS=n, PYTHONPATH=root)).stdout for n in ("1", "3")]
    assert said[0] == said[1] and said[0].count("\n") == 3


class Exponential:
    "State `s` emits a waiting time with rate `rates[s]`; knows nothing of nan."
    def __init__(self, rates): self.rates, self.n_states = np.asarray(rates, float), len(rates)
    def check(self, values, name="sequences"): return np.asarray(values, float)
    def sample(self, states, rng): return rng.exponential(1 / self.rates[states])
    def log_likelihood(self, values): return np.log(self.rates) - np.asarray(values)[:, None] * self.rates


class Waiting(LearnedFamily):
    "Exponential emissions with unknown rates."
    name, parameters = "waiting", ("rates",)

    def __init__(self, data, n_states, rates=(1., 1.)):
        super().__init__(data, n_states)
        self.shape, self.rate = rates
    def check(self, values): return np.asarray(values, float)
    def emission(self, params): return Exponential(params)
    def features(self, params, values, states, rng=None): return np.c_[values * 0 + 1, values]
    def draw(self, params, statistics, rng): return rng.gamma(self.shape + statistics[:, 0]) / (self.rate + statistics[:, 1])
    def maximise(self, params, statistics):
        number, total = statistics.T
        return np.where(number > 0, number / np.where(total > 0, total, 1.), params)
    def log_prior(self, params): return float(((self.shape - 1) * np.log(params) - self.rate * params).sum())
    def rough(self): return np.full(self.n_states, 1 / np.nanmean(self.values))


def test_a_family_of_ones_own_is_learned_by_its_class(tmp_path):
    data = hm.HMMOP(T, START, Exponential([.01, 1., 100.]), .3).sample(60, 40, seed=2)
    for known in (dict(psi=.3), dict(n_steps=40)):
        for emission in (Waiting, (Waiting, dict(rates=(.5, .1)))):
            found = hm.fit(data.sequences, 3, emission=emission, **known, **RUN)
            rates = np.sort(found.model().emission.rates)
            assert np.allclose(rates / [.01, 1., 100.], 1, atol=.25)
            assert type(found.model().emission) is Exponential and found.family == "waiting"
    found.save(tmp_path / "own.npz")
    assert np.allclose(hm.Posterior.load(tmp_path / "own.npz").model().emission.rates, found.model().emission.rates)
    kept = KINDS.pop("waiting") # a new session
    try:
        again = hm.Posterior.load(tmp_path / "own.npz")
        assert again.family == "custom"
        with pytest.raises(ValueError, match="pass it to model"): again.model()
        assert again.model(emission=Exponential(again.emission["rates"].mean((0, 1)))).n_states == 3
    finally: KINDS["waiting"] = kept
    class Gaussian(Waiting): name = "gaussian"
    with pytest.raises(ValueError, match="is taken"): hm.fit(data.sequences, 3, emission=Gaussian, psi=.3, **SHORT)


# Who may know a family by name: the pages of the families, their beginnings, and those that make
# models of given families (chains to try things on, the laboratory that tests families one by one).
ALLOWED = {"engine/emissions", "engine/families", "engine/vectors", "engine/starts", "model", "lab/chains",
           "lab/trust", "__init__", "_modidx"}


def family_names():
    "Classes of emissions and of families, and the names they are learned by."
    def below(kind): return {kind} | {x for child in kind.__subclasses__() for x in below(child)}
    classes = (below(Emission) | below(LearnedFamily) | below(Family)) - {Emission, LearnedFamily, Family, KnownEmission}
    pages = {"hmmop_nb.engine.emissions", "hmmop_nb.engine.families", "hmmop_nb.engine.vectors"}
    return {kind.__name__ for kind in classes if kind.__module__ in pages}


def names_in(path):
    "Names that a module uses, and texts that it compares with something or looks up."
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Name): yield node.id
        elif isinstance(node, ast.Attribute): yield node.attr
        elif isinstance(node, (ast.ImportFrom, ast.Import)): yield from (alias.name for alias in node.names)
        elif isinstance(node, (ast.Compare, ast.Call, ast.Dict, ast.Return)):
            for child in ast.iter_child_nodes(node):
                inside = child.elts if isinstance(child, (ast.Tuple, ast.List, ast.Set)) else [child]
                yield from (x.value for x in inside if isinstance(x, ast.Constant) and isinstance(x.value, str))


def modules():
    folder = Path(hm.__file__).parent
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.py")}
    return {name: path for name, path in found.items() if name not in ALLOWED}


@pytest.mark.parametrize("name", sorted(modules()))
def test_no_other_module_knows_a_family_by_name(name):
    # words that only families have: "states" and "mixture" mean other things elsewhere, too
    words = family_names() | (set(KINDS) & {"gaussian", "poisson", "categorical", *LEARNED}) - {"gamma"}
    words -= {"Gamma"} # the name of an argument of many formulas
    found = sorted(words & set(names_in(modules()[name])))
    assert not found, f"{name} knows {found}; ask the family, or let engine.emissions answer"


def test_the_search_for_names_finds_them():
    seen = set(names_in(Path(hm.__file__).parent / "engine" / "emissions.py"))
    assert {"Gaussian", "Categorical", "Poisson", "gaussian"} <= seen
    assert {"Gaussian", "GaussianFamily", "LearnedStudentT", "BoundFamily"} <= family_names()


def test_names_of_columns_reach_summaries_and_arviz():
    pd = pytest.importorskip("pandas")
    data = hm.HMMOP(T, START, ROWS, .3).sample(20, 30, seed=2)
    table = pd.DataFrame(data.sequences.values, columns=["height", "visits"])
    table["who"] = np.repeat(np.arange(20), data.sequences.lengths)
    table["when"] = np.concatenate(list(data.positions))
    columns = dict(sequence="who", order="when", value=["height", "visits"])
    found = hm.fit(table, 3, psi=.3, emission=["gaussian", "poisson"], **columns, **SHORT)
    names = set(found.summary()["name"])
    assert {"height.means[0]", "height.scales[2]", "visits.rates[1]"} <= names
    vector = hm.fit(table, 3, psi=.3, emission="gaussian", **columns, **SHORT)
    assert "means[2, visits]" in set(vector.summary()["name"])
    labels = [text.get_text() for text in vector.plot_emission().get_xticklabels()]
    assert labels == ["height", "visits"]
    pytest.importorskip("arviz")
    held = vector.to_arviz()["posterior"]
    assert held["means"].dims[2:] == ("state", "column")
    assert list(held["means"].coords["column"].values) == ["height", "visits"]
    assert held["covariances"].shape == (1, 3, 3, 2, 2)


def test_a_beginning_with_another_alphabet_is_named():
    model = hm.HMMOP(T, START, SYMBOLS, .3)
    with pytest.raises(ValueError, match="init: its emissions know 4 symbols, but 2.*Prior\\(probs=np.ones\\(4\\)\\)"):
        hm.fit_gaps([[0, 1, 1]], .3, n_states=3, emission="categorical", init=model, **SHORT)
    with pytest.raises(ValueError, match="init: its emissions know 4 symbols, but 6.*knows all"):
        hm.fit_em([[0, 1, 5]], psi=.3, n_states=3, emission="categorical", init=model)
    found = hm.fit_gaps([[0, 1, 1]], .3, n_states=3, emission="categorical", init=model,
                        prior=hm.Prior(probs=np.ones(4)), **SHORT)
    assert found.emission["probs"].shape == (1, 3, 3, 4)


def test_parts_of_a_mixture_are_an_emission():
    with pytest.raises(ValueError, match="parts: expected an emission object"): Mixture([[.5, .5]], "gaussian")


def test_the_rehearsal_of_many_symbols_is_reported():
    rng = np.random.default_rng(1)
    model = hm.HMMOP(T, START, hm.Categorical(rng.dirichlet(np.full(60, .3), 3)), .3)
    found = hm.fit_em(model.sample(10, 20, seed=1).sequences, psi=.3, n_states=3, emission="categorical", seed=1, tol=1.)
    tried = found.info["rehearsal"]
    assert len(tried) == 12 and {each["kind"].split(",")[0] for each in tried} == {"neighbours", "mixture", "random"}
    assert max(found.info["starts"]) >= tried[0]["value"] - 1e-6
