"""The main job in one command: simulate, omit half of the visits, reconstruct from the rest."""
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
# workers get the package from one process, which loads it while this one does
if "forkserver" in multiprocessing.get_all_start_methods():
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload(["hmmop_nb"])
    if __name__ == "__main__": multiprocessing.forkserver.ensure_running()
else: CONTEXT = multiprocessing.get_context("spawn")
import numpy as np

import hmmop_nb as hm

OUT = Path("demo.png")
SHORT = dict(draws=40, warmup=20, chains=1, seed=2, progress=False)
LONG = SHORT | dict(draws=150, warmup=100)
SPARSE = hm.Prior(T="sparse")


def matching(data, **told): return hm.fit_matching(data.sequences, data.n_steps, **told, **SHORT)
def naive(data, **told): return hm.fit_naive(data.sequences, **told, **SHORT)
def analytic(data, **told): return hm.fit_analytic(data.sequences, .5, **told, **SHORT)
def gaps(data, **told): return hm.fit_gaps(data.sequences, .5, **told, **LONG)
def sparse_gaps(data, **told): return gaps(data, prior=SPARSE, **told)
def em(data, **told): return hm.fit_em(data.sequences, psi=.5, **told)
def known(data, **told):
    return hm.fit_known(data.sequences, data.positions, data.n_steps, **told, **SHORT)


# what each method is told, and how it is called; in the order that keeps two processes busy with
# compiling
METHODS = {
    "Matching": ("the number of steps", matching),
    "Naive": ("nothing, and ignores the gaps", naive),
    "Semi-analytic": ("psi", analytic),
    "Gaps": ("psi", gaps),
    "EM": ("psi", em),
    "Gaps, sparse prior": ("psi", sparse_gaps),
    "Known": ("where every observation belongs", known),
}
SHOWN = ("Naive", "Semi-analytic", "Matching", "Gaps", "Gaps, sparse prior", "EM", "Known")


@lru_cache
def world():
    "The chain and its data, the same in every process."
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    return model, model.sample(1500, 80, seed=1)


def estimate(name):
    "The matrix that a method finds, the seconds it took, and those of compiling before that."
    begin = time.perf_counter()
    few = hm.Sequences.from_list([np.arange(10.)] * 20)
    places = hm.Sequences(few.values.astype(int), few.offsets)
    tiny = SimpleNamespace(sequences=few, n_steps=np.full(20, 20), positions=places)
    _, run = METHODS[name]
    emission = hm.degree_chain(10, 5, seed=0).emission
    # first what is Matching's alone; what its usual start shares with Naive is compiled by the
    # other process meanwhile
    if name == "Matching": run(tiny, init="random", emission=emission)
    run(tiny, emission=emission)
    compiled = time.perf_counter()
    _, data = world()
    ready = time.perf_counter()
    T = run(data, emission=emission).median_T
    return T, time.perf_counter() - ready, compiled - begin


def main():
    estimates = {}
    with ProcessPoolExecutor(WORKERS, CONTEXT) as pool:
        # compiling begins while the data are made
        jobs = {pool.submit(estimate, name): name for name in METHODS}
        model, data = world()
        print(f"degree-5 chain, {model.n_states} states: {data}\n")
        print(f"{'method':<20}{'is told':<34}{'L1 error':>9}{'seconds':>9}{'compiling':>11}",
              flush=True)
        for job in as_completed(jobs):
            name, (T, seconds, compiling) = jobs[job], job.result()
            estimates[name] = T
            error = hm.l1_distance(T, model.T)
            print(f"{name:<20}{METHODS[name][0]:<34}{error:9.3f}{seconds:9.1f}{compiling:11.1f}",
                  flush=True)
    draw(model.T, {name: estimates[name] for name in SHOWN})
    print("\nL1 is the mean over rows of the distance to the true row: 0 is perfect, 2 the worst. "
          "Estimates are posterior medians. What was compiled is kept for the next run.\n"
          f"The matrices are in {OUT}.")


def draw(T, estimates):
    "True and estimated matrices side by side."
    import matplotlib.pyplot as plt
    hm.plot.use_style()
    fig, axes = plt.subplots(2, 4, figsize=(11, 6))
    hm.plot.plot_matrix(T, axes.flat[0], "truth", vmax=T.max())
    for ax, (name, M) in zip(axes.flat[1:], estimates.items()):
        hm.plot.plot_matrix(M, ax, f"{name}: {hm.l1_distance(M, T):.3f}", vmax=T.max())
    part = OUT.with_suffix(".part.png")
    fig.savefig(part, dpi=120)
    part.replace(OUT)


if __name__ == "__main__": main()
