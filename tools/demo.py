"""The main job in one command: simulate, omit half of the visits, and see what each method makes of the rest."""
import multiprocessing
import multiprocessing.forkserver
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

WORKERS = min(2, os.cpu_count() or 1)
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // WORKERS)))
os.environ.setdefault("MPLBACKEND", "agg")
if "forkserver" in multiprocessing.get_all_start_methods(): # workers get the package from one process, which loads it while this one does
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload(["hmmop_nb"])
    if __name__ == "__main__": multiprocessing.forkserver.ensure_running()
else: CONTEXT = multiprocessing.get_context("spawn")
import matplotlib.pyplot as plt
import numpy as np

import hmmop_nb as hm

OUT = Path("demo.png")
SHORT = dict(draws=40, warmup=20, chains=1, seed=2, progress=False)
LONG = SHORT | dict(draws=150, warmup=100)
# what each method is told, and how it is called; in the order that keeps two processes busy with compiling
METHODS = {
    "Matching": ("the number of steps", lambda d, told: hm.fit_matching(d.sequences, d.n_steps, **told, **SHORT)),
    "Naive": ("nothing, and ignores the gaps", lambda d, told: hm.fit_naive(d.sequences, **told, **SHORT)),
    "Semi-analytic": ("psi", lambda d, told: hm.fit_analytic(d.sequences, .5, **told, **SHORT)),
    "Gaps": ("psi", lambda d, told: hm.fit_gaps(d.sequences, .5, **told, **LONG)),
    "EM": ("psi", lambda d, told: hm.fit_em(d.sequences, psi=.5, **told)),
    "Gaps, sparse prior": ("psi", lambda d, told: hm.fit_gaps(d.sequences, .5, **told, **LONG, prior=hm.Prior(T="sparse"))),
    "Known": ("where every observation belongs", lambda d, told: hm.fit_known(d.sequences, d.positions, d.n_steps, **told, **SHORT)),
}


@lru_cache
def world():
    "The chain and its data, the same in every process."
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    return model, model.sample(1500, 80, seed=1)


def estimate(name):
    "The matrix that a method finds, the seconds it took, and the seconds of compiling before that."
    begin, few = time.perf_counter(), hm.Sequences.from_list([np.arange(10.)] * 20)
    tiny = SimpleNamespace(sequences=few, n_steps=np.full(20, 20), positions=hm.Sequences(few.values.astype(int), few.offsets))
    run, told = METHODS[name][1], dict(emission=hm.degree_chain(10, 5, seed=0).emission)
    # first what is Matching's alone; what its usual start shares with Naive is compiled by the other process meanwhile
    if name == "Matching": hm.fit_matching(tiny.sequences, tiny.n_steps, init="random", **told, **SHORT)
    run(tiny, told)
    compiled = time.perf_counter()
    _, data = world()
    ready = time.perf_counter()
    T = run(data, told).median_T
    return T, time.perf_counter() - ready, compiled - begin


def main():
    estimates = {}
    with ProcessPoolExecutor(WORKERS, CONTEXT) as pool:
        jobs = {pool.submit(estimate, name): name for name in METHODS} # compiling begins while the data are made
        model, data = world()
        print(f"degree-5 chain, {model.n_states} states: {data}\n")
        print(f"{'method':<20}{'is told':<34}{'L1 error':>9}{'seconds':>9}{'compiling':>11}", flush=True)
        for job in as_completed(jobs):
            name, (T, seconds, compiling) = jobs[job], job.result()
            estimates[name] = T
            print(f"{name:<20}{METHODS[name][0]:<34}{hm.l1_distance(T, model.T):9.3f}{seconds:9.1f}{compiling:11.1f}", flush=True)
    draw(model.T, {name: estimates[name] for name in ("Naive", "Semi-analytic", "Matching", "Gaps", "Gaps, sparse prior", "EM", "Known")})
    print(f"\nL1 is the mean over rows of the distance to the true row: 0 is perfect, 2 the worst. Estimates are posterior medians. What was compiled is kept for the next run.\nThe matrices are in {OUT}.")


def draw(T, estimates):
    "True and estimated matrices side by side."
    hm.use_style()
    fig, axes = plt.subplots(2, 4, figsize=(11, 6))
    for ax, (name, M) in zip(axes.flat, {"truth": T, **estimates}.items()):
        hm.plot_matrix(M, ax, name if name == "truth" else f"{name}: {hm.l1_distance(M, T):.3f}", vmax=T.max())
    part = OUT.with_suffix(".part.png")
    fig.savefig(part, dpi=120)
    part.replace(OUT)


if __name__ == "__main__": main()
