"""Many states: processor time and memory of the sparse and the dense road, `python bench/bench_sparse.py`.

Three kinds of chains, up to 1,000 states, one thread, 32 lists of 40 observations: the log-likelihood, and the
expectations of an EM step. `once` is what a step takes with two lists of one observation: what is paid for each Theta, whatever the data.
Every row is measured in a process of its own. The table is nbs/results/scale_sparse.csv, from one run.
"""
import csv
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
OUT = ROOT / "nbs" / "results" / "scale_sparse.csv"
FIELDS = ["chain", "states", "entries", "psi", "what", "road", "way", "us_each", "once_s", "peak_mb", "version", "processor"]
LISTS, LENGTH = 32, 40
SETTINGS = [("random", 100, .5), ("random", 300, .5), ("random", 1000, .5), ("random", 1000, .2), ("band", 1000, .5),
            ("grid", 100, .5), ("grid", 300, .5), ("grid", 1000, .5)]


def chain(kind, S):
    "A transition matrix with few ways out of each state."
    rng, side, at = np.random.default_rng(0), round(S**.5), np.arange(S)
    if kind == "random":
        T = np.zeros((S, S))
        for i in range(S): T[i, rng.choice(S, 10, replace=False)] = rng.random(10)
    elif kind == "band": T = (np.abs(at[:, None] - at - .5) < 5.5) * rng.random((S, S))
    else:
        S = side**2
        at = np.arange(S)
        far = np.abs(at[:, None] // side - at // side) + np.abs(at[:, None] % side - at % side)
        T = (far <= 1) * rng.random((S, S))
    return T / T.sum(1, keepdims=True)


def measure(kind, S, psi, what, road):
    "One row, in this process."
    import numba
    from hmmop_nb.engine import sparse
    numba.set_num_threads(1)
    T, expect = chain(kind, S), what == "em"
    S, psi = len(T), np.full(len(T), psi)
    start, log_b = np.full(S, 1 / S), np.random.default_rng(1).normal(size=(LISTS * LENGTH, S)) * 2
    offsets, small = np.arange(LISTS + 1) * LENGTH, np.arange(3)
    sparse.PAYS = 10. # whether or not it pays
    def run(offsets):
        walk = sparse.sparse_walk(T, start, psi)
        own = log_b[:offsets[-1]]
        if road == "sparse": return sparse.flow(own, offsets, T, walk, expect)
        return sparse.dense_flow(own, offsets, T, walk._replace(factors=sparse.no_factors()), expect)
    run(small) # compile
    def timed(offsets):
        each = []
        for _ in range(2):
            begin = time.process_time()
            run(offsets)
            each.append(time.process_time() - begin)
        return min(each)
    once, all_of_it = timed(small), timed(offsets)
    walk = sparse.sparse_walk(T, start, psi)
    way = "" if road == "dense" else "factors" if len(walk.factors.there[0].order) else "turns"
    return dict(states=S, entries=int((T > 0).sum()), way=way, us_each=round((all_of_it - once) / len(log_b) * 1e6, 3),
                once_s=round(once, 4), peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main():
    if sys.argv[1:2] == ["--one"]: return print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), *sys.argv[5:])))
    from hmmop_nb import __version__
    environment, rows = os.environ | dict(NUMBA_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"), []
    for kind, S, psi in SETTINGS:
        for what in ("likelihood", "em"):
            for road in ("sparse", "dense"):
                asked = dict(chain=kind, states=S, psi=psi, what=what, road=road)
                done = subprocess.run([sys.executable, __file__, "--one", *map(str, asked.values())], capture_output=True,
                                      text=True, env=environment, check=True)
                rows.append(asked | json.loads(done.stdout) | dict(version=__version__, processor=platform.machine()))
                print({k: rows[-1][k] for k in FIELDS[:10]}, flush=True)
    part = OUT.with_name(f".{OUT.name}.part")
    with open(part, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, OUT)


if __name__ == "__main__": main()
