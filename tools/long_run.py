"""Long and large runs: does memory grow over 10,000 sweeps, and what do a million sequences cost?

    python tools/long_run.py          writes nbs/results/trust_long.csv; takes some minutes

Every measurement has a process of its own. The repository's tests do not run this; the page "How we know it is right" shows the file.
"""
import csv
import io
import multiprocessing
import resource
import sys
from pathlib import Path

import numba

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import hmmop_nb as hm
from hmmop_nb.model import write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "nbs" / "results"
SMALL = hm.degree_chain(4, 3, psi=.4, scale=.3, seed=0).sample(30, 15, seed=1)
FITS = {"known": lambda data, **run: hm.fit_known(data.sequences, data.positions, data.n_steps, **run), "naive": lambda data, **run: hm.fit_naive(data.sequences, **run),
        "matching, exact": lambda data, **run: hm.fit_matching(data.sequences, data.n_steps, **run),
        "matching, gibbs": lambda data, **run: hm.fit_matching(data.sequences, data.n_steps, placement="gibbs", inner=3, **run),
        "gaps, collapsed": lambda data, **run: hm.fit_gaps(data.sequences, .4, leaps=16, **run), "gaps, augmented": lambda data, **run: hm.fit_gaps(data.sequences, .4, variant="augmented", **run)}


def resident():
    "Memory in use, in MB."
    with open("/proc/self/statm") as file: return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def sweeps(name):
    "Memory after a thousand sweeps and after ten thousand more, on one thread."
    numba.set_num_threads(1)
    run = dict(n_states=4, draws=10, warmup=0, chains=1, progress=False)
    FITS[name](SMALL, **run, thin=100, seed=1)
    before = resident()
    FITS[name](SMALL, **run, thin=1000, seed=2)
    return dict(run="10,000 sweeps", method=name, before_MB=round(before, 1), after_MB=round(resident(), 1), peak_MB="", L1="")


def million(name):
    "A short run on a million sequences: memory with the data alone, peak memory, and the error of the result."
    model = hm.degree_chain(5, 3, psi=.4, seed=0)
    data = model.sample(1_000_000, 8, seed=1)
    before = resident()
    fit = FITS[name](data, emission=model.emission, draws=4, warmup=6, chains=1, seed=1, progress=False)
    truth = hm.thin(model.T, .4) if name == "naive" else model.T
    return dict(run="1,000,000 sequences", method=name, before_MB=round(before), after_MB=round(resident()), peak_MB=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), L1=f"{hm.l1_distance(fit.mean_T, truth):.4f}")


def main():
    context, rows = multiprocessing.get_context("spawn"), []
    for measure, names in ((sweeps, list(FITS)), (million, ["naive", "known", "matching, exact", "gaps, collapsed"])):
        for name in names:
            with context.Pool(1) as pool: rows.append(pool.apply(measure, (name,)))
            print(rows[-1], flush=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(RESULTS / "trust_long.csv", lambda file: file.write(text.getvalue().encode()))


if __name__ == "__main__": main()
