"""Long and large: `python bench/long_run.py` writes nbs/results/trust_long.csv.

Memory of the process along 10,000 sweeps of Gaps and of Matching, and one sweep over 1,000,000
sequences of each, begun at the true model: nothing may grow, every number must be finite, and T
must stay where it was.
"""
import csv
import os
import warnings
from functools import partial
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
import numpy as np

import hmmop_nb as hm
from hmmop_nb.gaps import ListSampler
from hmmop_nb.known_gaps import CollapsedSampler

OUT = Path(__file__).resolve().parents[1] / "nbs" / "results" / "trust_long.csv"
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def as_row(run, sweep, sequences, l1=""):
    "A row of the table, with the memory of this moment."
    return dict(run=run, sweep=sweep, sequences=sequences, resident_mb=round(resident(), 2), l1=l1)


def watched(kind, every, rows, name):
    "A `step` that notes the resident memory every so many sweeps."
    step = kind.step

    def noted(self, state, key, sweep, warm):
        if sweep % every == 0: rows.append(as_row(name, sweep, len(self.problem.sequences)))
        return step(self, state, key, sweep, warm)
    return patch.object(kind, "step", noted)


def runs(data, model):
    "The two calls to be watched."
    same = dict(emission=model.emission, chains=1, progress=False, seed=2)
    yield "Gaps", ListSampler, partial(hm.fit_gaps, data.sequences, model.psi, **same)
    yield "Matching", CollapsedSampler, partial(hm.fit_matching, data.sequences, data.n_steps,
                                               psi=model.psi, **same)


def long_rows(sweeps=10_000, every=250):
    "Memory along many sweeps over 60 sequences."
    model, rows = hm.degree_chain(5, 3, psi=.5, seed=0), []
    for name, kind, fit in runs(model.sample(60, 40, seed=1), model):
        with watched(kind, every, rows, name):
            fit(draws=(sweeps - 1000) // 10, thin=10, warmup=1000)
        rows.append(as_row(name, sweeps, 60))
    return rows


def large_rows(sequences=1_000_000, n_steps=24):
    "One sweep over many sequences."
    model = hm.degree_chain(3, 3, psi=.4, seed=0)
    data, rows = model.sample(sequences, n_steps, seed=1), []
    for name, _, fit in runs(data, model):
        fitted = fit(draws=1, warmup=0, init=model)
        assert np.isfinite(fitted.log_density).all() and np.isfinite(fitted.T).all()
        away = float(hm.l1_distance(fitted.T[0, 0], model.T))
        rows.append(as_row(f"{name}, one sweep", 1, sequences, round(away, 6)))
    return rows


def main():
    warnings.simplefilter("error") # surprises are errors here
    rows = long_rows() + large_rows()
    with open(OUT, "w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(f"{OUT.name}: {len(rows)} rows")


if __name__ == "__main__": main()
