"""Benchmarks of forward filtering, backward sampling, for the registry of bench/bench.py.

One sweep draws the hidden states of all sequences and counts what the next sweep needs. Beside ours: the same
algorithm in C (bench/ffbs.c, plain and with sequences side by side; the states that come out must be ours), an EM step of hmmlearn, and dynamax
where it is installed.
"""
import ctypes
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

import hmmop_nb as hm
from hmmop_nb.engine.emissions import emission_weights
from hmmop_nb.engine.messages import draw_paths, layout
from hmmop_nb.engine.random import Stream
from hmmop_nb.model import Sequences
from hmmop_nb.engine.random import as_key

FFBS_C = Path(__file__).with_name("ffbs.c")
FIELDS = dict(values="f8", offsets="i8", order="i8", n=None, start="f8", T="f8", mean="f8", scale="f8", S=None, key=None, stream=None, sweep=None,
              counts="i8", first="i8", sums="f8", squares="f8", log_likelihood="f8", states="i2")


class Problem(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p if kind else ctypes.c_uint64) for name, kind in FIELDS.items()]


def interleaved_best(runs, repeats, least=0.):
    """Least seconds of each way in so many turns, and more of them until `least` seconds are over; a busy moment hits all ways.
    Ways on one thread are timed by the processor time of that thread, which other programs disturb less; the others by the clock on the wall."""
    best, turn, began = dict.fromkeys(runs, np.inf), 0, time.perf_counter()
    while turn <= repeats or time.perf_counter() - began < least:
        for how, run in runs.items():
            clock = time.perf_counter if "threads" in how or "all processors" in how else time.thread_time
            begin = clock()
            run()
            if turn or not repeats: best[how] = min(best[how], clock() - begin) # the first turn compiles
        turn += 1
    return best


def compile_c(folder, lanes):
    "The C kernels as a library, or None where there is no compiler."
    library = Path(folder) / f"ffbs{lanes}.so"
    command = ["gcc", "-O3", "-march=native", "-fopenmp-simd", f"-DLANES={lanes}", "-shared", "-fPIC", str(FFBS_C), "-o", str(library), "-lm"]
    try: subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no C kernel: {error}", file=sys.stderr)
        return None
    return ctypes.CDLL(str(library))


def in_c(kernel, data, start, T, emission, key, sweep):
    "A function that runs a C kernel, and the arrays it fills."
    S = len(T)
    arrays = dict(values=data.values, offsets=data.offsets, order=data.order, start=np.array(start), T=np.array(T), mean=np.array(emission.means), scale=np.array(emission.scales),
                  counts=np.zeros((S, S), np.int64), first=np.zeros(S, np.int64), sums=np.zeros(S), squares=np.zeros(S), log_likelihood=np.zeros(len(data.steps)), states=np.zeros(len(data.values), np.int16))
    assert all(arrays[name].dtype == kind for name, kind in FIELDS.items() if kind)
    problem = Problem(**{name: a.ctypes.data for name, a in arrays.items()}, n=len(data.steps), S=S, key=int(key), stream=int(Stream.PATHS), sweep=sweep)
    def run():
        for name in ("counts", "first", "sums", "squares"): arrays[name][:] = 0
        kernel(ctypes.byref(problem))
    return run, arrays


def hmmlearn_step(data, start, T, emission):
    "A function that runs one step of hmmlearn's EM."
    from hmmlearn.hmm import GaussianHMM
    theirs = GaussianHMM(len(T), "diag", init_params="", n_iter=1)
    def run():
        theirs.startprob_, theirs.transmat_, theirs.means_, theirs.covars_ = start, T, emission.means[:, None], emission.scales[:, None]**2
        theirs.fit(data.values[:, None], data.steps)
    return run


def dynamax_sample(data, start, T, emission):
    "A function that draws all paths with dynamax on the CPU, sequences padded to one length; None where it is not installed."
    try:
        import jax
        from dynamax.hidden_markov_model.inference import hmm_posterior_sample
    except ImportError: return None
    jax.config.update("jax_enable_x64", True)
    inside = np.arange(data.steps.max()) < data.steps[:, None]
    x = np.zeros(inside.shape)
    x[inside] = data.values
    x, inside, start, T, means, scales = map(jax.numpy.array, (x, inside[..., None], start, T, emission.means, emission.scales))

    @jax.jit
    def sample(key):
        z = (x[..., None] - means) / scales
        logs = jax.numpy.where(inside, -.5 * z * z - jax.numpy.log(scales), 0.)
        return jax.vmap(lambda k, l: hmm_posterior_sample(k, start, T, l))(jax.random.split(key, len(x)), logs)
    return lambda: jax.block_until_ready(sample(jax.random.PRNGKey(0)))


def ffbs(sizes=(5, 10, 25, 60), repeats=30):
    "One sweep over 60,000 observations in 1,500 sequences, by number of states."
    threads = numba.config.NUMBA_NUM_THREADS
    with tempfile.TemporaryDirectory() as folder:
        libraries = {lanes: compile_c(folder, lanes) for lanes in (8, 16, 32, 64)}
        for S in sizes:
            model = hm.degree_chain(S, min(5, S), seed=0, psi=.5)
            sequences = model.sample(1600, 80, seed=1).sequences
            sequences = Sequences.from_list([s for s in sequences if len(s)][:1500])
            data, weights, R, key = layout(sequences), emission_weights(model.emission), hm.thin(model.T, .5), as_key(0)
            ours = lambda: draw_paths(data, model.start, R, weights, key, 3)
            def on(n): # a function that runs ours on n threads
                def run():
                    numba.set_num_threads(n)
                    try: ours()
                    finally: numba.set_num_threads(threads)
                return run
            runs = {"ours, 1 thread": on(1)} | ({"ours, 2 threads": on(2)} if threads > 1 else {})
            drawn = draw_paths(data, model.start, R, weights, key, 3, states=True)
            for lanes, library in libraries.items():
                if library is None: continue
                for name in ("ffbs_plain",) * (lanes == 8) + ("ffbs_lanes",):
                    how = "C, one sequence at a time" if name == "ffbs_plain" else f"C, {lanes} sequences side by side"
                    runs[how], arrays = in_c(getattr(library, name), data, model.start, R, model.emission, key, 3)
                    runs[how]()
                    assert (arrays["states"] == drawn.states).mean() > 1 - 1e-6 and np.allclose(arrays["log_likelihood"], drawn.log_likelihood), how
            try: theirs = hmmlearn_step(data, model.start, R, model.emission)
            except ImportError: theirs = None
            best = interleaved_best(runs, repeats, 15.) # where a sweep takes milliseconds, least times need hundreds of turns
            others = {"hmmlearn, one EM step": theirs, "dynamax, all processors": dynamax_sample(data, model.start, R, model.emission)}
            for how, run in others.items():
                if run: best |= interleaved_best({how: run}, 0 if "hmmlearn" in how and S > 10 else 2) # hmmlearn compiles nothing, and takes long
            for how, seconds in best.items(): yield dict(what=f"FFBS, {S} states, {len(data.values)} observations", how=how, seconds=seconds)


def memory(name):
    "Present (VmRSS) or peak (VmHWM) resident memory of this process, in bytes; nan where the system does not tell."
    try: return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name))) * 1024
    except OSError: return float("nan")


def ffbs_large(sizes=(10_000, 100_000, 1_000_000), length=40, S=10):
    "Whether cost stays linear and memory bounded: up to a million sequences of 40 observations, lay-out included."
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
        for k, seconds in spent.items():
            yield dict(what=f"FFBS, {S} states, {n:,} x {length} observations", how=f"ours, {k} thread{'s' * (k > 1)}, {peak:.2f} x the memory of the data", seconds=laid + seconds)


def all_ffbs():
    "Both tables, row by row."
    yield from ffbs()
    yield from ffbs_large()
