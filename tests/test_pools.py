"""Fits work in pools of processes, in threads, and in processes that are forked while others are at work.

Every script runs in a process of its own, since what is looked for is one that never ends, or that ends at once.
"""
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 240 # seconds: a cold cache has to be filled by both workers of a pool

SHARED = """
import os, sys, threading, time, warnings
import numpy as np
import hmmop_nb as hm
warnings.simplefilter("ignore")
model = hm.HMMOP([[.7, .3], [.4, .6]], [.5, .5], hm.Gaussian([0., 3.], .5), .4)
data = model.sample(40, 10, seed=1)
FEW = dict(emission=model.emission, draws=3, warmup=2, chains=2, progress=False)

def em(seed): return hm.fit_em(data.sequences, psi=.4, emission=model.emission, seed=seed).T.tobytes()
def gaps(seed): return hm.fit_gaps(data.sequences, .4, seed=seed, **FEW).T.tobytes()
def sample(seed): return model.sample(50, 20, seed=seed).sequences.values.tobytes()
JOBS = [(job, seed) for seed in range(2) for job in (em, gaps, sample)]
def call(job): return job[0](job[1])
def here():
    "The answers of this process, whose helpers are awake afterwards."
    return [call(job) for job in JOBS]
"""
SCRIPTS = {
    "multiprocessing": """
        import multiprocessing
        if __name__ == "__main__":
            wanted = here()
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool: assert pool.map(call, JOBS) == wanted
            assert here() == wanted
        """,
    "joblib": """
        from joblib import Parallel, delayed
        if __name__ == "__main__":
            wanted = here()
            assert Parallel(n_jobs=2, backend=sys.argv[1])(delayed(call)(job) for job in JOBS) == wanted
        """,
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        wanted = here()
        with ThreadPoolExecutor(4) as pool: assert list(pool.map(call, 3 * JOBS)) == 3 * wanted
        """,
    "two fits in two threads, cold": """
        found = {}
        def work(job): found[job] = call(job)
        both = [threading.Thread(target=work, args=((gaps, 1),)), threading.Thread(target=work, args=((em, 1),))]
        for thread in both: thread.start()
        for thread in both: thread.join()
        assert found == {(job, 1): job(1) for job in (gaps, em)}
        """,
    "fork beside a thread at work": """
        wanted, stop = here(), threading.Event()
        def keep_busy():
            while not stop.is_set(): here()
        busy = threading.Thread(target=keep_busy)
        busy.start()
        def child():
            try: os._exit(0 if here() == wanted else 1)
            finally: os._exit(2)
        children = []
        for _ in range(3):
            pid = os.fork()
            if not pid: child()
            children.append(pid)
            time.sleep(.05)
        ends = [os.waitpid(pid, 0)[1] for pid in children]
        stop.set()
        busy.join()
        assert ends == [0, 0, 0], ends
        """,
    "fork beside a thread that compiles": """
        from numba import njit
        from numba.core.compiler_lock import global_compiler_lock
        begun = threading.Event()
        def hold(): # as a compilation does
            with global_compiler_lock:
                begun.set()
                time.sleep(1)
        busy = threading.Thread(target=hold)
        busy.start()
        begun.wait()
        pid = os.fork()
        if not pid:
            try: os._exit(0 if njit(lambda x: x + 1)(1) == 2 and em(1) else 1)
            finally: os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        busy.join()
        """,
}


def run(script, *args, **environment):
    "Run a script to its end."
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py") # workers that are spawned read it again
        path.write_text(SHARED + textwrap.dedent(script))
        environment = os.environ | dict(PYTHONPATH=str(ROOT)) | environment
        environment.pop("NUMBA_NUM_THREADS", None) # helpers are what this is about
        environment["NUMBA_NUM_THREADS"] = "2"
        try: done = subprocess.run([sys.executable, path, *args], env=environment, timeout=LONGEST, capture_output=True, text=True)
        except subprocess.TimeoutExpired: pytest.fail("it hangs")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("name", ["threads", "two fits in two threads, cold", "fork beside a thread at work", "fork beside a thread that compiles"])
def test_threads_and_forks(name): run(SCRIPTS[name])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_pool(start):
    if start == "fork" and not hasattr(os, "fork"): pytest.skip("this system does not fork")
    run(SCRIPTS["multiprocessing"], start)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend):
    pytest.importorskip("joblib")
    run(SCRIPTS["joblib"], backend)


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_no_threading_layer_of_numba_is_in_the_way(layer):
    "One does not survive forks, the other one two threads at once; neither is used."
    if layer == "omp": pytest.importorskip("numba.np.ufunc.omppool")
    run(SCRIPTS["threads"], NUMBA_THREADING_LAYER=layer)
    if hasattr(os, "fork"): run(SCRIPTS["multiprocessing"], "fork", NUMBA_THREADING_LAYER=layer)


def test_no_kernel_is_parallel_in_numbas_way():
    for path in (ROOT / "hmmop_nb").rglob("*.py"):
        text = path.read_text()
        assert "parallel=True" not in text and "prange" not in text, path.name


def test_no_property_is_kept_under_a_lock():
    "Before Python 3.12 `functools.cached_property` has one, which a fork beside another thread inherits."
    own = ROOT / "hmmop_nb" / "engine" / "parallel.py"
    using = [path.name for path in (ROOT / "hmmop_nb").rglob("*.py") if "cached_property" in path.read_text() and path != own]
    assert using
    for path in (ROOT / "hmmop_nb").rglob("*.py"):
        if path == own or path.name == "_modidx.py": continue
        assert "functools import cached_property" not in path.read_text(), path.name
        assert "functools.cached_property" not in path.read_text(), path.name
