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
from hmmop_nb.limits import predicted_draws

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


def predicted(model, method):
    "Effective draws per draw that the missing information predicts of a sampler that draws what is omitted."
    known = "positions" if method == "known" else "lengths"
    return f"{predicted_draws(model.T, model.psi, n_steps=80, known=known):.4f}"


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
            for method, variant in RUNS:
                about = dict(chain=name, keep=keep, method=method, variant=variant)
                told = predicted(model, method) if variant == "augmented" else ""
                yield about | measure(method, variant, model, data) | dict(predicted_per_draw=told)
