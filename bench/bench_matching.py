"""Speed of the Matching sampler: `python bench/bench.py matching` writes nbs/results/bench_matching.csv.

One exact sweep over 1,500 sequences of 80 steps (10 states, keep 0.5) on one thread against the same lattice in C, compiled and
measured in the same run, alternating; and the local samplers with 100 inner sweeps. The C draws must be the very same.
"""
import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "2")
import numba
import numpy as np

import hmmop_nb as hm
from hmmop_nb.engine.lattice import as_walk, draw_matches, expected_matches, scaled_densities
from hmmop_nb.matching import MatchingSampler
from hmmop_nb.known_gaps import prepare
from hmmop_nb.engine.random import as_key
from hmmop_nb.engine.problem import Prior

SOURCE = Path(__file__).with_name("lattice.c")


def compiled(folder):
    "The C kernel as a function of the same arguments as `draw_matches`."
    library = Path(folder) / "lattice.so"
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, SOURCE, "-lm"], check=True)
    kernel = ctypes.CDLL(str(library)).lattice_sweep
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)

    def sweep(b, offsets, n_steps, walk, key, number):
        S, n = len(walk.psi), len(n_steps)
        out = [np.zeros(shape, np.int64) for shape in ((S, S), S, S, len(b), len(b))] + [np.empty(n)]
        kernel(pointer(b), pointer(offsets), pointer(n_steps), ctypes.c_int64(n), ctypes.c_int64(S), pointer(walk.T), pointer(walk.start), pointer(walk.psi),
               ctypes.c_uint64(int(key)), ctypes.c_int64(number), *map(pointer, out))
        return out
    return sweep


def alternate(runs, repeats=60):
    "Least processor seconds of each of several functions, taken in turn after one round that compiles."
    best = dict.fromkeys(runs, np.inf)
    for turn in range(repeats + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            if turn: best[name] = min(best[name], time.process_time() - begin)
    return best


def matching():
    "Rows of the benchmark."
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    data = model.sample(1500, 80, seed=1)
    b, _ = scaled_densities(model.emission, data.sequences.values)
    args = b, np.array(data.sequences.offsets), np.array(data.n_steps), as_walk(model.start, model.T, model.psi)
    numba.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        in_c = compiled(folder)
        ours, theirs = draw_matches(*args, as_key(0), 0), in_c(*args, as_key(0), 0)
        counts = ours.counts
        for mine, other in zip((counts.transitions, counts.first, counts.omitted, ours.labels, ours.places), theirs): np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(ours.log_likelihood, theirs[-1], rtol=1e-12)
        best = alternate({"lattice in C, gcc -O3 -march=native": lambda: in_c(*args, as_key(0), 0), "draw_matches (numba)": lambda: draw_matches(*args, as_key(0), 0)})
    for how, seconds in best.items(): yield dict(what="joint draw, 1,500 x 80", how=how, seconds=seconds)
    yield dict(what="expected counts, 1,500 x 80", how="expected_matches (numba)", seconds=alternate({"": lambda: expected_matches(*args)}, 5)[""])
    sequences, learner, start = prepare(data.sequences, model.emission, None, model.start, Prior())
    for placement, inner in [("exact", 1), ("gibbs", 100), ("paper", 100)]:
        sampler = MatchingSampler(sequences, learner, args[2], None, placement, inner, start, Prior(), model)
        state = sampler.init(as_key(0))
        seconds = alternate({"": lambda: sampler.step(state, as_key(0), 0, False)}, 5)[""]
        yield dict(what="one Gibbs iteration, 1,500 x 80", how=f'placement="{placement}"' + f", inner={inner}" * (placement != "exact"), seconds=seconds)
