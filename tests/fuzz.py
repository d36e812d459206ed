"""Every public function with one argument at a time replaced by something that makes no sense.

Allowed is an answer, or a ValueError or TypeError whose text begins with the name of an argument.
`python tests/fuzz.py [name ...]` lists what is not, with the calls that took longest.
"""
import contextlib
import datetime
import inspect
import io
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from typing import Any, Callable, NamedTuple

os.environ.setdefault("MPLBACKEND", "agg")

import numpy as np

import hmmop_nb as hm
from hmmop_nb import em, gaps, inference, limits, psi, transforms
from hmmop_nb import omission as losses
from hmmop_nb.engine import derived, families, reading, vectors
from hmmop_nb.lab import chains, checking

fit = sys.modules["hmmop_nb.fit"] # whose name the function has taken
LONGEST = 60 # seconds for one call, which may have to compile; more is a hang


class Target(NamedTuple):
    name: str # As a user would write it
    call: Callable # What is called
    given: dict[str, Any] # A call that works, by the names of the parameters
    only: tuple = () # Just these parameters are replaced; empty for all


class Flaw(NamedTuple):
    target: str
    argument: str
    value: str # Name of what was passed
    outcome: str # What came of it


# ---- what makes no sense ----
nan, inf = np.nan, np.inf


def self_holding():
    x: list = [1.]
    x.append(x)
    return x


def itself():
    x: list = []
    x.append(x)
    return x


def dict_of_itself():
    x: dict = {}
    x["value"] = x
    return x


def frozen():
    x = np.ones((2, 2))
    x.flags.writeable = False
    return x


def ragged():
    x = np.empty(2, object)
    x[:] = [[1.], [1., 2.]]
    return x


class Strange:
    "An object that answers no question."
    def __bool__(self): raise TypeError("no truth")
    def __repr__(self): raise RuntimeError("no text")


def masked_list(): return [np.ma.array([.1, 3.], mask=[False, True])]


def missing_label():
    x = np.empty(2, object)
    x[:] = ["a", nan]
    return [x]


def frame(**columns):
    import pandas
    return pandas.DataFrame(columns)


def twin_columns():
    table = frame(sequence=[0, 1], a=[1., 2.], b=[1., 2.])
    table.columns = ["sequence", "value", "value"]
    return table


def not_available():
    import pandas
    return [["a", pandas.NA]]


VALUES = {
    "None": lambda: None, "text": lambda: "abc", "empty text": lambda: "", "digits": lambda: "0.5", "NUL": lambda: "\0",
    "nan": lambda: nan, "inf": lambda: inf, "-inf": lambda: -inf, "-1": lambda: -1, "0": lambda: 0, "-.5": lambda: -.5,
    "1.5": lambda: 1.5, "10**30": lambda: 10**30, "-10**30": lambda: -10**30, "10**5000": lambda: 10**5000,
    "10**12": lambda: 10**12, "1e300": lambda: 1e300, "True": lambda: True, "1j": lambda: 1j, "bytes": lambda: b"ab",
    "function": lambda: len, "class": lambda: dict, "object": lambda: object(), "strange": Strange,
    "date": lambda: datetime.datetime(2020, 1, 1), "datetime64": lambda: np.array(["2020-01-01"] * 2, "M8[D]"),
    "empty list": lambda: [], "empty tuple": lambda: (), "empty dict": lambda: {}, "set": lambda: {1, 2},
    "generator": lambda: (x for x in [1., 2.]), "slice": lambda: slice(None), "range": lambda: range(3),
    "list": lambda: [1, 2], "floats": lambda: [.5, nan], "texts": lambda: ["a", "b"], "Nones": lambda: [None, None],
    "nested": lambda: [[1., 2.], [3.]], "list of None": lambda: [[None, 1.]], "list of objects": lambda: [object()],
    "list of texts": lambda: [["a", None]], "self-holding": self_holding, "itself": itself, "deep": lambda: [[[[[1.]]]]],
    "dict": lambda: {"sequence": [0, 1], "value": [1.]}, "dict of numbers": lambda: {"sequence": 1, "value": 2},
    "dict of None": lambda: {"sequence": [None, 1], "value": [1., 2.]}, "dict of itself": dict_of_itself,
    "dict of objects": lambda: {"sequence": [object(), 1], "value": [{}, []]},
    "pair": lambda: (1, 2), "pair of lists": lambda: ([1., 2.], [None]), "pair of texts": lambda: ("ab", "cd"),
    "empty array": lambda: np.zeros(0), "empty square": lambda: np.zeros((0, 0)), "scalar array": lambda: np.array(.5),
    "3-d": lambda: np.zeros((2, 3, 4)), "64-d": lambda: np.zeros((1,) * 33), "long": lambda: np.zeros(1001),
    "complex array": lambda: np.full((2, 2), .5 + 0j), "bool array": lambda: np.eye(2, dtype=bool),
    "object array": lambda: np.array([[1., None], ["a", {}]], object), "ragged array": ragged,
    "text array": lambda: np.array(["a", "b"]), "float16": lambda: np.full((2, 2), .5, np.float16),
    "read-only": frozen, "masked": lambda: np.ma.array(np.full((2, 2), .5), mask=[[0, 1], [0, 0]]),
    "all masked": lambda: np.ma.masked_all(2), "nan matrix": lambda: np.full((2, 2), nan),
    "huge matrix": lambda: np.full((2, 2), 1e308), "negative matrix": lambda: np.array([[2., -1.], [.5, .5]]),
    "frame": lambda: frame(a=[1]), "empty frame": lambda: frame(sequence=[], value=[]), "twin columns": twin_columns,
    "frame of texts": lambda: frame(sequence=["a", None], value=["b", "c"]), "series": lambda: frame(a=[.5, .5])["a"],
    "masked list": masked_list, "missing label": missing_label, "NA": not_available,
    "identity": lambda: np.eye(2), "zeros": lambda: np.zeros((2, 2)), "half": lambda: .5, "one": lambda: 1.,
    "structured": lambda: np.zeros(2, [("a", float), ("b", int)]), "view of one": lambda: np.broadcast_to(.5, (10**6,)),
}

# ---- what works ----
FEW = dict(draws=2, warmup=1, chains=1, seed=1, progress=False)
T, START = np.array([[.7, .3], [.4, .6]]), np.array([.5, .5])
MODEL = hm.HMMOP(T, START, hm.Gaussian([0., 3.], .5), .4)
DATA = MODEL.sample(3, 5, seed=1)
LISTS = [np.array(x) for x in DATA.sequences]
STEPS = DATA.n_steps
LABELS = [["a", "b", "a"], ["b", "b"]]
TABLE = {"sequence": [0, 0, 1], "value": [.1, .2, 3.], "order": [1, 0, 0]}
HELD = hm.Posterior.from_model(MODEL)
GIVEN = dict(emission=MODEL.emission, **FEW)
OPEN = dict(n_states=None, start=None, prior=hm.Prior(), init=None)


def fitted_em():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hm.fit_em(LISTS, psi=.4, n_states=2, max_iter=3, seed=1)


def fitted_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hm.GapHMM(2, psi=.4, emission=MODEL.emission, seed=1).fit(LISTS)


KNOWN = dict(n_steps=None, positions=None, earliest=None, latest=None, labels=None, weights=None, sequence=None, order=None,
             value=None) # what `GapHMM.fit` takes beside data


def refit(X=LISTS, lengths=None, n_steps=None, positions=None, earliest=None, latest=None, labels=None, weights=None, sequence=None,
          order=None, value=None, **params):
    "An estimator made and fitted in one call, since it checks its parameters when it fits."
    how = dict(psi=.4, emission=MODEL.emission, seed=1) | params
    told = dict(n_steps=n_steps, positions=positions, earliest=earliest, latest=latest, labels=labels, weights=weights,
                sequence=sequence, order=order, value=value)
    return hm.GapHMM(**how).fit(X, lengths, **told)


def stream(X=LISTS, lengths=None, n_steps=None, step=.6, memory=None):
    "An estimator of its own for each batch, since a stream goes on where the last batch ended."
    return hm.GapHMM(2, psi=.4, emission=MODEL.emission, seed=1).partial_fit(X, lengths, n_steps=n_steps, step=step, memory=memory)


def saved(path): HELD.save(path)


def constructors():
    "Classes."
    return [
        Target("Gaussian", hm.Gaussian, dict(means=[0., 1.], scales=1.)),
        Target("Categorical", hm.Categorical, dict(probs=T)),
        Target("Poisson", hm.Poisson, dict(rates=[1., 2.])),
        Target("GaussianVector", hm.GaussianVector, dict(means=[[0., 1.], [2., 3.]], covariances=np.ones((2, 2)))),
        Target("StudentT", hm.StudentT, dict(means=[0., 1.], scales=1., dofs=4.)),
        Target("NegativeBinomial", hm.NegativeBinomial, dict(means=[1., 2.], dispersions=.5, sized=False)),
        Target("Product", lambda members: hm.Product(MODEL.emission, members), dict(members=hm.Poisson([1., 2.]))),
        Target("HMMOP", hm.HMMOP, dict(T=T, start=START, emission=MODEL.emission, psi=.5)),
        Target("Sequences", hm.Sequences, dict(values=[1., 2.], offsets=[0, 2], missing=False)),
        Target("BernoulliOmission", hm.BernoulliOmission, dict(psi=.5)),
        Target("MarkovOmission", hm.MarkovOmission, dict(keep=.5, epsilon=.1)),
        Target("PerSequenceOmission", hm.PerSequenceOmission, dict(mean=.5, sd=.1, low=.1, high=.9)),
        Target("Prior", hm.Prior, dict(T=1., start=1., psi=(1., 1.), means=None, scales=None, probs=1., rates=None,
                                      n_steps=None, impossible=None)),
        Target("Posterior", hm.Posterior, dict(
            T=T[None, None], start=START[None, None], psi=np.full((1, 1, 2), .5), emission={}, log_density=[[0.]], extra={},
            stats={}, family="custom", info={})),
    ]


def methods():
    "Methods."
    gaussian, symbols, counts = MODEL.emission, hm.Categorical(T), hm.Poisson([1., 2.])
    held = hm.PerSequenceOmission(.5, .1)
    found = [
        Target("Sequences.from_list", hm.Sequences.from_list, dict(arrays=LISTS, missing=False)),
        Target("Sequences.from_lengths", hm.Sequences.from_lengths, dict(X=[1., 2., 3.], lengths=[1, 2], missing=False)),
        Target("Sequences.from_table", hm.Sequences.from_table, dict(
            table=TABLE, sequence="sequence", value="value", order="order", missing=False)),
        Target("Sequences.locate", DATA.sequences.locate, dict(i=2)),
        Target("HMMOP.sample", MODEL.sample, dict(n_sequences=2, n_steps=4, seed=1, omission=None)),
        Target("HMMOP.log_joint", MODEL.log_joint, dict(states=[0, 1, 1], positions=[0, 2], observations=[.1, .2])),
        Target("MarkovOmission.rates", hm.MarkovOmission(.5, .1).rates, {}),
        Target("PerSequenceOmission.draw", held.draw, dict(n_sequences=2, key=np.uint64(3))),
        Target("Prior.plain", hm.Prior().plain, {}),
        Target("Posterior.quantile", HELD.quantile, dict(q=.5, of="T")),
        Target("Posterior.interval", HELD.interval, dict(prob=.9, of="T")),
        Target("Posterior.model", HELD.model, dict(emission=None)),
        Target("Posterior.summary", HELD.summary, dict(of=None, prob=.9)),
        Target("Posterior.plot_trace", HELD.plot_trace, dict(entries=1, axes=None)),
        Target("Posterior.plot_T", HELD.plot_T, dict(truth=None, axes=None)),
        Target("Posterior.relabel", HELD.relabel, dict(reference=None)),
        Target("Posterior.save", saved, dict(path="posterior.npz")),
        Target("Posterior.load", hm.Posterior.load, dict(path="held.npz")),
        Target("Posterior.from_model", hm.Posterior.from_model, dict(model=MODEL, log_density=0., info=None)),
        Target("Posterior.to_arviz", lambda **more: HELD.to_arviz(**more), {}),
        Target("Posterior.derive", HELD.derive, dict(function=hm.timescales, of="T", name=None)),
        Target("Posterior.plot_graph", HELD.plot_graph, dict(least=.1, ax=None)),
        Target("Posterior.plot_emission", HELD.plot_emission, dict(ax=None)),
    ]
    for omission in (hm.BernoulliOmission(.5), hm.MarkovOmission(.5, .1), held):
        found.append(Target(f"{type(omission).__name__}.seen", omission.seen, dict(states=DATA.states, key=np.uint64(3))))
    plane, tailed = hm.GaussianVector([[0., 1.], [2., 3.]], np.ones((2, 2))), hm.StudentT([0., 1.], 1., 4.)
    spread = hm.NegativeBinomial([1., 2.], .5)
    both = hm.Product(gaussian, counts)
    found.append(Target("Gaussian.moved", gaussian.moved, dict(by=1.)))
    found += [Target("NegativeBinomial.taken_apart", spread.taken_apart, {}), Target("Product.taken_apart", both.taken_apart, {}),
              Target("Product.columns", lambda values: both.columns(np.ones((3, 2))), dict(values=np.ones((3, 2))))]
    for emission, values in ((gaussian, [.1, .2]), (symbols, [0, 1]), (counts, [0, 3]), (plane, [[0., 1.]]), (tailed, [.1, .2]),
                             (spread, [0, 3]), (both, [[.1, 3.]])):
        name = type(emission).__name__
        found += [
            Target(f"{name}.check", emission.check, dict(values=values, name="values"), only=("values",)),
            Target(f"{name}.log_likelihood", emission.log_likelihood, dict(values=values)),
            Target(f"{name}.free_parameters", emission.free_parameters, dict(known_zeros=False)),
            Target(f"{name}.sample", emission.sample, dict(states=np.array([0, 1]), rng=np.random.default_rng(1))
                   | (dict(sizes=1.) if emission is spread else {}), only=("states", "rng")),
        ]
    return found


def estimator_methods():
    "The estimator, which checks its parameters when it fits."
    fitted = fitted_estimator()
    params = dict(inspect.signature(hm.GapHMM).parameters)
    plain = {name: p.default for name, p in params.items()} | dict(psi=.4, emission=MODEL.emission, seed=1)
    read = dict(X=LISTS, lengths=None, n_steps=None)
    return [
        Target("GapHMM", refit, plain, only=tuple(params)),
        Target("GapHMM.fit", refit, read | KNOWN),
        Target("GapHMM.partial_fit", stream, read | dict(step=.6, memory=None)),
        Target("GapHMM.predict", fitted.predict, read),
        Target("GapHMM.predict_proba", fitted.predict_proba, read),
        Target("GapHMM.score", fitted.score, read),
        Target("GapHMM.score_samples", fitted.score_samples, read),
        Target("GapHMM.decode", fitted.decode, read),
        Target("GapHMM.bic", fitted.bic, read),
        Target("GapHMM.aic", fitted.aic, read),
        Target("GapHMM.fit_predict", hm.GapHMM(2, psi=.4, emission=MODEL.emission, seed=1).fit_predict, dict(X=LISTS, lengths=None)),
        Target("GapHMM.sample", fitted.sample, dict(n_samples=2, seed=1)),
        Target("GapHMM.get_params", fitted.get_params, dict(deep=True)),
        Target("GapHMM.set_params", hm.GapHMM().set_params, dict(psi=.5)),
    ]


def transform_functions():
    "Transforms and what is said about psi."
    R = hm.thin(T, .5)
    return [
        Target("l1_distance", hm.l1_distance, dict(A=T, B=R)),
        Target("thin", hm.thin, dict(T=T, psi=.5)),
        Target("thin_start", hm.thin_start, dict(start=START, T=T, psi=.5)),
        Target("unthin", hm.unthin, dict(R=R, psi=.5)),
        Target("thin_finite", hm.thin_finite, dict(T=T, psi=.5, n_steps=4, start=None)),
        Target("thin_finite, pooled", hm.thin_finite, dict(T=T, psi=.5, n_steps=4, start=START)),
        Target("stationary", hm.stationary, dict(T=T)),
        Target("compose", hm.compose, dict(T=T, psi_true=.5, psi_assumed=.4)),
        Target("infer_psi", hm.infer_psi, dict(R=R, T=T, by_state=False)),
        Target("thin_bursty", hm.thin_bursty, dict(T=T, keep=.5, epsilon=.1)),
        Target("admissible_psi", hm.admissible_psi, dict(R=R, tol=1e-9)),
        Target("nearest_stochastic", hm.nearest_stochastic, dict(T=T)),
        Target("transforms.unthin_se", transforms.unthin_se, dict(R=R, psi=.5, counts=[10., 20.])),
        Target("transforms.plot_thinned", transforms.plot_thinned, dict(T=T, psi=.5)),
        Target("limit", hm.limit, dict(T=T, psi=.5, n_sequences=10, n_steps=5, known="nothing", start=START, support=np.ones((2, 2)),
                                       start_learned=True, psi_learned=True, emission=None, emission_learned=False, lists=60, seed=1)),
        Target("limit, hidden", hm.limit, dict(T=T, psi=.5, n_sequences=10, n_steps=5, known="lengths", emission=hm.Gaussian([0., 1.], 1.),
                                               emission_learned=True, lists=60, seed=1), only=("known", "emission", "lists", "seed")),
        Target("plan", hm.plan, dict(T=T, psi=.5, target=.1, n_steps=5, known="lengths", start=START, support=np.ones((2, 2)),
                                     start_learned=False, psi_learned=False, emission=None, emission_learned=False, lists=60, seed=1)),
        Target("limits.least_se", limits.least_se, dict(T=T, psi=.5, counts=[10., 20.], places=True)),
        Target("limits.amplification", limits.amplification, dict(T=T, psi=.5)),
        Target("limits.predicted_draws", limits.predicted_draws, dict(T=T, psi=.5, n_steps=5, known="lengths", drawn="everything")),
        Target("gaps.gap_law", gaps.gap_law, dict(T=T, psi=.5, max_gap=3)),
        Target("psi_bound", hm.psi_bound, dict(data=[[0, 1, 0], [1, 0, 0]], level=.9, prior=None, draws=3, seed=1)),
        Target("identifiability", hm.identifiability, dict(
            R=R, psi_known=[.5, nan], impossible=None, constant=False, lengths=False, tol=1e-9, exact=False,
            omission=None, positions=False)),
        Target("psi.common_psi", psi.common_psi, dict(data=[3, 4, 5], level=.9)),
    ]


def fits():
    "Everything that learns."
    places = [np.array(x) for x in DATA.positions]
    thinned = dict(thin=1, checkpoint=None)
    shared = GIVEN | OPEN | thinned
    return [
        Target("fit_known", hm.fit_known, dict(sequences=LISTS, positions=places, n_steps=STEPS, psi=.4, variant="collapsed",
                                                  leaps=2, omission=None) | shared),
        Target("fit_naive", hm.fit_naive, dict(sequences=LISTS) | shared),
        Target("fit_random", hm.fit_random, dict(sequences=LISTS, n_steps=STEPS) | GIVEN | dict(checkpoint=None)),
        Target("fit_analytic", hm.fit_analytic, dict(sequences=LISTS, psi=.4, start=None) | GIVEN),
        Target("fit_matching", hm.fit_matching, dict(sequences=LISTS, n_steps=STEPS, psi=.4, placement="exact", inner=1,
                                                        variant="collapsed", leaps=2, omission=None) | shared),
        Target("fit_gaps", hm.fit_gaps, dict(sequences=LISTS, psi=.4, variant="collapsed", leaps=2, max_gap=5,
                                                omission=None) | shared),
        Target("fit_omission", hm.fit_omission, dict(
            sequences=LISTS, omission=hm.MarkovOmission(.5, nan), psi=None, n_steps=STEPS, positions=None, earliest=None,
            latest=None, labels=None, names=None, leaps=2) | shared),
        Target("fit_gaps, paper", hm.fit_gaps, dict(sequences=LISTS, psi=.4, variant="paper", max_gap=5) | GIVEN, only=("max_gap",)),
        Target("fit_em", hm.fit_em, dict(
            sequences=LISTS, psi=.4, n_steps=None, emission=MODEL.emission, restarts=0, tol=1e-2, max_iter=3, seed=1,
            progress=False, errors=False, positions=None, earliest=None, latest=None, labels=None, weights=None, names=None,
            omission=None, sequence=None, order=None, value=None, missing=None, client=None, checkpoint=None) | OPEN),
        Target("fit_em, learned", hm.fit_em, dict(sequences=LISTS, psi=.4, emission="gaussian", n_states=2, max_iter=3, seed=1),
               only=("sequences", "emission", "n_states")),
        Target("fit", hm.fit, dict(
            sequences=LISTS, psi=.4, n_steps=None, positions=None, method="auto", sequence=None, order=None,
            value=None, earliest=None, latest=None, labels=None, weights=None, omission=None, missing=None, client=None) | shared),
        Target("fit, labels", hm.fit, dict(sequences=LABELS, psi=.4, method="em", max_iter=3, progress=False, seed=1),
               only=("sequences", "psi", "emission", "n_states", "n_steps")),
        Target("fit, table", hm.fit, dict(
            sequences=TABLE, psi=.4, method="em", emission=MODEL.emission, max_iter=3, progress=False, seed=1, n_steps=None,
            positions=None, sequence="sequence", order="order", value="value"),
            only=("n_steps", "positions", "sequence", "order", "value")),
        Target("choose_n_states", hm.choose_n_states, dict(
            sequences=LISTS, candidates=[1], psi=.4, n_steps=None, emission="gaussian", held_out=.2, restarts=0, seed=1,
            by="bic", folds=2)),
        Target("fit.score", fit.score, dict(model=MODEL, sequences=LISTS, n_steps=None, per="sequence")),
        Target("fit.n_parameters", fit.n_parameters, dict(model=MODEL, learned=("T",), n_psi=0, known_zeros=False)),
        Target("fit.aic", fit.aic, dict(model=MODEL, sequences=LISTS, n_steps=None)),
        Target("fit.bic", fit.bic, dict(model=MODEL, sequences=LISTS, n_steps=None)),
        Target("fit.compare", fit.compare, dict(
            models=dict(a=MODEL), sequences=LISTS, n_steps=None, held_out=LISTS, held_out_steps=None)),
        Target("em.standard_errors", em.standard_errors, dict(fitted=fitted_em(), sequences=LISTS, emission=None, least=.5)),
    ]


def inference_functions():
    "Inference on a model."
    asked = dict(model=MODEL, sequences=LISTS, n_steps=STEPS)
    told = dict(positions=None, earliest=None, latest=None, labels=None, psi=None)
    parts = dict(positions=None, earliest=None, latest=None, labels=None)
    return [
        Target("log_likelihood", hm.log_likelihood, asked | told | dict(client=None)),
        Target("posterior_marginals", hm.posterior_marginals, asked | told | dict(client=None, to=None)),
        Target("decode", hm.decode, asked | told | dict(method="viterbi", client=None, to=None)),
        Target("place", hm.place, asked | told),
        Target("inference.paper_labels", inference.paper_labels, asked | dict(max_iter=3)),
        Target("inference.position_marginals", inference.position_marginals, asked),
        Target("inference.pose_model", inference.pose_model, asked | told),
        Target("expected_gaps", hm.expected_gaps, asked | parts),
        Target("inference.omitted_visits", inference.omitted_visits, asked | parts),
        Target("inference.gap_laws", inference.gap_laws, asked | parts | dict(most=3)),
        Target("inference.full_walk", inference.full_walk, asked | dict(labels=None)),
        Target("filtered_marginals", hm.filtered_marginals, asked | dict(positions=None, labels=None)),
        Target("forecast", hm.forecast, asked | dict(positions=None, labels=None, steps=2, what="step")),
        Target("fates", hm.fates, dict(T=T, targets=[1])),
        Target("timescales", hm.timescales, dict(T=T)),
        Target("check", hm.check, dict(posterior=MODEL, sequences=LISTS, n_steps=STEPS, positions=None, replicas=20, level=.05, seed=1)),
    ]


def after_the_fit():
    "What follows from a chain, from draws, or from several fits."
    asked = dict(posterior=HELD, sequences=LISTS)
    def by_em(sequences, n_steps=None): return hm.fit_em(sequences, psi=.4, emission=MODEL.emission, max_iter=3, seed=1)
    return [
        Target("derived.hitting_probabilities", derived.hitting_probabilities, dict(T=T, target=1)),
        Target("derived.hitting_times", derived.hitting_times, dict(T=T, target=1)),
        Target("derived.time_per_visit", derived.time_per_visit, dict(T=T)),
        Target("derived.omitted_ahead", derived.omitted_ahead, dict(T=T, psi=.5)),
        Target("derived.omitted_in", derived.omitted_in, dict(model=MODEL, sequences=LISTS, n_steps=STEPS, positions=None)),
        Target("derived.sequence_fates", derived.sequence_fates, dict(
            model=MODEL, sequences=LISTS, targets=[1], n_steps=STEPS, positions=None, labels=None)),

        Target("checking.chapman_kolmogorov", checking.chapman_kolmogorov, asked | dict(lags=2, replicas=3, prob=.9, seed=1)),
        Target("checking.pointwise", checking.pointwise, asked | dict(n_steps=STEPS, positions=None, labels=None)),
        Target("checking.compare_fits", checking.compare_fits, dict(
            fits=dict(a=HELD, b=HELD), sequences=LISTS, n_steps=STEPS, most=4)),
        Target("checking.cross_validate", checking.cross_validate, dict(
            fits=dict(a=by_em), sequences=LISTS, n_steps=None, folds=2, seed=1)),
        Target("omission.fit_sequence_psi", losses.fit_sequence_psi, dict(sequences=LISTS, n_steps=STEPS, draws=3, seed=1)),
    ]


def more_families():
    "Emissions that stand in modules, not at the top of the package."
    made = [("LogNormal", families.LogNormal, dict(means=[0., 1.], scales=.5), [.5, 2.]),
            ("Gamma", families.Gamma, dict(shapes=[1., 2.], rates=1.), [.5, 2.]),
            ("VonMises", families.VonMises, dict(means=[0., 1.], concentrations=2.), [.5, -2.]),
            ("BernoulliVector", vectors.BernoulliVector, dict(probs=T), [[0., 1.]]),
            ("Mixture", vectors.Mixture, dict(weights=[[.5, .5]] * 2, parts=hm.Gaussian([0., 1., 2., 3.], 1.)), [.5, 2.])]
    found = []
    for name, kind, given, values in made:
        emission = kind(**given)
        found += [Target(f"families.{name}", kind, given),
                  Target(f"families.{name}.log_likelihood", emission.log_likelihood, dict(values=values)),
                  Target(f"families.{name}.sample", emission.sample, dict(states=np.array([0, 1]), rng=np.random.default_rng(1)))]
    return found


def pictures():
    "Plots, benchmark chains, reading."
    plot, none = hm.plot, dict(sequence=None, order=None, value=None)
    import matplotlib.pyplot as plt
    def slide(figures=None, **rest): return plot.frame_slider([plt.figure()] if figures is None else figures, **rest)
    return [
        Target("plot.use_style", plot.use_style, {}),
        Target("plot.shades", plot.shades, dict(method="Gaps", n=3)),
        Target("plot.plot_omission", plot.plot_omission, dict(states=[0, 1], positions=[1], names=None, ax=None)),
        Target("plot.plot_matrix", plot.plot_matrix, dict(M=T, ax=None, title=None, vmax=None, cmap="Blues")),
        Target("plot.plot_chain", plot.plot_chain, dict(T=T, psi=None, names=None, least=.1, ax=None)),
        Target("plot.plot_forecast", plot.plot_forecast, dict(rows=T, names=None, ax=None)),
        Target("plot.plot_fates", plot.plot_fates, dict(shares=T, names=None, rows=None, low=None, high=None, ax=None)),
        Target("plot.plot_placement", plot.plot_placement, dict(shares=T, positions=None, prob=.9, ax=None)),
        Target("plot.frame_slider", slide, dict(figures=None, labels=["a"], name="frame", dpi=20, first=0)),
        Target("plot.plot_map", plot.plot_map, dict(boxes={"a": (0, 0), "b": (1, 0)}, arrows=[("a", "b")], ax=None, blue=["a"])),
        Target("explore", hm.explore, dict(name="thinning")),
        Target("degree_chain", hm.degree_chain, dict(n_states=3, degree=2, psi=.5, scale=.1, seed=1)),
        Target("cyclic_multipartite", hm.cyclic_multipartite, dict(n_states=4, n_groups=2, psi=.5, scale=.1, leak=False, seed=1)),
        Target("part_of_speech", hm.part_of_speech, dict(psi=.5, punctuation=False)),
        Target("chains.persistent_chain", chains.persistent_chain, dict(n_states=4, degree=2, stay=.9, psi=.5, scale=.1, seed=1)),
        Target("chains.numbered_model", chains.numbered_model, dict(weights=np.ones((2, 2)), scale=.1, psi=.5)),
        Target("chains.universal_tag", chains.universal_tag, dict(brown_tag="nn")),
        Target("chains.brown_counts", chains.brown_counts, dict(folder=".")),
        Target("chains.save_counts", chains.save_counts, dict(path="counts.npz", counts={"a": np.ones(2)})),
        Target("chains.load_counts", chains.load_counts, {}),
        Target("in_blocks", hm.in_blocks, dict(data=LISTS, **none, missing=None, client=None, size=4, names=None, n_steps=STEPS)),
        Target("reading.open_data", reading.open_data, dict(data=LISTS, **none, missing=None, client=None)),
        Target("reading.read_sequences", reading.read_sequences, dict(data=LISTS, **none, labels=None, missing=None)),
        Target("reading.read_sequences, table", reading.read_sequences, dict(data=TABLE, **none, labels=None, missing=None)),
        Target("reading.read_table", reading.read_table, dict(table=TABLE, **none, labels=None, missing=False)),
        Target("reading.read_n_steps", reading.read_n_steps, dict(data=TABLE, n_steps=3, columns=none), only=("data", "n_steps")),
        Target("reading.read_positions", reading.read_positions, dict(data=TABLE, name="order", columns=none), only=("data", "name")),
        Target("reading.read_labels", reading.read_labels, dict(data=TABLE, name="order", columns=none), only=("data", "name")),
        Target("reading.read_weights", reading.read_weights, dict(data=TABLE, name="sequence", columns=none), only=("data", "name")),
        Target("reading.last_steps", reading.last_steps, dict(positions=list(DATA.positions), sequences=DATA.sequences)),
    ]


def targets():
    "All of them."
    return (constructors() + methods() + estimator_methods() + transform_functions() + fits() + inference_functions()
            + after_the_fit() + more_families() + pictures())


# ---- what is right ----
READ = {"sequences", "table", "lengths", "X", "values", "value", "sequence", "order"}
SUBJECTS = {"target": {"targets"}, "sequences": READ, "data": READ | {"positions", "labels", "weights"}, "arrays": READ, "X": READ, "table": READ, "name": {"positions", "labels", "weights"},
            "candidates": {"n_states"}} # what else errors call an argument


def is_named(text, target, wrong):
    "Whether an error begins with the name of an argument: a wrong one, or one that does not fit it."
    head = re.match(r"[…\w., \[\]'\"]*?:", text)
    if head is None: return False
    names = set(re.findall(r"[A-Za-z_]+", head[0]))
    own = {*wrong, *target.given, *inspect.signature(target.call).parameters}
    return bool(names & own.union(*(SUBJECTS.get(name, set()) for name in own)))


class Hang(BaseException): pass


@contextlib.contextmanager
def quiet():
    "Nothing is printed, drawn or warned of; what takes too long is stopped."
    def stop(*_): raise Hang
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if "matplotlib.pyplot" in sys.modules: sys.modules["matplotlib.pyplot"].close("all")


def outcome(target, wrong):
    "What is wrong with the way a call ended; empty if nothing is. `wrong` has names of VALUES by argument."
    bad = {argument: VALUES[value]() for argument, value in wrong.items()}
    try:
        with quiet(): target.call(**target.given | bad)
    except (ValueError, TypeError) as error:
        return "" if is_named(str(error), target, wrong) else f"{type(error).__name__}: {error}"
    except OSError as error: # what the disc says about a path is the user's to read
        return "" if {"path", "folder", "checkpoint"} & set(wrong) else f"{type(error).__name__}: {error}"
    except Hang: return f"no answer in {LONGEST} s"
    except BaseException as error: return f"{type(error).__name__}: {error}"
    return ""


def flaws_of(target):
    "All calls with one wrong argument that end as they should not."
    found = []
    for argument in target.only or target.given:
        for value in VALUES:
            said = outcome(target, {argument: value})
            if said: found.append(Flaw(target.name, argument, value, said))
    return found


def flaws_of_several(target, rng, n):
    "The same for `n` calls with two or three wrong arguments."
    found, arguments = [], list(target.only or target.given)
    for _ in range(n):
        wrong = {name: rng.choice(list(VALUES)) for name in rng.sample(arguments, min(len(arguments), rng.choice([2, 3])))}
        said = outcome(target, wrong)
        if said: found.append(Flaw(target.name, ", ".join(wrong), ", ".join(wrong.values()), said))
    return found


@contextlib.contextmanager
def own_folder():
    "A folder to write to, with what the calls want to read."
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            HELD.save("held.npz")
            yield
        finally: os.chdir(home)


def tell(target):
    "Print what was found."
    begin, found = time.process_time(), flaws_of(target)
    print(f"{target.name}: {len(found)} of {len(target.only or target.given) * len(VALUES)}, "
          f"{time.process_time() - begin:.2f} s", flush=True)
    for flaw in found: print(f"    {flaw.argument} = {flaw.value}: {flaw.outcome:.160}", flush=True)


def main(wanted):
    "All targets, or those that are named, each in a process of its own, which may die."
    with own_folder():
        for target in targets():
            if wanted and target.name not in wanted: continue
            child = os.fork()
            if not child:
                try: tell(target)
                finally: os._exit(0) # without tidying up what belongs to the parent
            status = os.waitpid(child, 0)[1]
            if status: print(f"{target.name}: died with {status}", flush=True)


if __name__ == "__main__": main(sys.argv[1:])
