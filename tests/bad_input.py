"""What every public function does with input that is wrong, or odd but right: one table.

A row with `says` must raise a ValueError whose text has all the words of `says`; a row with `same`
must give the same answer as the call beside it. In both cases no argument may be changed, nothing
may be nan, and nobody may wait.
"""
import copy
import warnings
from typing import NamedTuple

import numpy as np

import hmmop_nb as hm


class Row(NamedTuple):
    function: str # Public name
    what: str # What is wrong or odd about the call
    args: tuple # Positional arguments
    kwargs: dict # Keyword arguments
    says: tuple = () # Words that the error must have
    same: object = None # Arguments that must give the same answer


class Told(NamedTuple):
    outcome: str # The message, or "same answer"
    ok: bool


nan, inf = np.nan, np.inf
T = np.array([[.7, .2, .1], [.3, .4, .3], [.1, .1, .8]])
START, PSI = np.array([.5, .3, .2]), np.array([.2, .5, .6])
EMISSION = hm.Gaussian([0., 1., 2.], .3)
MODEL = hm.HMMOP(T, START, EMISSION, PSI)
SYMBOLS = hm.HMMOP(T, START, hm.Categorical(np.eye(3)), PSI)
DATA = MODEL.sample(4, 12, seed=1)
LISTS = [np.array(x) for x in DATA.sequences]
PLACES = [np.array(x) for x in DATA.positions]
N = len(DATA.sequences.values)
# 0 to 1 to 2 to 0, nothing omitted
CYCLE = hm.HMMOP(np.roll(np.eye(3), 1, 1), START, hm.Categorical(np.eye(3)), 0.)
FEW = dict(draws=3, warmup=2, chains=1, seed=0, progress=False)
FIT = dict(n_states=3, **FEW)
GIVEN = dict(emission=EMISSION, start=START, **FEW)


class Odd:
    "An emission of the user's own, with a mistake."
    n_states = 3
    def __init__(self, columns, value): self.columns, self.value = columns, value
    def check(self, values): return values
    def log_likelihood(self, values): return np.full((len(values), self.columns), self.value)


def strided(x): return np.repeat(np.asarray(x), 2, 0)[::2]
def frozen(x):
    x = np.array(x)
    x.flags.writeable = False
    return x
def with_value(lists, value):
    lists = [np.array(x, float) for x in lists]
    lists[1][2] = value
    return lists
def frame(index=None):
    import pandas as pd
    owner = np.repeat(np.arange(4), DATA.sequences.lengths)
    return pd.DataFrame(dict(sequence=owner, value=DATA.sequences.values), index=index)
def series():
    import pandas as pd
    return [pd.Series(x, index=np.arange(len(x))[::-1] * 7 + 3) for x in LISTS]


def error(function, what, *args, says, **kwargs):
    "A row of a call that must be refused."
    return Row(function, what, args, kwargs, tuple(says.split("|")))


def odd(function, what, *args, same, **kwargs):
    "A row of a call that must give the same answer as another one."
    return Row(function, what, args, kwargs, (), same)


def rows():
    "The table."
    return data_rows() + model_rows() + transform_rows() + sampler_rows() + inference_rows()


def data_rows():
    "Data."
    return [
        error("Sequences.from_list", "no sequence at all", [], says="sequences: |at least one"),
        error("Sequences.from_list", "numbers instead of arrays", [1., 2.],
              says="element 0|single value"),
        error("Sequences.from_list", "nan", with_value(LISTS, nan),
              says="sequence 1, observation 2|nan|missing=\"value\""),
        error("Sequences.from_list", "infinity", with_value(LISTS, inf),
              says="sequence 1, observation 2|inf"),
        error("Sequences.from_list", "text", [["a", "b"]], says="expected numbers|read_sequences"),
        error("Sequences.from_list", "three-dimensional observations", [np.zeros((4, 2, 2))],
              says="one number per observation|(4, 2, 2)"),
        error("Sequences.from_list", "rows of different widths", [np.zeros((4, 2)), np.zeros((4, 3))],
              says="sequence 1 of 3|same columns"),
        error("Sequences.from_list", "an infinite coordinate", [np.array([[0., 1.], [np.inf, 1.]])],
              says="sequence 0, observation 1, column 0 is inf"),
        error("Sequences.from_list", "None", None, says="sequences: "),
        error("Sequences.from_list", "complex numbers", [np.array([1 + 2j])],
              says="expected numbers"),
        error("Sequences.from_list", "ragged object array inside", [np.array([1., [2.]], object)],
              says="sequences: "),
        error("Sequences.from_list", "masked entries", [np.ma.array([1., 2.], mask=[False, True])],
              says="sequences: has masked entries|missing=\"value\""),
        error("Sequences.from_list", "whole numbers beyond int64",
              [np.array([2**64 - 1], np.uint64)], says="sequences: lie between|rescale"),
        error("Sequences.from_list", "values whose squares overflow", [[0., 1e308]],
              says="sequences: lie between|rescale"),
        error("Sequences.from_lengths", "lengths that do not add up", DATA.sequences.values, [3, 4],
              says=f"lengths: add up to 7|{N}"),
        error("Sequences.from_lengths", "negative length", DATA.sequences.values, [-1, N + 1],
              says="lengths: |non-negative"),
        error("Sequences.from_lengths", "fractional lengths", DATA.sequences.values, [.5, N - .5],
              says="lengths: |integers"),
        error("model.as_sequences", "pair whose lengths do not add up",
              (DATA.sequences.values, [3, 4]), says="lengths: add up to 7|list for two sequences"),
        error("model.as_sequences", "nested lists of different lengths", [[[1., 2.], [3.]]],
              says="sequences: |one-dimensional"),
        error("model.as_sequences", "values far below zero", [[1., -1e30]],
              says="sequences: lie between|rescale"),
        odd("Sequences.from_list", "object array of arrays", np.array([*LISTS, None], object)[:-1],
            same=(LISTS,)),
        odd("Sequences.from_list", "pandas Series with an odd index", series(), same=(LISTS,)),
        odd("Sequences.from_list", "columns (n, 1)", [x[:, None] for x in LISTS], same=(LISTS,)),
        odd("Sequences.from_list", "float32", [np.array([.5, .25], np.float32)],
            same=([[.5, .25]],)),
        odd("model.as_sequences", "data frame with an odd index", frame(np.arange(N)[::-1] * 3),
            same=(LISTS,)),
        error("model.as_sequences", "one flat array", np.arange(5.), says="flat array|[values]"),
        error("model.as_sequences", "data frame without the columns",
              frame().rename(columns={"value": "y"}), says="table: |'value'"),
    ]


def model_rows():
    "Emissions, models, omission and benchmark chains."
    return [
        error("Gaussian", "scale of zero", [0., 1.], [1., 0.], says="scales[1]|above 0"),
        error("Gaussian", "nan mean", [0., nan], 1., says="means[1]|nan"),
        error("Gaussian", "scales of another length", [0., 1.], [1., 1., 1.], says="scales: "),
        error("Gaussian", "text", "abc", 1., says="means: expected numbers"),
        error("Gaussian", "no state", [], 1., says="means: "),
        error("Categorical", "row that does not sum to one", [[.5, .4], [.5, .5]],
              says="probs: row [0]|0.9"),
        error("Categorical", "negative probability", [[1.5, -.5]], says="probs[0, 1]|-0.5"),
        error("Poisson", "negative rate", [1., -2.], says="rates[1]|-2"),
        error("HMMOP", "T not square", T[:2], START, EMISSION, .5, says="T: |square"),
        error("HMMOP", "row of T that does not sum to one", T * 1.1, START, EMISSION, .5,
              says="T: row [0]|1.1"),
        error("HMMOP", "nan in T", np.where(T > .75, nan, T), START, EMISSION, .5,
              says="T[2, 2]|nan"),
        error("HMMOP", "start of another length", T, [.5, .5], EMISSION, .5,
              says="start: expected 3"),
        error("HMMOP", "emission of another length", T, START, hm.Gaussian([0., 1.], 1.), .5,
              says="emission: has 2 states"),
        error("HMMOP", "psi above one", T, START, EMISSION, [.2, 1.2, .3], says="psi[1]|1.2"),
        error("HMMOP", "psi of wrong length", T, START, EMISSION, [.2, .3], says="psi: |3 states"),
        error("HMMOP", "nothing is ever seen", T, START, EMISSION, 1.,
              says="psi: from state 0 nothing can ever be observed"),
        odd("HMMOP", "integers, float32, read-only, strided", strided(np.eye(3, dtype=np.float32)),
            frozen([1, 0, 0]), EMISSION, np.float32(.5),
            same=(np.eye(3), [1., 0., 0.], EMISSION, .5)),
        error("HMMOP.sample", "no sequence", MODEL, 0, 10, says="n_sequences: "),
        error("HMMOP.sample", "length of zero", MODEL, 3, 0, says="n_steps: |at least 1"),
        error("HMMOP.sample", "lengths of the wrong number", MODEL, 3, [4, 5],
              says="n_steps: |3 sequences"),
        error("HMMOP.sample", "negative seed", MODEL, 3, 4, says="seed: ", seed=-1),
        error("BernoulliOmission", "psi below zero", -.1, says="psi: |-0.1"),
        error("MarkovOmission", "too much memory", .5, .7, says="epsilon: 0.7"),
        error("PerSequenceOmission", "negative spread", .5, -1., says="sd: "),
        error("l1_distance", "matrices of two sizes", np.eye(2), np.eye(3),
              says="A and B: |(2, 2) and (3, 3)"),
        error("degree_chain", "more successors than states", 3, 5, says="degree"),
        error("cyclic_multipartite", "groups that do not divide the states", 10, 3,
              says="n_states: 10 states do not divide into 3"),
    ]


def transform_rows():
    "Transforms."
    return [
        error("thin", "negative entry", [[1.1, -.1], [.5, .5]], .5, says="T[0, 1]|-0.1"),
        error("thin", "complex matrix", np.eye(2) + 0j, .5, says="T: expected real numbers"),
        error("thin", "psi of wrong length", T, [.5, .5], says="psi: |3 states"),
        error("thin_start", "start of wrong length", [.5, .5], T, .5, says="start: expected 3"),
        error("unthin", "psi of one", T, 1., says="psi: |below 1"),
        error("unthin", "nan in R", np.where(T > .75, nan, T), .5, says="R: row [2]"),
        error("thin_finite", "one step", T, .5, 1, says="n_steps: |at least 2"),
        error("stationary", "two closed classes", np.eye(2), says="T: has 2 closed classes"),
        error("stationary", "an empty matrix", np.zeros((0, 0)),
              says="T: expected a square matrix"),
        error("compose", "assumed psi of one", T, .5, 1., says="psi_assumed|below 1"),
        error("infer_psi", "a chain that thinning does not change", np.full((2, 2), .5),
              np.full((2, 2), .5), says="T: thinning does not change it"),
        error("thin_bursty", "keep of zero", T, 0., 0., says="keep: "),
        error("admissible_psi", "rows that are counts", [[3, 1], [2, 2]],
              says="R: row [0] sums to 4"),
        error("nearest_stochastic", "infinity", [[inf, 0.]], says="T[0, 0]|inf"),
        odd("thin", "strided float32 matrix", strided(np.eye(3, dtype=np.float32)), .5,
            same=(np.eye(3), .5)),
        odd("unthin", "read-only", frozen(hm.thin(T, .5)), frozen([.5, .5, .5]),
            same=(hm.thin(T, .5), .5)),
    ]


def sampler_rows():
    "Priors and fits."
    return [
        error("Prior", "unknown word", "dense", says="T: |sparse"),
        error("Prior", "negative concentration", -1., says="T: |-1"),
        error("Prior", "psi that is not a pair", says="psi: expected a pair", psi=.5),
        error("fit_known", "positions unsorted", LISTS, [PLACES[0][::-1], *PLACES[1:]], 12,
              says="positions: sequence 0|increase strictly", **FIT),
        error("fit_known", "positions repeated", LISTS,
              [np.r_[PLACES[0][:1], PLACES[0][:-1]], *PLACES[1:]], 12,
              says="positions: sequence 0|increase strictly", **FIT),
        error("fit_known", "positions counted from one, beyond the end", LISTS,
              [p + 12 - p.max() for p in PLACES], 12, says="positions: sequence 0|count from 0",
              **FIT),
        error("fit_known", "positions negative", LISTS, [p - 100 for p in PLACES], 12,
              says="positions: sequence 0|count from 0", **FIT),
        error("fit_known", "positions of one sequence missing", LISTS, PLACES[:3], 12,
              says="positions: 3 arrays for 4", **FIT),
        error("fit_known", "fractional positions", LISTS, [p + .5 for p in PLACES], 13,
              says="positions: expected whole numbers", **FIT),
        error("fit_known", "positions missing", LISTS, None, 12,
              says="positions: expected a list of arrays", **FIT),
        error("fit_naive", "checkpoint that is a number", LISTS,
              says="checkpoint: expected a file name", checkpoint=3, **FIT),
        error("fit_naive", "own emission with too few columns", LISTS,
              says="emission: its log_likelihood|shape", emission=Odd(2, 0.), **FEW),
        error("fit_naive", "own emission that gives nan", LISTS,
              says="emission: its log_likelihood|not a number", emission=Odd(3, nan), **FEW),
        error("fit_naive", "no number of states", LISTS, says="n_states: how many", **FEW),
        error("fit_naive", "no observation", [[], []],
              says="sequences: there is not a single observation", **FIT),
        error("fit_naive", "unknown emission", LISTS, says="emission: 'normal'", emission="normal",
              **FIT),
        error("fit_naive", "fractions as symbols", LISTS, says="sequences: ",
              emission="categorical", **FIT),
        error("fit_naive", "negative counts", [[1, -2, 3]], says="sequences: |-2",
              emission="poisson", **FIT),
        error("fit_naive", "states of the emission and n_states disagree", LISTS,
              says="n_states: is 2", emission=EMISSION, n_states=2, **FEW),
        error("fit_naive", "draws of zero", LISTS, says="draws: expected a whole number",
              n_states=3, **FEW | dict(draws=0)),
        error("fit_naive", "chains as a fraction", LISTS, says="chains: expected a whole number",
              n_states=3, **FEW | dict(chains=1.5)),
        error("fit_naive", "seed as text", LISTS, says="seed: ", n_states=3,
              **FEW | dict(seed="x")),
        error("fit_naive", "prior that is a number", LISTS, says="prior: expected a Prior",
              prior=1., **FIT),
        error("fit_naive", "prior of another size", LISTS, says="prior.T: |(2, 2)",
              prior=hm.Prior(T=np.ones((2, 2))), **FIT),
        error("fit_naive", "init that is a number", LISTS, says="init: ", init=3, **FIT),
        error("fit_naive", "data that the emission forbids", [[0, 1, 2]],
              says="sequences: sequence 0|observation 2",
              emission=hm.Categorical([[.5, .5, 0.], [.5, .5, 0.]]), **FEW),
        error("fit_random", "fewer steps than observations", LISTS, 3,
              says="n_steps: is 3 for sequence 0", **FIT),
        error("fit_analytic", "psi unknown", LISTS, None, says="psi: |must be known", **FIT),
        error("fit_analytic", "psi of wrong length", LISTS, [.5, .5], says="psi: |3 states", **FIT),
        error("fit_matching", "n_steps too small", LISTS, 3, says="n_steps: is 3 for sequence 0",
              **FIT),
        error("fit_matching", "n_steps as a fraction", LISTS, 12.5,
              says="n_steps: expected a whole number", **FIT),
        error("fit_matching", "n_steps missing", LISTS, None, says="n_steps: ", **FIT),
        error("fit_matching", "psi of zero with omitted visits", LISTS, 30,
              says="sequence 0 has probability zero|psi of 0", psi=0., **GIVEN),
        error("fit_matching", "unknown placement", LISTS, 12, says="placement: ", placement="fast",
              **FIT),
        error("fit_gaps", "psi missing", LISTS, None, says="psi: |fit_matching", **FIT),
        error("fit_gaps", "psi above one", LISTS, 1.5, says="psi: |1.5", **FIT),
        error("fit_gaps", "psi of one everywhere", LISTS, 1.,
              says="psi: |nothing can ever be observed", **FIT),
        error("fit_gaps", "unknown variant", LISTS, .5, says="variant: ", variant="exact", **FIT),
        error("fit_em", "psi of wrong length", LISTS, says="psi: |3 states", psi=[.5, .5],
              n_states=3),
        error("fit_em", "n_steps too small", LISTS, says="n_steps: is 3 for sequence 0", n_steps=3,
              n_states=3),
        odd("fit_naive", "pandas Series with an odd index", series(), same=(LISTS,), **FIT),
        odd("fit_naive", "read-only data", [frozen(x) for x in LISTS], same=(LISTS,), **FIT),
        odd("fit_naive", "strided data", [strided(x) for x in LISTS], same=(LISTS,), **FIT),
        odd("fit_matching", "lengths as a list of int32", LISTS, np.full(4, 12, np.int32),
            same=(LISTS, 12), **FIT),
        odd("fit_gaps", "psi as float32 array, read-only", LISTS,
            frozen(np.full(3, .5, np.float32)), same=(LISTS, .5), **FIT),
        odd("fit_known", "positions as floats", LISTS, [p.astype(float) for p in PLACES], 12,
            same=(LISTS, PLACES, 12), psi=.5, **FIT),
    ]


def inference_rows():
    "Inference on a model, and the posterior."
    return [
        error("log_likelihood", "no model", "model", LISTS, says="model: expected an HMMOP"),
        error("log_likelihood", "n_steps too small", MODEL, LISTS, 3,
              says="n_steps: is 3 for sequence 0"),
        error("log_likelihood", "n_steps beyond counting", MODEL, LISTS, 10**13,
              says="n_steps: is 10000000000000|split"),
        error("log_likelihood", "own emission with too few columns",
              hm.HMMOP(T, START, Odd(2, 0.), PSI), LISTS,
              says="emission: its log_likelihood|shape"),
        error("log_likelihood", "symbol outside the alphabet", SYMBOLS, [[0, 3]],
              says="sequences: |alphabet 0 to 2"),
        error("posterior_marginals", "impossible data", CYCLE, [[0, 1, 1]],
              says="sequence 0 has probability zero|observation 2 (value 1)"),
        error("decode", "unknown method", MODEL, LISTS, says="method: is 'best'", method="best"),
        error("decode", "paper without lengths", MODEL, LISTS, says="n_steps: ", method="paper"),
        error("decode", "impossible data", CYCLE, [[0, 1], [2, 2]],
              says="sequence 1 has probability zero", method="viterbi"),
        error("place", "lengths missing", MODEL, LISTS, None, says="n_steps: "),
        error("place", "too short", MODEL, LISTS, 2, says="n_steps: is 2 for sequence 0"),
        odd("log_likelihood", "data frame", MODEL, frame(), same=(MODEL, LISTS)),
        odd("decode", "hmmlearn's pair", MODEL, (DATA.sequences.values, DATA.sequences.lengths),
            same=(MODEL, LISTS)),
        odd("place", "strided, read-only", MODEL, [frozen(strided(x)) for x in LISTS], 12,
            same=(MODEL, LISTS, 12)),
        error("Posterior", "draws without a chain axis", T, START, PSI, {}, 0.,
              says="T: expected (chain, draw, S, S)|T[None, None]"),
        error("Posterior", "rows that do not sum to one", 2 * T[None, None], START[None, None],
              PSI[None, None], {}, [[0.]], says="T: row [0, 0, 0]"),
        error("Posterior.load", "a text file", __file__, says="was not written by hmmop_nb"),
        error("Posterior.load", "no such file", "nowhere.npz", says="nowhere.npz"),
    ]


def find(name):
    "A public function or method by its name."
    owner = hm
    for part in name.split("."): owner = getattr(owner, part)
    return owner


def fields(x):
    "Arrays and plain values inside an argument or an answer."
    if isinstance(x, np.ndarray) and x.dtype.hasobject: x = x.tolist()
    if isinstance(x, (list, tuple)): return [y for part in x for y in fields(part)]
    if isinstance(x, dict): return [y for k in sorted(x) for y in fields(x[k])]
    if isinstance(x, hm.Posterior): return fields([x.T, x.start, x.psi, x.emission, x.log_density])
    if isinstance(x, (hm.HMMOP, hm.Sequences, hm.Gaussian, hm.Categorical, hm.Poisson)):
        return fields([v for _, v in sorted(vars(x).items())])
    return [x]


def equal(a, b):
    "Whether two arguments or answers are the same to the last byte."
    a, b = fields(a), fields(b)
    def same(x, y):
        if hasattr(x, "equals"): return x.equals(y) and x.index.equals(y.index)
        if isinstance(x, (np.ndarray, np.generic, float, int)):
            x, y = np.asarray(x), np.asarray(y)
            return x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        return x is y or type(x) is type(y)
    return len(a) == len(b) and all(map(same, a, b))


def has_nan(x):
    "Whether any number inside is nan."
    numbers = [np.asarray(v) for v in fields(x) if isinstance(v, (np.ndarray, float))]
    return any(np.isnan(v).any() for v in numbers if v.dtype.kind == "f")


def tell(row):
    "Make the call of a row; what came of it, and whether that was as it should be."
    before = copy.deepcopy((row.args, row.kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = find(row.function)(*row.args, **row.kwargs)
    except (ValueError, OSError) as error: answer = error
    except Exception as error: return Told(f"{type(error).__name__}: {error}", False)
    if not equal((row.args, row.kwargs), before): return Told("an argument was changed", False)
    if isinstance(answer, Exception):
        if isinstance(answer, OSError) and row.function != "Posterior.load":
            return Told(repr(answer), False)
        said = bool(row.says) and all(word in str(answer) for word in row.says)
        return Told(str(answer), said)
    if row.says: return Told("accepted", False)
    if has_nan(answer): return Told("nan in the answer", False)
    return Told("same answer", equal(answer, find(row.function)(*row.same, **row.kwargs)))
