"""Speed of the Matching sampler: `bench/bench.py matching` writes nbs/results/bench_matching.csv.

One exact sweep over 1,500 sequences of 80 steps (10 states, keep 0.5) on one thread against the
same lattice in C, compiled and measured in the same run, alternating; and the local samplers with
100 inner sweeps. The C draws must be the very same.
"""
import ctypes
import os
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "2")
import numba
import numpy as np

import hmmop_nb as hm
from hmmop_nb.engine.lattice import as_walk, draw_matches, expected_matches, scaled_densities
from hmmop_nb.engine.problem import pose
from hmmop_nb.engine.random import Stream, as_key
from hmmop_nb.matching import LocalSampler, MatchingSampler

SOURCE = Path(__file__).with_name("lattice.c")


def compiled(folder):
    "The C kernel as a function of the same arguments as `draw_matches`."
    library = Path(folder) / "lattice.so"
    options = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, "-o", library, SOURCE, "-lm"], check=True)
    kernel = ctypes.CDLL(str(library)).lattice_sweep
    number = ctypes.c_int64
    def pointer(a): return a.ctypes.data_as(ctypes.c_void_p)

    def sweep(b, offsets, n_steps, walk, key, sweep):
        S, n = len(walk.psi), len(n_steps)
        shapes = dict(transitions=(S, S), first=S, omitted=S, labels=len(b), places=len(b))
        out = {name: np.zeros(shape, np.int64) for name, shape in shapes.items()}
        out["log_likelihood"] = np.empty(n)
        kernel(pointer(b), pointer(offsets), pointer(n_steps), number(n), number(S),
               pointer(walk.T), pointer(walk.start), pointer(walk.psi), ctypes.c_uint64(int(key)),
               number(Stream.LATTICE), number(sweep), *map(pointer, out.values()))
        return out
    return sweep


def compare(ours, theirs):
    "Both must have drawn the very same."
    for name in ("transitions", "first", "omitted"):
        np.testing.assert_array_equal(getattr(ours.counts, name), theirs[name])
    np.testing.assert_array_equal(ours.labels, theirs["labels"])
    np.testing.assert_array_equal(ours.places, theirs["places"])
    np.testing.assert_allclose(ours.log_likelihood, theirs["log_likelihood"], rtol=1e-12)


def alternate(runs, repeats=60):
    "Least processor seconds of several functions, taken in turn after a round that compiles."
    best = dict.fromkeys(runs, np.inf)
    for turn in range(repeats + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            if turn: best[name] = min(best[name], time.process_time() - begin)
    return best


def least(run, repeats=5): return alternate({"": run}, repeats)[""]


def matching():
    "Rows of the benchmark."
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    data, key = model.sample(1500, 80, seed=1), as_key(0)
    b, _ = scaled_densities(model.emission, data.sequences.values)
    walk = as_walk(model.start, model.T, model.psi)
    args = b, np.array(data.sequences.offsets), np.array(data.n_steps), walk
    numba.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        in_c = compiled(folder)
        compare(draw_matches(*args, key, 0), in_c(*args, key, 0))
        best = alternate({"lattice in C, gcc -O3 -march=native": partial(in_c, *args, key, 0),
                          "draw_matches (numba)": partial(draw_matches, *args, key, 0)})
    for how, seconds in best.items():
        yield dict(what="joint draw, 1,500 x 80", how=how, seconds=seconds)
    yield dict(what="expected counts, 1,500 x 80", how="expected_matches (numba)",
               seconds=least(partial(expected_matches, *args)))
    problem = pose(data.sequences, emission=model.emission, n_steps=data.n_steps,
                   start=model.start, init=model)
    samplers = {'placement="exact"': MatchingSampler(problem),
                'placement="gibbs", inner=100': LocalSampler(problem, "gibbs", 100),
                'placement="paper", inner=100': LocalSampler(problem, "paper", 100)}
    for how, sampler in samplers.items():
        state = sampler.init(key)
        yield dict(what="one Gibbs iteration, 1,500 x 80", how=how,
                   seconds=least(partial(sampler.step, state, key, 0, False)))
