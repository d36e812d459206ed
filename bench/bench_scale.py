"""How large? Memory and time of an EM step and of a Gibbs sweep, from Parquet files.

    python bench/bench_scale.py [--sizes 1e6,1e7] [--folder FOLDER] [--threads 2] [--dask 1e7] [--counts 1e8]

Ten states, sequences of 100 observations, Gaussian emissions, keep 0.5. Files are written once to the folder (about 8.5 bytes
an observation) and kept there. Every row is measured in a process of its own, so that its peak memory is its own. Rows go to
nbs/results/bench_scale.csv: what was measured, observations, seconds (the median of several passes), peak memory in MB, and a
stamp of the code that was run.
"""
import argparse
import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "nbs" / "results" / "bench_scale.csv"
FIELDS = ["what", "observations", "states", "threads", "workers", "seconds", "passes", "peak_mb", "version", "stamp"]
LENGTH, CHUNK = 100, 10**6


def stamp():
    "A hash of the code of the package."
    found = hashlib.sha256()
    for path in sorted((ROOT / "hmmop_nb").rglob("*.py")): found.update(path.read_bytes())
    return found.hexdigest()[:12]


def model():
    import hmmop_nb as hm
    return hm.degree_chain(10, 5, psi=.5, scale=.3, seed=0)


def write(folder, n):
    "Parquet files of n observations of the chain that is seen, a million rows each, unless they are there."
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import hmmop_nb as hm
    place = Path(folder) / f"{n:d}"
    if (place / "done").exists(): return place
    place.mkdir(parents=True, exist_ok=True)
    true = model()
    seen = hm.HMMOP(hm.thin(true.T, true.psi), hm.thin_start(true.start, true.T, true.psi), true.emission, 0.)
    for i, begin in enumerate(range(0, n, CHUNK)):
        rows = min(CHUNK, n - begin)
        made = seen.sample(rows // LENGTH, LENGTH, seed=i)
        states = np.concatenate(list(made.states)).astype(np.int8)
        names = np.repeat(begin // LENGTH + np.arange(rows // LENGTH), LENGTH)
        pq.write_table(pa.table(dict(sequence=names, value=made.sequences.values, state=states)),
                       place / f"{i:05d}.parquet", row_group_size=CHUNK // 2)
    (place / "done").touch()
    return place


def measure(what, place, threads, workers, passes):
    "One row, in this process."
    import numba
    import numpy as np
    import hmmop_nb as hm
    from hmmop_nb import em, known_gaps
    from hmmop_nb.engine.problem import pose
    from hmmop_nb.engine.random import as_key
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    client, true = None, model()
    if workers:
        from distributed import Client, LocalCluster
        client = Client(LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None))
    times = []
    if what == "counts":
        begin = time.perf_counter()
        data = hm.in_blocks(place, value="state", client=client)
        found = hm.fit_gaps(data, .5, emission=hm.Categorical(np.eye(10)), draws=200, warmup=200, chains=1, seed=1, progress=False)
        times.append(time.perf_counter() - begin)
        assert hm.l1_distance(found.mean_T, true.T) < 1
    else:
        data = hm.in_blocks(place, client=client)
        problem = pose(data, emission="gaussian", n_states=10, psi=.5, init=true, scale=True)
        theta = em.theta_of(true, problem.family.pack(dict(means=true.emission.means, scales=true.emission.scales)))
        key = as_key(1)
        if problem.whole is None: sampler = known_gaps.CollapsedSampler("gaps", problem)
        def sweep(k):
            if problem.whole is not None: return known_gaps.all_blocks(problem, theta, key, k, False)
            return [part.read(theta, part.kernel(**part.asked(theta, key, k, False)), key, k) for part in sampler.parts]
        run = (lambda k: em.expectations(problem, theta)) if what == "em" else sweep
        run(0) # compile, and fill the cache of the file system as far as it goes
        for k in range(passes):
            begin = time.perf_counter()
            run(k + 1)
            times.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if client is not None:
        peak += sum(client.run(lambda: __import__("resource").getrusage(0).ru_maxrss).values())
        client.shutdown()
    print(json.dumps(dict(seconds=sorted(times)[len(times) // 2], passes=len(times), peak_mb=round(peak / 1024))))


def row(what, place, n, threads, workers, passes=3):
    "One row, from a process of its own."
    from hmmop_nb import __version__
    code = [sys.executable, __file__, "--one", what, str(place), str(threads), str(workers), str(passes)]
    environment = os.environ | dict(NUMBA_NUM_THREADS=str(threads), OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    found = json.loads(subprocess.run(code, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()[-1])
    print(what, n, threads, workers, found, flush=True)
    return dict(what=what, observations=n, states=10, threads=threads, workers=workers, version=__version__, stamp=stamp()) | found


def main():
    if sys.argv[1:2] == ["--one"]:
        what, place, *numbers = sys.argv[2:]
        return measure(what, place, *map(int, numbers))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--folder", default="/tmp/bench_scale")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dask", default="1e7")
    parser.add_argument("--counts", default="1e7")
    asked = parser.parse_args()
    def numbers(text): return [int(float(x)) for x in text.split(",") if x]
    rows = []
    for n in numbers(asked.sizes):
        place = write(asked.folder, n)
        for what in ("em", "sweep"): rows.append(row(what, place, n, asked.threads, 0))
    for n in numbers(asked.dask):
        place = write(asked.folder, n)
        for what in ("em", "sweep"): rows.append(row(what, place, n, asked.threads, asked.threads))
    for n in numbers(asked.counts): rows.append(row("counts", write(asked.folder, n), n, asked.threads, 0))
    part = OUT.with_name(f".{OUT.name}.part")
    with open(part, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, OUT)


if __name__ == "__main__": main()
