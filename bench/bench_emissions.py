"""What vectors cost: `python bench/bench_emissions.py` writes nbs/results/emission_speed.csv.

Ten states, 750 sequences of 80 visits, 60,000 observations of one or of ten coordinates, nothing
omitted, one thread. An EM step and a Gibbs sweep of ours stand beside an EM step of hmmlearn on the
same data from the same point, as it comes (`implementation="log"`) and in its fastest setting
(`"scaling"`), taken in turns in one run; the fastest of several counts. Seven rounds take about a
minute and a half on a quiet machine.
"""
import csv
import os
import sys
import time
import warnings
from pathlib import Path

for threads in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
import numpy as np
from hmmlearn import hmm

import hmmop_nb as hm
from hmmop_nb.em import em_step, expectations
from hmmop_nb.engine.problem import first_theta, pose

FILE = Path(__file__).resolve().parents[1] / "nbs" / "results" / "emission_speed.csv"
S = 10


def simulated(d, seed=0):
    "60,000 rows of `d` coordinates from a chain of ten states."
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(S, d, d)) / np.sqrt(2 * d)
    covariances = factors @ factors.transpose(0, 2, 1) + .3 * np.eye(d)
    emission = hm.GaussianVector(2 * rng.normal(size=(S, d)), covariances)
    model = hm.HMMOP(hm.degree_chain(S, 5, seed=1).T, np.full(S, 1 / S), emission, 0.)
    return model.sample(750, 80, seed=2).sequences


def seconds(function):
    "Processor time of one call: what others do on the machine counts less."
    begin = time.process_time()
    function()
    return time.process_time() - begin


def calls(d, covariance):
    "What is measured, as functions; a sweep is a tenth of what ten more of them take."
    data = simulated(d)
    told = "gaussian" if d == 1 else ("gaussian", dict(covariance=covariance))
    problem = pose(data, emission=told, n_states=S, psi=0.)
    theta = first_theta(problem, np.random.default_rng(1))
    arrays = problem.family.unpack(theta.emission)
    theirs = {how: hmm.GaussianHMM(S, covariance, init_params="", n_iter=1, tol=-np.inf,
                                   implementation=how) for how in ("log", "scaling")}
    spreads = arrays["scales"][:, None]**2 if d == 1 else arrays["covariances"]
    begin = hm.HMMOP(theta.T, theta.start, problem.family.emission(theta.emission), 0.)
    X = data.values.reshape(-1, d)

    def em(): em_step(problem, theta, expectations(problem, theta), 1e-4)

    def sweeps(number):
        hm.fit_naive(data, n_states=S, emission=told, init=begin, draws=number, warmup=1, chains=1, seed=1,
                     progress=False)

    def hmmlearn_em(how):
        model = theirs[how]
        model.startprob_, model.transmat_ = theta.start, theta.T
        model.means_, model.covars_ = arrays["means"].reshape(S, d), spreads
        model.fit(X, data.lengths)
    return em, sweeps, hmmlearn_em


WHAT = "EM step", "Gibbs sweep", "hmmlearn's EM step", "hmmlearn's EM step, fastest setting"


def measured(d, covariance, rounds):
    "Seconds of everything in `WHAT`."
    em, sweeps, theirs = calls(d, covariance)
    em(), sweeps(2)
    turns = em, lambda: sweeps(2), lambda: sweeps(12), lambda: theirs("log"), lambda: theirs("scaling")
    one, few, many, *others = np.min([[seconds(turn) for turn in turns] for _ in range(rounds)], 0)
    return one, (many - few) / 10, *others


def main(rounds=7):
    rows = [["coordinates", "covariance", "what", "cpu_seconds"]]
    warnings.simplefilter("ignore") # so few draws say nothing of convergence
    for d, covariance in ((1, "diag"), (10, "full"), (10, "diag")):
        for what, value in zip(WHAT, measured(d, covariance, rounds)):
            rows.append([d, covariance, what, f"{value:.4g}"])
            print(*rows[-1])
    part = FILE.with_name(f".{FILE.stem}.part")
    with part.open("w", newline="") as file: csv.writer(file, lineterminator="\n").writerows(rows)
    part.replace(FILE)


if __name__ == "__main__": main(*map(int, sys.argv[1:2]))
