"""How many states? The sticky prior of `choose_n_states` beside BIC and cross-validation, on data of the paper's size.

    python bench/sticky_states.py [--sets 100] [--judged 30] [--folded 10] [--at-once 1000]

1,500 walks of 80 steps, half of the visits missing, 4 to 10 states in turn, emissions learned. The
constants of the method were settled on sets 0 to 20; the trial begins with set 100. BIC and folds
take longer and see the first sets only; they are asked about the true number and one more or less,
the prior about all numbers up to 15. Writes `nbs/results/sticky_states.csv` after every set. A run that
was stopped, or that ends after `--at-once` sets, goes on where it was, if the code of the method is
still the same; every row names that code.
"""
import argparse
import csv
import hashlib
import inspect
import time
from pathlib import Path

import hmmop_nb as hm
from hmmop_nb.engine import sticky

OUT = Path(__file__).resolve().parents[1] / "nbs" / "results" / "sticky_states.csv"
BEGIN = 100
CODE = hashlib.sha256(inspect.getsource(sticky).encode()).hexdigest()[:12]


def data_set(number):
    "Lists of a chain with 4 to 10 states, and how many."
    S = 4 + number % 7
    chain = hm.degree_chain(S, min(5, S - 1), psi=.5, seed=1000 + number)
    return S, chain.sample(1500, 80, seed=number).sequences


def count(number):
    "One row: what the prior says, and the share of its draws that have the true number."
    S, lists = data_set(number)
    begin = time.process_time()
    found = sticky.count_states(lists, .5, emission="gaussian", seed=number)
    seconds = time.process_time() - begin
    return dict(set=number, states=S, sticky=found.best, share=f"{found.share(S):.2f}", bic="", cv="",
                seconds=f"{seconds:.1f}", first=sticky.FIRST, sweeps=sticky.SWEEPS,
                least=sticky.SHARE, code=CODE, version=hm.__version__)


def chosen_by(number, by):
    "What `choose_n_states` says, of the true number and one more or less."
    S, lists = data_set(number)
    more = dict(folds=2) if by == "cross_validation" else dict(held_out=0)
    return hm.choose_n_states(lists, range(S - 1, S + 2), psi=.5, by=by, restarts=0,
                              seed=number, **more).best


def save(rows):
    "Write the table under a name of its own, then rename it."
    part = OUT.with_suffix(".part")
    with open(part, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(OUT)


def kept_rows():
    "Rows of a run that was stopped, by the same code."
    if not OUT.exists(): return []
    with open(OUT) as file: return [row for row in csv.DictReader(file) if row["code"] == CODE]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100, help="data sets")
    parser.add_argument("--judged", type=int, default=30, help="how many of them BIC sees")
    parser.add_argument("--folded", type=int, default=10, help="how many of them folds see")
    parser.add_argument("--at-once", type=int, default=1000, help="sets to look at in this call")
    args = parser.parse_args()
    rows = kept_rows()
    for number in range(BEGIN + len(rows), BEGIN + min(args.sets, len(rows) + args.at_once)):
        rows.append(count(number))
        save(rows)
        print(*rows[-1].values(), flush=True)
    if len(rows) < args.sets: return
    for row in rows[:args.judged]:
        number = int(row["set"])
        if row["bic"] == "": row["bic"] = chosen_by(number, "bic")
        folded = number < BEGIN + args.folded and row["cv"] == ""
        if folded: row["cv"] = chosen_by(number, "cross_validation")
        save(rows)
        print(*row.values(), flush=True)


if __name__ == "__main__": main()
