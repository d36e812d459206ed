"""Benchmarks of forward filtering, backward sampling, for the registry of bench/bench.py.

One sweep draws the hidden states of all sequences and counts what the next sweep needs. Beside
ours: the same algorithm in C (bench/ffbs.c, plain and with sequences side by side; the states that
come out must be ours), and dynamax where it is installed. A step of EM is another kind of work: ours
stands beside that of hmmlearn in its fastest mode, both learn T alone, and both must find the same.
"""
import ctypes
import gc
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numba
import numpy as np

import hmmop_nb as hm
from hmmop_nb.em import expectations, plain_chain
from hmmop_nb.engine.emissions import emission_weights
from hmmop_nb.engine.messages import draw_paths, layout
from hmmop_nb.engine.problem import Theta, pose
from hmmop_nb.engine.random import Stream, as_key
from hmmop_nb.model import Sequences

FFBS_C = Path(__file__).with_name("ffbs.c")
FIELDS = dict(values="f8", offsets="i8", order="i8", n=None, start="f8", T="f8", mean="f8",
              scale="f8", S=None, key=None, stream=None, sweep=None, counts="i8", first="i8",
              sums="f8", squares="f8", log_likelihood="f8", states="i2")


class Sweep(ctypes.Structure):
    "What the C kernels are given: arrays where there is a kind of number, else a number."
    _fields_ = [(name, ctypes.c_void_p if kind else ctypes.c_uint64)
                for name, kind in FIELDS.items()]


def interleaved_best(runs, repeats, least=0.):
    """Least seconds of each way in so many turns, and more of them until `least` seconds are over.

    A busy moment hits all ways. Ways on one thread are timed by the processor time of that thread,
    which other programs disturb less; the others by the clock on the wall."""
    best, turn, began = dict.fromkeys(runs, np.inf), 0, time.perf_counter()
    while turn <= repeats or time.perf_counter() - began < least:
        for how, run in runs.items():
            many = "threads" in how or "all processors" in how
            clock = time.perf_counter if many else time.thread_time
            begin = clock()
            run()
            if not turn and repeats: continue # the first turn compiles
            best[how] = min(best[how], clock() - begin)
        turn += 1
    return best


def compile_c(folder, lanes):
    "The C kernels as a library, or None where there is no compiler."
    library = Path(folder) / f"ffbs{lanes}.so"
    command = ["gcc", "-O3", "-march=native", "-fopenmp-simd", f"-DLANES={lanes}", "-shared",
               "-fPIC", str(FFBS_C), "-o", str(library), "-lm"]
    try: subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no C kernel: {error}", file=sys.stderr)
        return None
    return ctypes.CDLL(str(library))


def in_c(kernel, data, start, T, emission, key, sweep):
    "A function that runs a C kernel, and the arrays it fills."
    S = len(T)
    arrays = dict(
        values=data.values, offsets=data.offsets, order=data.order, start=np.array(start),
        T=np.array(T), mean=np.array(emission.means), scale=np.array(emission.scales),
        counts=np.zeros((S, S), np.int64), first=np.zeros(S, np.int64), sums=np.zeros(S),
        squares=np.zeros(S), log_likelihood=np.zeros(len(data.steps)),
        states=np.zeros(len(data.values), np.int16))
    assert all(arrays[name].dtype == kind for name, kind in FIELDS.items() if kind)
    given = Sweep(**{name: a.ctypes.data for name, a in arrays.items()}, n=len(data.steps), S=S,
                  key=int(key), stream=int(Stream.PATHS), sweep=sweep)
    def run():
        for name in ("counts", "first", "sums", "squares"): arrays[name][:] = 0
        kernel(ctypes.byref(given))
    return run, arrays


def hmmlearn_step(data, start, T, emission):
    "A function that runs one step of hmmlearn's EM for T, in its fastest mode."
    from hmmlearn.hmm import GaussianHMM
    theirs = GaussianHMM(len(T), "diag", init_params="", params="t", n_iter=1,
                         implementation="scaling")
    def run():
        theirs.startprob_ = start
        theirs.transmat_ = T
        theirs.means_ = emission.means[:, None]
        theirs.covars_ = emission.scales[:, None]**2
        return theirs.fit(data.values[:, None], data.steps).transmat_
    return run


def our_step(sequences, start, T, emission):
    "A function that runs one step of our EM for T, as if nothing were omitted."
    problem = pose(sequences, emission=emission, psi=0., start=start)
    theta = Theta(np.array(T), np.array(start), np.zeros(len(T)), np.zeros(0))
    def run(): return plain_chain(problem, theta, expectations(problem, theta).counts).T
    return run


def em_steps(sequences, data, model, R):
    "One step of EM for T, ours and that of hmmlearn, on one thread each."
    ours = our_step(sequences, model.start, R, model.emission)
    runs = {"ours, one EM step": on_threads(1, ours)}
    try: theirs = hmmlearn_step(data, model.start, R, model.emission)
    except ImportError: return runs
    assert np.allclose(ours(), theirs(), atol=1e-8)
    return runs | {"hmmlearn, one EM step": theirs}


def dynamax_sample(data, start, T, emission):
    "A function that draws all paths with dynamax on the CPU, padded; None where it is missing."
    try:
        import jax
        from dynamax.hidden_markov_model.inference import hmm_posterior_sample
    except ImportError: return None
    jax.config.update("jax_enable_x64", True)
    inside = np.arange(data.steps.max()) < data.steps[:, None]
    x = np.zeros(inside.shape)
    x[inside] = data.values
    given = (x, inside[..., None], start, T, emission.means, emission.scales)
    x, inside, start, T, means, scales = map(jax.numpy.array, given)

    @jax.jit
    def sample(key):
        z = (x[..., None] - means) / scales
        logs = jax.numpy.where(inside, -.5 * z * z - jax.numpy.log(scales), 0.)
        def one(key, logs): return hmm_posterior_sample(key, start, T, logs)
        return jax.vmap(one)(jax.random.split(key, len(x)), logs)
    def run(): return jax.block_until_ready(sample(jax.random.PRNGKey(0)))
    return run


def on_threads(n, run):
    "A function that runs another one on `n` threads."
    def limited():
        before = numba.get_num_threads()
        numba.set_num_threads(n)
        try: run()
        finally: numba.set_num_threads(before)
    return limited


def c_ways(libraries, data, model, R, key):
    "The ways in C, each compared with ours before it is timed."
    weights = emission_weights(model.emission)
    drawn = draw_paths(data, model.start, R, weights, key, 3, states=True)
    kernels = {}
    for lanes, library in libraries.items():
        if library is None: continue
        if lanes == 8: kernels["C, one sequence at a time"] = library.ffbs_plain
        kernels[f"C, {lanes} sequences side by side"] = library.ffbs_lanes
    ways = {}
    for how, kernel in kernels.items():
        ways[how], arrays = in_c(kernel, data, model.start, R, model.emission, key, 3)
        ways[how]()
        assert (arrays["states"] == drawn.states).mean() > 1 - 1e-6, how
        assert np.allclose(arrays["log_likelihood"], drawn.log_likelihood), how
    return ways


def other_libraries(data, model, R):
    "The ways of other libraries that are installed, each with its number of turns."
    sample = dynamax_sample(data, model.start, R, model.emission)
    if sample: yield "dynamax, all processors", sample, 2


def ffbs(sizes=(5, 10, 25, 60), repeats=30):
    "One sweep over 60,000 observations in 1,500 sequences, by number of states."
    with tempfile.TemporaryDirectory() as folder:
        libraries = {lanes: compile_c(folder, lanes) for lanes in (8, 16, 32, 64)}
        for S in sizes:
            model = hm.degree_chain(S, min(5, S), seed=0, psi=.5)
            sequences = model.sample(1600, 80, seed=1).sequences
            sequences = Sequences.from_list([s for s in sequences if len(s)][:1500])
            data, R, key = layout(sequences), hm.thin(model.T, .5), as_key(0)
            weights = emission_weights(model.emission)
            ours = partial(draw_paths, data, model.start, R, weights, key, 3)
            runs = {"ours, 1 thread": on_threads(1, ours)}
            if numba.config.NUMBA_NUM_THREADS > 1: runs["ours, 2 threads"] = on_threads(2, ours)
            runs |= c_ways(libraries, data, model, R, key)
            # where a sweep takes milliseconds, least times need hundreds of turns
            best = interleaved_best(runs, repeats, 15.)
            best |= interleaved_best(em_steps(sequences, data, model, R), 5)
            for how, run, turns in other_libraries(data, model, R):
                best |= interleaved_best({how: run}, turns)
            what = f"FFBS, {S} states, {len(data.values)} observations"
            for how, seconds in best.items(): yield dict(what=what, how=how, seconds=seconds)


def memory(name):
    "Present (VmRSS) or peak (VmHWM) memory of this process in bytes; nan if nobody tells."
    try: lines = open("/proc/self/status").read().splitlines()
    except OSError: return float("nan")
    return int(next(line.split()[1] for line in lines if line.startswith(name))) * 1024


def ffbs_large(sizes=(10_000, 100_000, 1_000_000), length=40, S=10):
    "Whether cost stays linear and memory bounded: up to a million sequences, lay-out included."
    model, key = hm.degree_chain(S, 5, seed=0, psi=0.), as_key(0)
    weights = emission_weights(model.emission)
    for n in sizes:
        sequences = model.sample(n, length, seed=1).sequences
        draw_paths(layout(sequences[:1]), model.start, model.T, weights, key, 0)
        gc.collect()
        before = memory("VmRSS")
        try: Path("/proc/self/clear_refs").write_text("5") # the mark of peak memory begins anew
        except OSError: before = float("nan")
        begin = time.perf_counter()
        data = layout(sequences)
        laid = time.perf_counter() - begin
        spent, threads = {}, numba.get_num_threads()
        for k in range(threads, 0, -1):
            numba.set_num_threads(k)
            begin = time.perf_counter()
            draw_paths(data, model.start, model.T, weights, key, 0)
            spent[k] = time.perf_counter() - begin
        numba.set_num_threads(threads)
        held = sequences.values.nbytes + sequences.offsets.nbytes
        peak = (held + memory("VmHWM") - before) / held
        what = f"FFBS, {S} states, {n:,} x {length} observations"
        for k, seconds in spent.items():
            threads_used = "1 thread" if k == 1 else f"{k} threads"
            yield dict(what=what, seconds=laid + seconds,
                       how=f"ours, {threads_used}, {peak:.2f} x the memory of the data")


def all_ffbs():
    "Both tables, row by row."
    yield from ffbs()
    yield from ffbs_large()
