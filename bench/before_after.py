"""Compare the speed of two source trees in one run: `bench/before_after.py BEFORE AFTER [--save]`.

Three questions, each answered by short processes that take turns, so that a busy machine hits both:
the processor time of one sweep once everything is compiled, that of the first call when nothing is,
and that of the import beside what it stands on. Only public calls are made, which both trees have.
Of the first call of Gaps it is also told which kernels its time goes to, and how much of it is LLVM's.
With `--save` the table goes to nbs/results/bench_house.csv.

Known and Matching have had another default since version 0.1.0, whose sweep does other things. Where a
tree knows `variant="augmented"`, it is asked for: that is the sampler which both of them have.
"""
import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "nbs" / "results" / "bench_house.csv"
WHAT = {
    "naive": "a sweep of Naive", "known": "a sweep of augmented Known",
    "gaps": "a sweep of collapsed Gaps", "matching": "a sweep of augmented Matching",
    "naive learned": "a sweep of Naive, emissions learned",
    "known learned": "a sweep of augmented Known, emissions learned",
    "gaps learned": "a sweep of collapsed Gaps, emissions learned",
    "matching learned": "a sweep of augmented Matching, emissions learned",
    "naive words": "a sweep of Naive, 40 symbols learned",
    "gaps words": "a sweep of collapsed Gaps, 40 symbols learned",
    "em": "a pass of EM, emissions learned", "sample": "1,000 simulated sequences",
}
NAMES = tuple(WHAT)
GROUND = "import numpy, scipy.special, numba"

CHILD = """
import collections, inspect, json, sys, time, warnings
warnings.simplefilter("ignore")
name, question, tree = sys.argv[1:4]
method, _, learned = name.partition(" ")
import numpy as np
import hmmop_nb as hm
from numba.core import event
assert hm.__file__.startswith(tree), hm.__file__

model = hm.degree_chain(10, 5, psi=.5, scale=.3, seed=0)
if learned == "words":
    probs = np.random.default_rng(3).dirichlet(np.full(40, .1), 10)
    model = hm.HMMOP(model.T, model.start, hm.Categorical(probs), .5)
SIZE = {"first": 20, "steady": 400}[question]
UNITS = {"naive": (10, 110), "known": (10, 60), "gaps": (20, 320), "matching": (4, 24),
         "em": (4, 16), "sample": (1, 11)}[method]
data = None if name == "sample" else model.sample(SIZE, 80, seed=1)
run = dict(warmup=2, chains=1, seed=2, progress=False, emission=model.emission)
if learned: # both trees begin at the model, so that neither has to look for a start
    kind = "categorical" if learned == "words" else "gaussian"
    run |= dict(emission=kind, n_states=10, init=model)

def as_before(fit):
    "The sampler that both trees have."
    return dict(variant="augmented") if "variant" in inspect.signature(fit).parameters else {}

def call(n):
    "Do about so many sweeps, passes or thousands of sequences, and say how many they were."
    if method == "naive": hm.fit_naive(data.sequences, draws=n, **run)
    if method == "known":
        hm.fit_known(data.sequences, data.positions, data.n_steps, draws=n, **run, **as_before(hm.fit_known))
    if method == "gaps": hm.fit_gaps(data.sequences, .5, leaps=16, draws=n, **run)
    if method == "matching":
        hm.fit_matching(data.sequences, data.n_steps, draws=n, **run, **as_before(hm.fit_matching))
    if method == "sample": model.sample(n * 1000 if question == "steady" else 20, 80, seed=1)
    if method != "em": return n
    near = hm.Gaussian(model.emission.means + .2, .5)
    init = hm.HMMOP(.5 * model.T + .05, model.start, near, .5) # the same way up in both trees
    point = hm.fit_em(data.sequences, psi=.5, n_states=10, init=init, max_iter=n)
    return point.info["iterations"]

class Kernels(event.Listener):
    "Seconds that each kernel takes to compile, without the kernels that it calls."
    def __init__(self): self.under_way, self.own = [], collections.Counter()
    def on_start(self, now): self.under_way.append([time.process_time(), 0.])
    def on_end(self, now):
        begin, inside = self.under_way.pop()
        took = time.process_time() - begin
        self.own[now.data["dispatcher"].py_func.__qualname__] += took - inside
        if self.under_way: self.under_way[-1][1] += took

class InLLVM(event.Listener):
    "Seconds inside LLVM, whose lock may be taken again by who has it."
    depth, seconds, begin = 0, 0., 0.
    def on_start(self, now):
        if not self.depth: self.begin = time.process_time()
        self.depth += 1
    def on_end(self, now):
        self.depth -= 1
        if not self.depth: self.seconds += time.process_time() - self.begin

kernels, in_llvm = Kernels(), InLLVM()
if question == "first":
    event.register("numba:compile", kernels)
    event.register("numba:llvm_lock", in_llvm)

def timed(n):
    begin = time.process_time()
    done = call(n)
    return time.process_time() - begin, done

first, _ = timed(UNITS[0])
again, few = timed(UNITS[0])
found = dict(version=hm.__version__, first=first - again, llvm=in_llvm.seconds,
             kernels=dict(kernels.own.most_common(6)))
if question == "steady":
    turns = [(timed(UNITS[0]), timed(UNITS[1])) for _ in range(3)]
    found |= dict(few=few, many=turns[0][1][1], short=min(a for (a, _), _ in turns),
                  long=min(b for _, (b, _) in turns))
print(json.dumps(found))
"""

IMPORT = "import time; t = time.process_time(); {}; print(time.process_time() - t)"


class Tree:
    "A source tree, with caches of its own."

    def __init__(self, path, how, folder):
        self.path, self.how, self.version = Path(path).resolve(), how, ""
        if not (self.path / "hmmop_nb" / "__init__.py").exists():
            raise SystemExit(f"{path}: there is no hmmop_nb in it; give the top folder of a tree")
        self.folder = Path(folder) / how
        self.empty = 0

    def run(self, *arguments, fresh=False):
        "What a process says that sees only this tree; with `fresh` nothing is compiled yet."
        cache = self.folder / "numba"
        if fresh:
            self.empty += 1
            cache = self.folder / f"empty-{self.empty}"
        env = os.environ | dict(
            PYTHONPATH=str(self.path), NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1", NUMBA_CACHE_DIR=str(cache),
            PYTHONPYCACHEPREFIX=str(self.folder / "pyc"))
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run([sys.executable, "-c", *arguments], env=env, cwd=self.folder.parent,
                              capture_output=True, text=True)
        if done.returncode: raise RuntimeError(f"{self.path}: {done.stderr.strip()[-500:]}")
        return done.stdout.splitlines()[-1]

    def ask(self, name, question, fresh=False):
        "What the child finds out about one method."
        found = json.loads(self.run(CHILD, name, question, str(self.path), fresh=fresh))
        self.version = found["version"]
        return found


def steady(trees, name, rounds):
    "Least processor seconds of one unit in each tree."
    for tree in trees: tree.ask(name, "steady") # compiles
    short = dict.fromkeys(trees, float("inf"))
    long, units = dict(short), {}
    for turn in range(rounds):
        for tree in trees if turn % 2 else trees[::-1]:
            found = tree.ask(name, "steady")
            short[tree] = min(short[tree], found["short"])
            long[tree] = min(long[tree], found["long"])
            units[tree] = found["many"] - found["few"]
    return {tree: (long[tree] - short[tree]) / units[tree] for tree in trees}


def first_call(trees, name, rounds):
    "What the child says of the first call in which compiling took the fewest processor seconds."
    told = {tree: [] for tree in trees}
    for _ in range(rounds):
        for tree in trees: told[tree].append(tree.ask(name, "first", fresh=True))
    return {tree: min(found, key=lambda x: x["first"]) for tree, found in told.items()}


def parts_of(told):
    "Rows about what the first call of Gaps is made of."
    found = []
    for tree, said in told.items():
        parts = {"LLVM": said["llvm"]} | {f"kernel {name}": x for name, x in said["kernels"].items()}
        print(f"  {tree.how}: " + ", ".join(f"{name} {x:.2f}" for name, x in parts.items()))
        found += [dict(what=f"first call of Gaps: {name}", how=tree.how, seconds=x, version=tree.version)
                  for name, x in parts.items()]
    return found


def imports(trees, rounds):
    "Least processor seconds of importing each tree, and of what both stand on."
    times = {tree: [] for tree in trees}
    ground = []
    for turn in range(rounds + 1):
        for tree in trees:
            ours = float(tree.run(IMPORT.format("import hmmop_nb")))
            below = float(tree.run(IMPORT.format(GROUND)))
            if not turn: continue # writes the bytecode
            times[tree].append(ours)
            ground.append(below)
    return {tree: min(seconds) for tree, seconds in times.items()}, min(ground)


def measure(trees, names, rounds):
    "All rows; one line of the table is printed as soon as it is known."
    before, after = trees
    def rows(what, seconds):
        ratio = seconds[after] / seconds[before]
        print(f"{what:<54}{seconds[before]:10.4f}{seconds[after]:10.4f}{ratio:8.2f}", flush=True)
        return [dict(what=what, how=tree.how, seconds=seconds[tree], version=tree.version)
                for tree in trees]
    print(f"{'processor seconds':<54}{'before':>10}{'after':>10}{'ratio':>8}")
    found = []
    for name in names: found += rows(WHAT[name], steady(trees, name, rounds))
    for name in names:
        told = first_call(trees, name, max(1, rounds // 3))
        found += rows(f"compiling for {WHAT[name]}", {tree: x["first"] for tree, x in told.items()})
        if name == "gaps learned": found += parts_of(told)
    seconds, ground = imports(trees, rounds)
    found += rows("import hmmop_nb", seconds)
    found.append(dict(what="import hmmop_nb", how=GROUND, seconds=ground, version=""))
    print(f"{GROUND:<54}{ground:10.4f}{ground:10.4f}")
    print(f"{'import hmmop_nb over that':<54}"
          f"{seconds[before] / ground:10.2f}{seconds[after] / ground:10.2f}")
    return found


def save(rows):
    "Write the table, all or nothing."
    part = OUT.with_name(f".{OUT.stem}.part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["what", "how", "seconds", "version", "processor"])
        writer.writeheader()
        for row in rows:
            told = dict(seconds=f"{row['seconds']:.4g}", processor=platform.machine())
            writer.writerow(row | told)
    part.replace(OUT)
    print(f"written: {OUT}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="top folder of the older source tree")
    parser.add_argument("after", help="top folder of the newer one")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="some methods only")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each tree and method")
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = Tree(args.before, "before", folder), Tree(args.after, "after", folder)
        rows = measure(trees, args.only, args.rounds)
    if args.save: save(rows)


if __name__ == "__main__": main()
