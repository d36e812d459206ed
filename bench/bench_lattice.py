"""Cost of the lattice: `python bench/bench_lattice.py` writes nbs/results/bench_lattice.csv.

One walk of 1,000 to 50,000 steps (10 states, half of the visits seen) on one thread: a draw and
expected counts, in the band that is looked for and, as long as that is bearable, in the usual one.
Then the paper's size, 1,500 x 80, where expected counts are compared with draws in turn. Seconds
are the least of several rounds; exponents are fitted to walks of 5,000 steps and more (1,000 and
more for the usual band).
"""
import os
import time
from functools import partial

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
import numba
import numpy as np

import hmmop_nb as hm
from bench import OUT, save
from hmmop_nb.engine import lattice as engine
from hmmop_nb.engine.random import as_key

STEPS = 1_000, 2_000, 5_000, 10_000, 20_000, 50_000
USUAL = 5_000 # the longest walk in the usual band


def lists(n, N, keep=.5):
    "Arguments of the kernels for `n` walks of `N` steps."
    model = hm.degree_chain(10, 5, psi=1 - keep, seed=0)
    data = model.sample(n, N, seed=1)
    b, _ = engine.scaled_densities(model.emission, data.sequences.values)
    walk = engine.as_walk(model.start, model.T, model.psi)
    return b, np.array(data.sequences.offsets), np.array(data.n_steps), walk


def kernels(args):
    "The two kernels that are measured."
    return {"draw": partial(engine.draw_matches, *args, as_key(0), 0),
            "expected counts": partial(engine.expected_matches, *args)}


def alternate(runs, rounds):
    "Least processor seconds of several functions, taken in turn."
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def cells(args):
    "Cells of the band of one walk."
    *data, walk = args
    found = engine.narrowed(engine.as_lists(*data, None, None), walk)
    low, high = engine.band_of(found, 0)
    return int((high - low + 1).sum())


def slope(N, values):
    "The exponent with which values grow."
    return round(float(np.polyfit(np.log(N), np.log(values), 1)[0]), 2)


def long_walks(how, long, steps):
    "Seconds by length, with bands looked for from `long` cells on."
    usual, engine.LONG = engine.LONG, long
    found = {N: alternate(kernels(lists(1, N)), 1 if N > 20_000 else 3) for N in steps}
    size = {N: cells(lists(1, N)) for N in steps}
    engine.LONG = usual
    fitted = [N for N in steps if N >= 5_000 or how == "usual band"]
    for what in ("draw", "expected counts"):
        exponents = dict(exponent=slope(fitted, [found[N][what] for N in fitted]),
                         cell_exponent=slope(fitted, [size[N] for N in fitted]))
        for N in steps:
            yield dict(what=what, how=how, sequences=1, steps=N, keep=.5, cells=size[N],
                       seconds=found[N][what]) | exponents


def lattice():
    "Rows of the benchmark."
    numba.set_num_threads(1)
    alternate(kernels(lists(1, 3_000)), 1) # compiles
    yield from long_walks("narrow band", engine.LONG, STEPS)
    yield from long_walks("usual band", 2**62, [N for N in STEPS if N <= USUAL])
    for keep in (.5, .8):
        for what, seconds in alternate(kernels(lists(1500, 80, keep)), 40).items():
            yield dict(what=what, how="usual band", sequences=1500, steps=80, keep=keep, cells="",
                       seconds=seconds, exponent="", cell_exponent="")


if __name__ == "__main__":
    rows = list(lattice())
    save(rows, OUT / "bench_lattice.csv")
    for row in rows: print(*row.values())
