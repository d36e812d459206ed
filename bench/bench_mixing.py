"""How many effective draws a second of processor time buys: `python bench/bench.py mixing`.

Known positions and known lengths, 1,500 walks of 80 steps, the four chains of the paper: the samplers
that sum out everything omitted beside those that draw it (`variant="augmented"`), one thread, one run.
Beside the measured rate stands the one that the missing information predicts for the latter.
"""
import os
import time
import warnings

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from arviz_stats.base import array_stats

import hmmop_nb as hm

KEEPS = (.2, .35, .5, .8)
CHAINS = {
    "degree 3": lambda keep: hm.degree_chain(10, 3, psi=1 - keep, seed=1),
    "degree 5": lambda keep: hm.degree_chain(10, 5, psi=1 - keep, seed=1),
    "cyclic": lambda keep: hm.cyclic_multipartite(psi=1 - keep, seed=1),
    "part of speech": lambda keep: hm.part_of_speech(psi=1 - keep),
}
RUNS = { # draws and warm-up of each of two chains
    ("known", "collapsed"): (500, 300), ("known", "augmented"): (1000, 300),
    ("matching", "collapsed"): (300, 200), ("matching", "augmented"): (300, 100),
}


def known_information(T, psi):
    "Information about `T` in one observed transition with known gap, and in the latent steps behind it."
    S, rho = len(T), hm.stationary(T)
    place = {pair: a for a, pair in enumerate(np.ndindex(S, S)) if T[pair] > 0}
    seen, G = np.zeros((len(place), len(place))), [T]
    while len(G) < 400 and G[-1].max() > 1e-12: G.append((G[-1] * psi) @ T)
    at = rho * (1 - psi)
    at = at / at.sum()
    for d, matrix in enumerate(G):
        slope = np.zeros((S, S, S, S)) # of G_d in T
        for r in range(d + 1):
            left = np.eye(S) if r == 0 else G[r - 1] * psi
            right = np.eye(S) if r == d else psi[:, None] * G[d - r - 1]
            slope += np.einsum("ia,bj->ijab", left, right)
        flat = slope.reshape(S, S, -1)[:, :, [i * S + j for i, j in place]]
        weight = np.where(matrix > 0, at[:, None] * (1 - psi) / np.where(matrix > 0, matrix, 1), 0)
        seen += np.einsum("ij,ija,ijb->ab", weight, flat, flat)
    steps = rho[:, None] / ((1 - psi) @ rho) # latent steps from each state for one that is seen
    full = np.diag([(steps / np.where(T > 0, T, 1))[pair] for pair in place])
    return seen, full, place


def missing_rate(T, psi):
    "Least share of information that observed transitions with known gaps have of the complete one."
    seen, full, place = known_information(np.array(T), np.array(psi))
    rows = np.array([i for i, _ in place])
    basis = []
    for i in range(len(T)):
        own = np.flatnonzero(rows == i)
        for a in own[1:]:
            way = np.zeros(len(rows))
            way[own[0]], way[a] = -1, 1 # rows keep their sum
            basis.append(way)
    basis = np.array(basis).T
    share = np.linalg.eigvals(np.linalg.solve(basis.T @ full @ basis, basis.T @ seen @ basis))
    return float(np.real(share).min())


def measure(method, variant, model, data):
    "Least effective draws of an entry of `T`, largest R-hat, and processor seconds."
    draws, warmup = RUNS[method, variant]
    def fit(draws, warmup):
        run = dict(emission=model.emission, psi=model.psi, variant=variant, draws=draws,
                   warmup=warmup, chains=2, seed=0, progress=False)
        if method == "known": return hm.fit_known(data.sequences, data.positions, data.n_steps, **run)
        return hm.fit_matching(data.sequences, data.n_steps, **run)
    fit(2, 2) # compiles
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(draws, warmup)
    seconds = time.process_time() - begin
    T = found.T.reshape(2, draws, -1)
    T = np.ascontiguousarray(T[..., np.ptp(T, axis=(0, 1)) > 1e-12])
    ess = float(array_stats.ess(T, chain_axis=0, draw_axis=1).min())
    return dict(draws=2 * draws, ess=f"{ess:.1f}", seconds=f"{seconds:.2f}",
                rhat=f"{float(array_stats.rhat(T, chain_axis=0, draw_axis=1).max()):.3f}",
                ess_per_second=f"{ess / seconds:.3f}")


def mixing():
    "All chains, keeps, methods and variants."
    for name, make in CHAINS.items():
        for keep in KEEPS:
            model = make(keep)
            data = model.sample(1500, 80, seed=2)
            share = missing_rate(model.T, model.psi) if model.n_states < 20 else float("nan")
            for method, variant in RUNS:
                about = dict(chain=name, keep=keep, method=method, variant=variant)
                told = f"{share / (2 - share):.4f}" if (method, variant) == ("known", "augmented") else ""
                yield about | measure(method, variant, model, data) | dict(predicted_per_draw=told)
