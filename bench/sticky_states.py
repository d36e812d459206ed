"""How many states? A sticky hierarchical Dirichlet process prior with gaps, beside BIC and cross-validation.

    python bench/sticky_states.py [--sets 3] [--judged 3]

A prototype, for a measurement: the page on checking models reads `nbs/results/sticky_states.csv` and
says what was found. Weak limit (Fox and others, 2011): at most MOST states, rows of T with
concentrations alpha beta + kappa on the diagonal, beta Dirichlet(gamma / MOST). The data are of the
paper's size, 1,500 walks of 80 steps, half of the visits missing, 4 to 10 states in turn, emissions
learned. Chains begin where the samplers of the package do, and at random.
"""
import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import hmmop_nb as hm
from hmmop_nb.engine.problem import pose
from hmmop_nb.engine.random import as_key
from hmmop_nb.gaps import AugmentedSampler

OUT = Path(__file__).resolve().parents[1] / "nbs" / "results" / "sticky_states.csv"
MOST, ALPHA, KAPPA, GAMMA = 15, 5., 5., 5.
SWEEPS, KEPT, SHARE = 400, 100, .005


def data_set(number):
    "Lists of a chain with 4 to 10 states and what made them."
    S = 4 + number % 7
    chain = hm.degree_chain(S, min(5, S - 1), psi=.5, seed=1000 + number)
    return S, chain.sample(1500, 80, seed=number).sequences


def tables(counts, concentrations, rng):
    "Tables of the Chinese restaurant: how many of the visits of each entry opened one."
    found = np.zeros(counts.shape, int)
    for place, n in np.ndenumerate(counts.astype(int)):
        ahead = np.arange(n)
        found[place] = (rng.random(n) < concentrations[place] / (concentrations[place] + ahead)).sum()
    return found


def draw_beta(counts, beta, rng):
    "Weights of the states given latent transitions; tables that stickiness opened do not count."
    m = tables(counts, ALPHA * beta + KAPPA * np.eye(MOST), rng)
    own = np.diag(m)
    override = rng.binomial(own, KAPPA / (KAPPA + ALPHA * beta))
    return rng.dirichlet(GAMMA / MOST + m.sum(0) - override)


def sticky(lists, seed, init):
    "Numbers of states that hold at least a small share of the observations, draw by draw."
    rng, key = np.random.default_rng(seed), as_key(seed)
    beta = np.full(MOST, 1 / MOST)

    def sampler(beta):
        concentrations = ALPHA * beta + KAPPA * np.eye(MOST) + 1e-6
        return AugmentedSampler(replace(problem, prior=hm.Prior(T=concentrations)))

    problem = pose(lists, emission="gaussian", n_states=MOST, psi=np.full(MOST, .5), start=None,
                   prior=hm.Prior(), init=init)
    state, found = sampler(beta).init(key), []
    for sweep in range(SWEEPS):
        beta = np.maximum(draw_beta(state.counts.transitions, beta, rng), 1e-12)
        state, _ = sampler(beta).step(state, key, sweep, False)
        seen = state.counts.observed
        if sweep >= SWEEPS - KEPT: found.append(int((seen / seen.sum() >= SHARE).sum()))
    return int(np.bincount(found).argmax())


def chosen_by(lists, S, by, seed):
    "What `choose_n_states` says, of the true number and one more or less."
    more = dict(folds=2) if by == "cross_validation" else dict(held_out=0)
    return hm.choose_n_states(lists, range(S - 1, S + 2), psi=.5, by=by, restarts=0,
                              seed=seed, **more).best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=3, help="data sets")
    parser.add_argument("--judged", type=int, default=3, help="how many of them BIC and folds see")
    args = parser.parse_args()
    rows = [["set", "states", "sticky", "sticky_random", "bic", "cv", "seconds", "version"]]
    for number in range(args.sets):
        begin = time.process_time()
        S, lists = data_set(number)
        row = [number, S, sticky(lists, number, None), sticky(lists, number, "random")]
        seconds = round(time.process_time() - begin)
        judges = ("bic", "cross_validation") if number < args.judged else ()
        row += [chosen_by(lists, S, by, number) for by in judges] or ["", ""]
        rows.append([*row, seconds, hm.__version__])
        print(*row, f"{time.process_time() - begin:.0f} CPU s", flush=True)
    part = OUT.with_suffix(".part")
    with open(part, "w", newline="") as file: csv.writer(file, lineterminator="\n").writerows(rows)
    part.replace(OUT)


if __name__ == "__main__": main()
