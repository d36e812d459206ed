"""A run killed at any moment, even while it writes its checkpoint, goes on as if nothing had been.

Real processes, real signals.
"""
import io
import multiprocessing
import os
import shutil
import signal
import time
import warnings
from typing import NamedTuple

import numba
import numpy as np
import pytest

from hmmop_nb.engine import driver, files
from hmmop_nb.engine.driver import Sampler, run_chains
from hmmop_nb.engine.files import read_npz
from hmmop_nb.engine.posterior import Posterior
from hmmop_nb.engine.random import Stream, sweep_rng

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
CALL = dict(draws=120, warmup=20, chains=2, seed=3, progress=False)
KILLS = int(os.environ.get("HMMOP_KILLS", 8)) # 50 in the long run


class State(NamedTuple):
    x: np.ndarray # large enough for a write to take a while
    level: float


class Info(NamedTuple):
    sweep: int


class Walk(Sampler):
    "A random walk with a heavy State: no kernels, so processes start quickly."
    name = "walk"

    def init(self, key):
        return State(sweep_rng(key, 0, Stream.START).normal(size=100_000), 0.)

    def step(self, state, key, sweep, warm):
        noise = sweep_rng(key, sweep, Stream.PARAMETERS).normal(size=state.x.shape)
        x = .9 * state.x + noise
        return State(x, float(x[0])), Info(sweep)

    def record(self, state):
        p = 1 / (1 + np.exp(-state.x[:2]))
        return dict(T=np.column_stack([p, 1 - p]), start=np.array([.5, .5]), psi=np.zeros(2),
                    log_density=state.level, tail=state.x[:5])


class Slow(Walk):
    "The same walk, taking its time."
    def step(self, state, key, sweep, warm):
        time.sleep(.005)
        return super().step(state, key, sweep, warm)


def child(path, sampler=Walk, every=0., spoil=None, call=CALL, threads=1):
    "What the processes do: run, and save the result beside the checkpoint."
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if spoil:
        keep_log(path)
        spoil_write(*spoil)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        done = run_chains(sampler(), **call, checkpoint=path, checkpoint_every=every)
        done.save(f"{path}.result")


def keep_log(path):
    "Note the sweeps of every checkpoint before it is written."
    save = driver.save_checkpoint
    def logged(path, identity, chains):
        with open(f"{path}.log", "a") as file: print([c.sweep for c in chains], file=file)
        return save(path, identity, chains)
    driver.save_checkpoint = logged


def spoil_write(where, nth):
    "Make the process kill itself in its `nth` write, at the given place."
    counter = iter(range(1, 1_000_000))
    def die(): os.kill(os.getpid(), signal.SIGKILL)
    real = dict(savez=np.savez, fsync=os.fsync, replace=os.replace)
    def savez(file, **arrays):
        if next(counter) < nth: return real["savez"](file, **arrays)
        whole = io.BytesIO()
        real["savez"](whole, **arrays)
        file.write(whole.getvalue()[:len(whole.getvalue()) // 2])
        file.flush()
        die()
    def fsync(number):
        if next(counter) >= 2 * nth - 1: die() # a write syncs its file, then its folder
        real["fsync"](number)
    def replace(*paths):
        last = next(counter) >= nth
        if last and where == "before rename": die()
        real["replace"](*paths)
        if last: die()
    if where == "half-way": files.np.savez = savez
    elif where == "before sync": os.fsync = fsync
    else: os.replace = replace


@pytest.fixture(scope="module")
def start():
    "Starts processes from a server that has everything imported."
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hmmop_nb.engine.driver"])
    def start(*args, **kwargs):
        process = context.Process(target=child, args=args, kwargs=kwargs)
        process.start()
        return process
    return start


@pytest.fixture(scope="module")
def expected(): return run_chains(Walk(), **CALL)


def finish(start, path, expected):
    "Let a last process finish the run on more threads, and compare its draws byte by byte."
    last = start(str(path), every=60., threads=2)
    last.join(60)
    assert last.exitcode == 0
    result = Posterior.load(f"{path}.result")
    for name in ("T", "start", "psi", "log_density", "tail", "sweep"):
        assert result._values(name).tobytes() == expected._values(name).tobytes(), name


def sweeps(path): return [c["sweep"] for c in read_npz(path, "checkpoint")[0]["chains"]]


def inode(path): return path.stat().st_ino if path.exists() else None


def test_kill_at_random_moments(start, expected, tmp_path):
    path, rng, before = tmp_path / "run.npz", np.random.default_rng(), [0, 0]
    for kill in range(KILLS):
        process, old = start(str(path)), inode(path)
        while inode(path) == old and process.is_alive():
            time.sleep(.001) # it writes: every rename brings a new file
        process.join(rng.uniform(0, .15))
        process.kill()
        process.join()
        now = sweeps(path) # whatever the moment, the file is complete and no progress is lost
        assert all(a >= b for a, b in zip(now, before)), (now, before)
        before = now
        copy = tmp_path / f"copy-{kill}.npz" # what was saved goes on to the same end, every time
        shutil.copy(path, copy)
        assert run_chains(Walk(), **CALL, checkpoint=copy).T.tobytes() == expected.T.tobytes()
        copy.unlink()
        if min(now) >= 130: # start over before the run is done
            path.unlink()
            before = [0, 0]
    finish(start, path, expected)


PLACES = [("half-way", 4), ("before sync", 4), ("before rename", 4), ("after rename", 5)]


@pytest.mark.parametrize("where, complete", PLACES)
def test_kill_within_a_write(where, complete, start, expected, tmp_path):
    path = tmp_path / "run.npz"
    call = CALL | dict(chains=1)
    process = start(str(path), spoil=(where, 5), call=call)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    log = open(f"{path}.log").read().splitlines()
    assert len(log) == 5
    assert str(sweeps(path)) == log[complete - 1], "exactly the unfinished checkpoint is lost"
    assert bool(list(tmp_path.glob(".run.npz.*.part"))) == (where != "after rename")
    last = start(str(path), every=60., call=call)
    last.join(60)
    assert Posterior.load(f"{path}.result").T.tobytes() == expected.T[:1].tobytes()


def test_ctrl_c_saves_and_returns(start, expected, tmp_path):
    path = tmp_path / "run.npz"
    process = start(str(path), Slow, every=.05)
    while not path.exists() or min(sweeps(path)) < 30: time.sleep(.01)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 0, "an interrupted run returns in good order"
    part = Posterior.load(f"{path}.result")
    assert 0 < part.n_draws < 120 and part.info["warnings"]
    np.testing.assert_array_equal(part.T, expected.T[:, :part.n_draws])
    assert min(sweeps(path)) == 20 + part.n_draws, "the last sweep is in the checkpoint"
    finish(start, path, expected)
