"""How many effective draws a second of processor time buys: `python bench/bench.py mixing`.

Known positions and known lengths, 1,500 walks of 80 steps, the four chains of the paper: the samplers
that sum out everything omitted beside those that draw it (`variant="augmented"`), one thread, one run.
All runs are short; seconds include warm-up. `python bench/bench.py defaults` runs the former as a user
does who says nothing (four chains, 1,000 draws after 500), so that R-hat and seconds are what he sees.
The variables `CHAIN_SEED` and `DATA_SEED` name other chains and data.
Beside the measured rate stands the one that the missing information predicts for the latter.
Chains and keeps are shared out among a few processes, all rows of one cell in the same one;
the variables `KEEPS` (".35 .5") and `CHAINS` ("degree 5, cyclic") name fewer of them.
"""
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from arviz_stats.base import array_stats

import hmmop_nb as hm
from hmmop_nb.limits import predicted_draws

CHAIN_SEED, DATA_SEED = (int(os.environ.get(name, n)) for name, n in
                         (("CHAIN_SEED", 21), ("DATA_SEED", 22)))
KEEPS = [float(keep) for keep in os.environ.get("KEEPS", ".2 .35 .5 .8").split()]
USUAL_KEEPS = [float(keep) for keep in os.environ.get("KEEPS", ".35 .5 .65 .8").split()]
CHAINS = {
    "degree 3": lambda keep: hm.degree_chain(10, 3, psi=1 - keep, seed=CHAIN_SEED),
    "degree 5": lambda keep: hm.degree_chain(10, 5, psi=1 - keep, seed=CHAIN_SEED),
    "cyclic": lambda keep: hm.cyclic_multipartite(psi=1 - keep, seed=CHAIN_SEED),
    "part of speech": lambda keep: hm.part_of_speech(psi=1 - keep),
}
CHAINS = {name: make for name, make in CHAINS.items()
          if name in os.environ.get("CHAINS", ", ".join(CHAINS)).split(", ")}
RUNS = { # draws, warm-up and chains
    ("known", "collapsed"): (500, 300, 2), ("known", "augmented"): (150, 30, 2),
    ("matching", "collapsed"): (500, 300, 2), ("matching", "augmented"): (40, 10, 2),
}
DEFAULTS = {("known", "collapsed"): (1000, 500, 4), ("matching", "collapsed"): (1000, 500, 4)}
PROCESSES = 2


def predicted_rates(model):
    "Effective draws for each draw of the samplers that draw what is missing, by the missing information."
    known = dict(known="positions", matching="lengths")
    return {method: predicted_draws(model.T, model.psi, n_steps=80, known=what) for method, what in known.items()}


def run(method, model, data, **how):
    "A fit of known positions or of known lengths, emissions told."
    told = dict(emission=model.emission, seed=0, progress=False) | how
    if method == "known": return hm.fit_known(data.sequences, data.positions, data.n_steps, **told)
    return hm.fit_matching(data.sequences, data.n_steps, **told)


def measure(method, model, data, **how):
    "Least effective draws of an entry of `T`, largest R-hat, and processor seconds."
    run(method, model, data, **how | dict(draws=2, warmup=2, chains=1)) # compiles
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(method, model, data, **how)
    seconds = time.process_time() - begin
    T = found.T.reshape(*found.T.shape[:2], -1)
    T = np.ascontiguousarray(T[..., np.ptp(T, axis=(0, 1)) > 1e-12])
    ess = float(array_stats.ess(T, chain_axis=0, draw_axis=1).min())
    rhat = float(array_stats.rhat(T, chain_axis=0, draw_axis=1).max())
    row = dict(draws=T.shape[0] * T.shape[1], ess=f"{ess:.1f}", seconds=f"{seconds:.2f}",
               rhat=f"{rhat:.3f}", ess_per_second=f"{ess / seconds:.3f}")
    print(method, len(model.T), *model.psi[:1], *list(how.values())[:4], row, flush=True)
    return row


def cell(name, keep, runs=RUNS):
    "All runs on one chain with one keep."
    model = CHAINS[name](keep)
    data = model.sample(1500, 80, seed=DATA_SEED)
    rates, rows = predicted_rates(model), []
    for method, variant in runs:
        draws, warmup, chains = runs[method, variant]
        found = measure(method, model, data, variant=variant, chains=chains, draws=draws,
                        warmup=warmup, psi=model.psi)
        predicted = f"{rates[method]:.5f}" if variant == "augmented" else ""
        rows.append(dict(chain=name, keep=keep, method=method, variant=variant) | found
                     | dict(predicted_per_draw=predicted))
    return rows


def mixing():
    "All chains, keeps, methods and variants; the dearest cells first."
    return all_cells(KEEPS, RUNS)

def defaults():
    "The same with the defaults, without what is known to be slow."
    return all_cells(USUAL_KEEPS, DEFAULTS)

def all_cells(keeps, runs):
    "All cells, in a few processes."
    cells = sorted(product(CHAINS, keeps), key=lambda at: at[0] != "cyclic")
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        found = dict(zip(cells, pool.map(partial(cell, runs=runs), *zip(*cells))))
    return [row for at in product(CHAINS, keeps) for row in found[at]]
