"""Measure speed on this machine and save it where the site draws it from: `make bench [ONLY=name]`.

Each benchmark compares ways of doing one thing in one run, so that a ratio means something on a
noisy machine.
"""
import csv
import importlib
import os
import platform
import sys
import time
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "2")
import numba
import numpy as np

import hmmop_nb as hm

OUT = Path(__file__).resolve().parents[1] / "nbs" / "results"


def best_of(run, repeats=5):
    "Least seconds of several runs, after one that compiles."
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def sampling():
    "A million latent steps: the parallel kernels against a plain NumPy loop over steps."
    model, n, N = hm.degree_chain(seed=0), 1000, 1000

    def numpy_loop():
        rng, c = np.random.default_rng(0), model.T.cumsum(1)
        x = np.empty((N, n), int)
        x[0] = rng.integers(10, size=n)
        for t in range(1, N): x[t] = (rng.random(n)[:, None] > c[x[t - 1]]).sum(1)
        values = model.emission.sample(x.ravel(), rng)
        return values[rng.random(n * N) >= .5]

    for threads in (1, 2):
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        how = "HMMOP.sample, 1 thread" if threads == 1 else f"HMMOP.sample, {threads} threads"
        yield dict(what="sample 1,000,000 steps", how=how,
                   seconds=best_of(lambda: model.sample(n, N, seed=0)))
    yield dict(what="sample 1,000,000 steps", how="NumPy, vectorised over sequences",
               seconds=best_of(numpy_loop))


def elsewhere(module, name):
    "A benchmark that lives in its own file and may need packages that the others do not."
    def run(): return getattr(importlib.import_module(module), name)()
    return run


BENCHMARKS = {
    "sampling": sampling, "ffbs": elsewhere("bench_known_gaps", "all_ffbs"),
    "matching": elsewhere("bench_matching", "matching"), "gaps": elsewhere("bench_gaps", "gaps"),
    "mixing": elsewhere("bench_mixing", "mixing"), "defaults": elsewhere("bench_mixing", "defaults"),
    "hidden": elsewhere("bench_hidden", "hidden"),
}


def now():
    "The time by which a run is known."
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def save(rows, path, run=None):
    "Write the rows of one run to a table, all or nothing; every row says which run it was."
    run = run or now()
    part = path.with_name(f".{path.stem}.part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "version", "processor", "run"])
        writer.writeheader()
        for row in rows:
            measured = dict(version=hm.__version__, processor=platform.machine(), run=run)
            if isinstance(row["seconds"], float): measured["seconds"] = f"{row['seconds']:.4g}"
            writer.writerow(row | measured)
    part.replace(path)


def main():
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or BENCHMARKS:
        run = now() # when it began
        rows = list(BENCHMARKS[name]())
        save(rows, OUT / f"bench_{name}.csv", run)
        for row in rows:
            if "what" not in row:
                print(*row.values())
                continue
            ratio = row["seconds"] / rows[0]["seconds"]
            print(f"{row['what']:<28}{row['how']:<40}{row['seconds']:.4f} s   x{ratio:.2f}")


if __name__ == "__main__": main()
