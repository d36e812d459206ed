"""How large? Memory and time of an EM step and of a Gibbs sweep, from Parquet files: `python bench/bench_scale.py`.

    --sizes 1e6,1e7,1e8,2.5e8   observations, one row each for an EM step and a sweep
    --dask 1e8                  the same with two worker processes
    --counts 1e9                states that are seen as they are, counted in one pass
    --peers hmmlearn,dynamax    an EM step of theirs, at sizes that grow until one is beyond MOST_MB or MOST_SECONDS
    --peer-python PATH          a Python that has them, and numba, scipy, pyarrow: dynamax wants an environment of its own
    --before COMMAND            put before every row: one that waits for a place on a shared machine
    --alone COMMAND             put before rows that are compared with Dask instead: one that waits for a free machine
    --minutes 600               begin no row after so many minutes
    --folder /tmp/bench_scale   where files are written; --keep leaves them there

Ten states, sequences of 100 observations, Gaussian emissions, keep 0.5. Every row is measured in a process of its own, so that
its peak memory is its own. `seconds` is the median of several passes, `cpu` their processor time. Rows are noted in the folder as they come:
the same command, killed and repeated, goes on with what is missing, but only with the same code and the same options. The table,
nbs/results/scale.csv, holds one run of one version; what it does not reach is not in it.
"""
import argparse
import csv
import hashlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "nbs" / "results" / "scale.csv"
FIELDS = ["what", "observations", "states", "threads", "workers", "seconds", "cpu", "passes", "peak_mb", "bytes", "opened", "note",
          "version", "processor", "stamp", "run"]
LENGTH, CHUNK = 100, 10**6
PEERS, MOST_MB, MOST_SECONDS = ("hmmlearn", "dynamax"), 4500, 300 # bounds of peers
PEER_SIZES = [10**5, 10**6, 10**7, 10**8, 25 * 10**7]


def stamp():
    "A hash of the code of the package and of this file."
    found = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted((ROOT / "hmmop_nb").rglob("*.py")): found.update(path.read_bytes())
    return found.hexdigest()[:12]


def model():
    import hmmop_nb as hm
    return hm.degree_chain(10, 5, psi=.5, scale=.3, seed=0)


def write_one(place, i, states_only):
    "One Parquet file of a million rows of the chain that is seen."
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import hmmop_nb as hm
    true = model()
    emission = hm.Categorical(np.eye(10)) if states_only else true.emission
    seen = hm.HMMOP(hm.thin(true.T, true.psi), hm.thin_start(true.start, true.T, true.psi), emission, 0.)
    rows = CHUNK // LENGTH
    made = seen.sample(rows, LENGTH, seed=i)
    columns = dict(sequence=np.repeat(i * rows + np.arange(rows), LENGTH))
    if states_only: columns["state"] = made.sequences.values.astype(np.int8)
    else: columns["value"] = made.sequences.values
    path = place / f"{i:05d}.parquet"
    pq.write_table(pa.table(columns), path.with_suffix(".part"), row_group_size=CHUNK // 2)
    path.with_suffix(".part").rename(path)


def write(folder, n, states_only=False):
    "A folder with n observations; smaller ones are links to the files of larger ones."
    pool = Path(folder) / ("states" if states_only else "values")
    pool.mkdir(parents=True, exist_ok=True)
    for i in range(n // CHUNK):
        if not (pool / f"{i:05d}.parquet").exists(): write_one(pool, i, states_only)
    place = Path(folder) / f"{pool.name}-{n:d}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for i in range(n // CHUNK): (place / f"{i:05d}.parquet").symlink_to(pool / f"{i:05d}.parquet")
    return place


def timed(run, passes):
    "Median seconds, and processor seconds, of several passes."
    walls, cpus = [], []
    for k in range(passes):
        wall, cpu = time.perf_counter(), time.process_time()
        run(k + 1)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return dict(seconds=sorted(walls)[passes // 2], cpu=sorted(cpus)[passes // 2], passes=passes)


def peak():
    "Peak memory of this process in MB."
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def count(place):
    "Open files, count transitions in one pass, and draw 400 times."
    import numpy as np
    import hmmop_nb as hm
    from hmmop_nb.engine.problem import pose
    wall = time.perf_counter()
    data = hm.in_blocks(place, value="state")
    opened = time.perf_counter() - wall
    known = hm.Categorical(np.eye(10))
    def run(k): return pose(data, emission=known, psi=.5, scale=True)
    found = timed(run, 1) | dict(opened=opened)
    wall = time.perf_counter()
    fitted = hm.fit_gaps(data, .5, emission=known, draws=200, warmup=200, chains=1, seed=1, progress=False)
    after = time.perf_counter() - wall - found["seconds"]
    error = hm.l1_distance(fitted.mean_T, model().T)
    return found | dict(note=f"posterior after the pass {after:.1f} s; L1 {error:.4f}")


def bytes_sent(client, problem, theta):
    "Bytes that a pass moves: theta to each worker, tickets, and sums back."
    from distributed.protocol import serialize
    from hmmop_nb import em
    def size(x): return sum(memoryview(f).nbytes for f in serialize(x)[1])
    sums = next(iter(problem.whole.each(em.sums_observed, problem, theta)))
    return size((em.sums_observed, (theta,))), size(sums)


def measure(what, place, threads, workers, passes):
    "One row, in this process."
    import numba
    import hmmop_nb as hm
    from hmmop_nb import em, known_gaps
    from hmmop_nb.engine.problem import pose
    from hmmop_nb.engine.random import as_key
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    if what == "counts": return count(place) | dict(peak_mb=peak())
    client, true, more = None, model(), {}
    if workers:
        from distributed import Client, LocalCluster
        client = Client(LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None))
    wall = time.perf_counter()
    data = hm.in_blocks(place, client=client)
    more["opened"] = time.perf_counter() - wall
    problem = pose(data, emission="gaussian", n_states=10, psi=.5, init=true, scale=True)
    theta = em.theta_of(true, problem.family.pack(dict(means=true.emission.means, scales=true.emission.scales)))
    key, sampler = as_key(1), None
    if problem.whole is None: sampler = known_gaps.CollapsedSampler("gaps", problem)
    def sweep(k):
        if sampler is None: return known_gaps.all_blocks(problem, theta, key, k, False)
        return [part.read(theta, part.kernel(**part.asked(theta, key, k, False)), key, k) for part in sampler.parts]
    def step(k): return em.expectations(problem, theta)
    run = step if what == "em" else sweep
    run(0) # compile
    def used(): return client.run(lambda: __import__("resource").getrusage(0)).values() if client else []
    def of_workers(): return sum(x.ru_utime + x.ru_stime for x in used())
    before = of_workers()
    found = timed(run, passes) | more | dict(peak_mb=peak())
    if client is not None:
        found["peak_mb"] = found["peak_mb"] + sum(x.ru_maxrss for x in used()) / 1024
        found["cpu"] += (of_workers() - before) / passes
        if problem.whole is None: raise ValueError("--dask: the data are one block; give more than 2^20 observations")
        there, back = bytes_sent(client, problem, theta)
        found["bytes"] = there + len(problem.whole) * back
        found["note"] = f"theta {there} bytes to each worker, sums {back} bytes from each of {len(problem.whole)} blocks"
        client.shutdown()
    return found


def peer(name, place, n):
    "An EM step of another package, with all data in memory."
    import numpy as np
    import pyarrow.parquet as pq
    files = sorted(Path(place).glob("*.parquet"))[:-(-n // CHUNK)]
    X = np.concatenate([pq.read_table(path, columns=["value"])["value"].to_numpy() for path in files])[:n]
    import hmmop_nb as hm
    true = model()
    start, T = hm.thin_start(true.start, true.T, true.psi), hm.thin(true.T, true.psi)
    if name == "hmmlearn":
        from hmmlearn.hmm import GaussianHMM
        lengths = np.full(n // LENGTH, LENGTH)
        def run(k):
            own = GaussianHMM(10, "diag", n_iter=1, init_params="", implementation="scaling")
            own.startprob_, own.transmat_ = start, T
            own.means_, own.covars_ = true.emission.means[:, None], true.emission.scales[:, None]**2
            own.fit(X[:, None], lengths)
    else:
        import jax.numpy as jnp
        from dynamax.hidden_markov_model import DiagonalGaussianHMM
        own, batch = DiagonalGaussianHMM(10, 1), jnp.asarray(X.reshape(-1, LENGTH, 1))
        params, props = own.initialize(initial_probs=jnp.asarray(start), transition_matrix=jnp.asarray(T),
                                       emission_means=jnp.asarray(true.emission.means[:, None]),
                                       emission_scale_diags=jnp.asarray(true.emission.scales[:, None]))
        def run(k): own.fit_em(params, props, batch, num_iters=1, verbose=False)
    if name == "dynamax": run(0) # compile
    return timed(run, 1) | dict(peak_mb=peak())


def in_process(arguments, threads, python=sys.executable, before=()):
    "What a process of its own finds; `None` if it died."
    environment = os.environ | dict(NUMBA_NUM_THREADS=str(threads), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                                    PYTHONPATH=str(ROOT), PYTHONWARNINGS="ignore")
    done = subprocess.run([*before, python, __file__, "--one", *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode: print(done.stderr[-2000:], file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1]) if not done.returncode else None


class Journal:
    "Rows of one run, by what they are; those of other code or other options are forgotten."
    def __init__(self, folder, options):
        self.path, self.head = Path(folder) / "rows.jsonl", dict(stamp=stamp(), options=options)
        Path(folder).mkdir(parents=True, exist_ok=True)
        lines = [json.loads(x) for x in self.path.read_text().splitlines()] if self.path.exists() else []
        if not lines or {k: lines[0][k] for k in self.head} != self.head:
            lines = [self.head | dict(run=time.strftime("%Y-%m-%d %H:%M", time.gmtime()))]
            self.path.write_text(json.dumps(lines[0]) + "\n")
        self.run, self.rows = lines[0]["run"], lines[1:]

    def row(self, what, n, threads, workers, make):
        "A row, from the journal or measured now."
        from hmmop_nb import __version__
        name = dict(what=what, observations=n, states=10, threads=threads, workers=workers)
        for row in self.rows:
            if {k: row[k] for k in name} == name: return row
        begin, found = time.time(), make()
        if found is None: return None
        for k, digits in (("seconds", 4), ("cpu", 4), ("peak_mb", 0), ("opened", 2)):
            if k in found: found[k] = round(found[k], digits) if digits else round(found[k])
        row = name | found | dict(version=__version__, processor=platform.machine(), stamp=self.head["stamp"], run=self.run)
        self.rows.append(row)
        with self.path.open("a") as file: file.write(json.dumps(row) + "\n")
        print(what, f"{n:,}", f"{threads} threads, {workers} workers:", found, f"({time.time() - begin:.0f} s in all)", flush=True)
        return row


def peer_rows(journal, name, folder, *how):
    "A peer at sizes that grow until one is too much."
    small = None
    for n in PEER_SIZES:
        place = write(folder, max(n, CHUNK))
        row = journal.row(name, n, 2, 0, lambda: in_process(["peer", name, place, n], 2, *how))
        if row is None: break # out of memory
        more = PEER_SIZES[min(PEER_SIZES.index(n) + 1, len(PEER_SIZES) - 1)] / n
        mb = (row["peak_mb"] - small["peak_mb"]) * more + small["peak_mb"] if small else 0
        small = small or row # what is there without data
        if mb > MOST_MB or row["seconds"] * more > MOST_SECONDS: break


def order_of(sizes, with_dask, counts, peers):
    "What to measure, one after the other: small sizes first, so that a run that is cut short has most of it."
    most = max(with_dask, default=0)
    def pairs(n, workers): return [(what, n, workers) for what in ("em", "sweep")]
    rows = [x for n in sizes if n <= most for x in pairs(n, 0)] + [x for n in with_dask for x in pairs(n, 2)]
    rows += [(name, 0, 0) for name in peers if name] + [("counts", n, 0) for n in counts]
    return rows + [x for n in sizes if n > most for x in pairs(n, 0)]


def save(rows):
    "Write the table, all or nothing."
    part = OUT.with_name(f".{OUT.name}.part")
    with open(part, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, OUT)


def main():
    if sys.argv[1:2] == ["--one"]:
        what, *rest = sys.argv[2:]
        if what == "peer": found = peer(rest[0], rest[1], int(rest[2]))
        else: found = measure(what, rest[0], *map(int, rest[1:]))
        return print(json.dumps(found))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1e6,1e7,1e8,2.5e8")
    parser.add_argument("--dask", default="1e8")
    parser.add_argument("--counts", default="1e8,1e9")
    parser.add_argument("--peers", default="hmmlearn,dynamax")
    parser.add_argument("--peer-python", default=sys.executable)
    for name in ("--before", "--alone"): parser.add_argument(name, default="")
    parser.add_argument("--folder", default="/tmp/bench_scale")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    def numbers(text): return [int(float(x)) for x in text.split(",") if x]
    journal = Journal(asked.folder, {k: x for k, x in vars(asked).items() if k not in ("folder", "keep", "peer_python", "before", "alone", "minutes")})
    threads, begin, with_dask = asked.threads, time.time(), numbers(asked.dask)
    for what, n, workers in order_of(numbers(asked.sizes), with_dask, numbers(asked.counts), asked.peers.split(",")):
        if (time.time() - begin) / 60 > asked.minutes: break
        if what in PEERS: peer_rows(journal, what, asked.folder, asked.peer_python, asked.before.split())
        else:
            place = write(asked.folder, n, states_only=what == "counts")
            before = (asked.alone if n in with_dask and what != "counts" else asked.before).split()
            how = [what, place, threads, workers, 3]
            journal.row(what, n, threads, workers, lambda: in_process(how, threads, before=before))
        save(journal.rows)
    print(f"{len(journal.rows)} rows, {(time.time() - begin) / 60:.1f} minutes")
    if not asked.keep: shutil.rmtree(asked.folder)


if __name__ == "__main__": main()
