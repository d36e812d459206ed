"""No random number is used twice in a run.

A child process runs every method in plain Python (numba switched off), one after the other, writes
down the name of every number that is asked for, and reports the names that came twice.
"""
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MATCHING = "hm.fit_matching(DATA.sequences, DATA.n_steps, "
METHODS = {
    "known": "hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, **RUN)",
    "known, psi unknown": "hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, **LONG)",
    "known, augmented": "hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, variant='augmented', **RUN)",
    "naive": "hm.fit_naive(DATA.sequences, **RUN)",
    "random": "hm.fit_random(DATA.sequences, DATA.n_steps, **RUN)",
    "analytic": "hm.fit_analytic(DATA.sequences, .4, **RUN)",
    "matching, exact": MATCHING + "**RUN)",
    "matching, long": MATCHING + "leaps=2, **LONG)",
    "matching, augmented": MATCHING + "variant='augmented', **RUN)",
    "matching, gibbs": MATCHING + "placement='gibbs', inner=2, **RUN)",
    "matching, paper": MATCHING + "placement='paper', inner=2, **RUN)",
    "matching, random start": MATCHING + "placement='paper', inner=1, init='random', **RUN)",
    "gaps, collapsed": "hm.fit_gaps(DATA.sequences, .4, leaps=2, **LONG)",
    "gaps, psi unknown": "hm.fit_gaps(DATA.sequences, [.4, np.nan], leaps=2, **LONG)",
    "gaps, sparse": "hm.fit_gaps(DATA.sequences, .4, leaps=2, prior=hm.Prior(T='sparse'), **RUN)",
    "gaps, augmented": "hm.fit_gaps(DATA.sequences, [.4, np.nan], variant='augmented', **RUN)",
    "gaps, paper": "hm.fit_gaps(DATA.sequences, .4, variant='paper', max_gap=6, **RUN)",
    "mixed": "hm.fit(DATA.sequences, psi=.4, positions=[[p[0], *[np.nan] * (len(p) - 1)] if len(p) else [] "
             "for p in DATA.positions], n_steps=[7, 7, np.nan, np.nan, 7, 7], **RUN)",
    "mixed, psi by sequence": "hm.fit(DATA.sequences, psi=[[.3], [.4], [.3], [.4], [.3], [.4]], n_steps=[7, np.nan] * 3, **RUN)",
    "common length": "hm.fit(DATA.sequences, n_steps='common', method='mixed', **RUN)",
    "a law of lengths": "hm.fit(DATA.sequences, n_steps='each', method='mixed', prior=hm.Prior(n_steps={7: 1, 9: 1}), **RUN)",
    "rows with holes, gaps": "hm.fit_gaps(ROWS, .4, leaps=2, **RUN)",
    "rows with holes, naive": "hm.fit_naive(ROWS, **RUN)",
    "rows with holes, paper": "hm.fit_gaps(ROWS, .4, variant='paper', max_gap=6, **RUN)",
    "rows with holes, gibbs": "hm.fit_matching(ROWS, 7, placement='gibbs', inner=2, **RUN)",
    "rows with holes, mixed": "hm.fit(ROWS, psi=.4, n_steps=[7, np.nan] * 3, **RUN)",
    "gaps, marginal": "hm.fit_gaps(DATA.sequences, .4, variant='marginal', leaps=2, **LONG)",
    "matching, marginal": MATCHING + "variant='marginal', leaps=2, **RUN)",
    "moves by turns": "by_turns(1.1, 0.)(" + MATCHING + "leaps=2, **LONG))",
    "totals shared out": "by_turns(1.1, 1.1)(" + MATCHING + "leaps=2, **LONG))",
    "labels in doubt": "hm.fit_known(DATA.sequences, DATA.positions, DATA.n_steps, emission=MODEL.emission, leaps=2, **KNOWN)",
    "law of lengths beside places": "hm.fit(DATA.sequences, positions=[[p[0], *[np.nan] * (len(p) - 1)] if len(p) else [] "
             "for p in DATA.positions], n_steps='each', prior=hm.Prior(n_steps={7: 1, 9: 1}), **RUN)",
    "common length beside places": "hm.fit(DATA.sequences, psi=.4, positions=[[p[0], *[np.nan] * (len(p) - 1)] if len(p) else [] "
             "for p in DATA.positions], n_steps='common', **RUN)",
    "tails": "hm.fit(DATA.sequences, psi=.4, positions=[[*p[:-1], np.nan] if len(p) > 2 else [np.nan] * len(p) "
             "for p in DATA.positions], **RUN)",
    "bursts": "hm.fit_omission(DATA.sequences, hm.MarkovOmission(np.nan, np.nan), n_steps=DATA.n_steps, leaps=2, **LONG)",
    "bursts, no length": "hm.fit_omission(DATA.sequences, hm.MarkovOmission(.6, np.nan), leaps=2, **RUN)",
    "bursts, some lengths": "hm.fit_omission(DATA.sequences, hm.MarkovOmission(np.nan, np.nan), n_steps=[7, np.nan] * 3, leaps=2, **RUN)",
    "bursts by state": "hm.fit_omission(DATA.sequences, hm.MarkovOmission(np.nan, [np.nan] * 2), n_steps=DATA.n_steps, leaps=2, **RUN)",
    "quality by list": "hm.fit_omission(DATA.sequences, hm.PerSequenceOmission(np.nan, np.nan), n_steps=DATA.n_steps, leaps=2, **LONG)",
    "quality by list, no length": "hm.fit_omission(DATA.sequences, hm.PerSequenceOmission(.4, .1), leaps=2, **RUN)",
    "in blocks": "hm.fit(hm.in_blocks(DATA.sequences, size=8), psi=.4, **RUN)",
    "em": "hm.fit_em(DATA.sequences, psi=.4, n_states=2, restarts=1, max_iter=3, seed=5)",
    "sample": "MODEL.sample(6, 7, seed=5, omission=hm.PerSequenceOmission(.4, .1))",
    "front door": "hm.fit(DATA.sequences, psi=.4, **RUN)",
}
SCRIPT = """
import importlib, json, pkgutil, sys, warnings
warnings.simplefilter("ignore")
import numba
import numpy as np
import hmmop_nb as hm
from hmmop_nb.engine import random

seen, twice, purposes = set(), [], set()
def note(*name):
    if name in seen: twice.append([str(part) for part in name])
    seen.add(name)

def recorded(function):
    def noted(*args, **kw):
        note(function.__name__, *(int(x) for x in (*args, *kw.values())))
        return function(*args, **kw)
    return noted

def inside(own_key):
    "A run inside a run may ask for its key as often as it likes; the purpose is noted."
    def noted(key, stream):
        purposes.add(int(stream))
        return own_key(key, stream)
    return noted

for info in pkgutil.walk_packages(hm.__path__, "hmmop_nb."):
    if info.name.endswith(("experiments", "trust", "labelling")): continue
    importlib.import_module(info.name)
tamper = sys.argv[2] if len(sys.argv) > 2 else ""
if tamper == "warm start": random.own_key = lambda key, stream: key
heard = {kind: recorded(getattr(random, kind)) for kind in ("uniforms", "sweep_rng")}
heard["own_key"] = inside(random.own_key)
for name, module in list(sys.modules.items()):
    if not name.startswith("hmmop_nb"): continue
    for kind, function in heard.items():
        if hasattr(module, kind): setattr(module, kind, function)
assert numba.config.DISABLE_JIT
MODEL = hm.HMMOP([[.3, .7], [.6, .4]], [.5, .5], hm.Gaussian([0., 1.], .3), .4)
DATA = MODEL.sample(6, 7, seed=1)
ROWS = np.c_[DATA.sequences.values, DATA.sequences.values]
ROWS[::3, 0] = np.nan
ROWS = hm.Sequences(ROWS, DATA.sequences.offsets)
RUN = dict(n_states=2, draws=2, warmup=3, chains=2, seed=5, progress=False)
LONG = RUN | dict(warmup=45) # two windows of adaptation
KNOWN = dict(draws=12, warmup=25, chains=2, seed=5, progress=False) # emissions told
known = sys.modules["hmmop_nb.known_gaps"]
USUAL = dict(EARLY=known.EARLY, ACCEPTED=known.ACCEPTED)

def by_turns(enough, hardly):
    "Let moves of tied runs change their kind, which a small problem does not need."
    known.EARLY, known.ACCEPTED = 0, {known.BOTH: enough, known.SHARED: hardly}
    return lambda posterior: posterior

at = dict(uniforms=2, sweep_rng=3) # where a name has its purpose
found = {}
for name, call in json.loads(sys.argv[1]).items():
    for constant, x in USUAL.items(): setattr(known, constant, x)
    for noted in (seen, twice, purposes): noted.clear()
    try: eval(call)
    except Exception as error: found[name] = dict(error=repr(error))
    else:
        purposes |= {int(name[at[name[0]]]) for name in seen}
        found[name] = dict(used=len(seen), twice=twice[:5], purposes=sorted(purposes))
print(json.dumps(found))
"""


@functools.cache
def names_used(tamper="", *only):
    "For each call: how many random numbers it asked for, those it asked for twice, and what for."
    env = os.environ | dict(NUMBA_DISABLE_JIT="1", PYTHONPATH=str(ROOT))
    calls = {name: METHODS[name] for name in only or METHODS}
    done = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(calls), tamper], env=env,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", METHODS)
def test_no_random_number_is_used_twice(name):
    found = names_used()[name]
    assert "error" not in found, found
    assert found["twice"] == [], "kind, key, stream or sweep, ..."
    assert found["used"] > 10 or name in ("em",)


def test_a_number_that_is_used_twice_is_found():
    "A warm start that draws the streams of the chain it serves, as it once did."
    assert names_used("warm start", "matching, exact")["matching, exact"]["twice"]


def test_every_purpose_is_one_that_some_method_has():
    "What nothing asks for is no purpose, and what is not run here has not been looked at."
    from hmmop_nb.engine.random import Stream
    asked = {purpose for found in names_used().values() for purpose in found["purposes"]}
    assert asked == {int(stream) for stream in Stream}


def test_every_stream_has_a_number_of_its_own():
    from hmmop_nb.engine.random import Stream
    assert len({int(stream) for stream in Stream.__members__.values()}) == len(Stream.__members__)
