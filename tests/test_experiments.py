"""The saved experiments are complete, and a small slice of each, run anew, says the same."""
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numba
import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.experiments import (
    BEYOND, CLAIMS, COUNTED, EXPERIMENTS, FORMAT, current_rows, judge, pick, place_of, raw_rows,
    read_results, read_rows, results_path, run_cell, run_of, seal_of, write_rows, worst_entry
)

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "nbs" / "results" / "experiments"


# Tables that the present code has not made: they are older, or not run yet. A table leaves this set
# when `make experiments` has made it, and comes back when code that it reaches is changed.
OLDER = {"placements", "wrong-psi", "varying-psi", "bursty", "ignorable", "nonignorable", "printed",
         "leak", "places"}
# how tables were made before rows had stamps: seeds, and the digest of their settings
FIRST_FORMAT = {"placements": (5, "8a63c03f01"), "wrong-psi": (10, "18604c3b34"), "varying-psi": (5, "53b120fe31"),
                "bursty": (5, "e64d66fcec"), "ignorable": (5, "8411558d65"), "nonignorable": (5, "e5812973a8"),
                "printed": (5, "a72f39cfd1"), "leak": (5, "43a85ff077")}
SAVED = [name for name in EXPERIMENTS if results_path(name, FOLDER).exists()]


def test_every_table_was_run_but_those_that_wait():
    assert set(EXPERIMENTS) - set(SAVED) <= {"places"} & OLDER


@pytest.mark.parametrize("name", SAVED)
def test_saved_results_are_complete(name):
    experiment, rows = EXPERIMENTS[name], read_results(name, FOLDER)
    assert all(0 <= row[l1] <= 2 for row in rows for l1 in ("l1_mean", "l1_last"))
    assert {row["n_sequences"] for row in rows} == {1500.}
    assert {row["n_steps"] for row in rows} == {80.}
    found = sorted((*place_of(row), *run_of(row)) for row in rows)
    if rows[0]["format"] == 1:
        seeds, recipe = FIRST_FORMAT[name]
        assert {row["recipe"] for row in rows} == {recipe}
        chains = [chain for chain in experiment.chains if chain not in BEYOND]
        runs = [run for run in experiment.runs if run[0] != "em, bursts"]
        wanted = product(chains, experiment.values, range(seeds), runs)
        assert found == sorted((chain, value, seed, *run) for chain, value, seed, run in wanted)
        return
    assert {row["format"] for row in rows} == {FORMAT}
    assert found == sorted((*cell, *run) for cell in experiment.cells() for run in experiment.runs)
    codes = {}
    for row in raw_rows(results_path(name, FOLDER)):
        assert row["seal"] == seal_of(row), f"changed after its run: {place_of(row)}, {run_of(row)}"
        codes.setdefault((row["method"], row["told"], row["chain"]), set()).add(row["code"])
        for column, wanted in experiment.settings(row["method"]).items():
            assert row[column] == str(wanted), (column, place_of(row), run_of(row))
    assert {len(found) for found in codes.values()} == {1} # no method by two versions


def test_tables_are_by_the_present_code():
    "`make experiments` makes what is listed; then take it out of `OLDER`."
    def is_older(name):
        experiment = EXPERIMENTS[name]
        current = current_rows(experiment, results_path(name, FOLDER))
        return len(current) < len(experiment.cells()) * len(experiment.runs)
    assert {name for name in EXPERIMENTS if is_older(name)} == OLDER


def test_a_row_that_is_changed_or_stamped_anew_is_not_current(tmp_path):
    "Whoever types a number, moves a row, or puts the present stamp on an old row, is found out."
    experiment = replace(EXPERIMENTS["leak"], n_sequences=20, values=(.5,), seeds=1)
    rows = [{key: str(x) for key, x in row.items()}
            for row in run_cell(experiment, "multipartite, leak", .5, 0)]
    def current(changed):
        path = tmp_path / "leak.csv"
        write_rows(path, changed)
        return len(current_rows(experiment, path))
    assert current(rows) == 3
    naive, *others = rows
    for change in (dict(l1_mean="0.01"), dict(rhat="1.0"), dict(draws="9"), dict(seed="1")):
        assert current([naive | change, *others]) == 2, change
    of_known = rows[2]["code"]
    forged = naive | dict(code=of_known)
    assert current([forged | dict(seal=seal_of(forged)), *others]) == 2
    from hmmop_nb.experiments import METHODS
    kept = METHODS["naive"]
    METHODS["naive"] = lambda cell, run, psi=None: kept(cell, run, psi)[:, 1:]
    try: assert current(rows) == 2 # Naive is another method now
    finally: METHODS["naive"] = kept


def test_counted_chains_are_what_the_data_say():
    "The shipped counts are those of the tutorials' data."
    def counts(lists, names):
        table = {name: [0] * (len(names) + 1) for name in names}
        for walk in lists:
            table[walk[0]][0] += 1
            for a, b in zip(walk, walk[1:]): table[a][1 + names.index(b)] += 1
        return [[name, *map(str, row)] for name, row in table.items()]
    data = ROOT / "nbs" / "tutorials" / "data"
    activities = dict(e="employment", f="further education", h="higher education",
                      j="joblessness", s="school", t="training")
    months = [[activities[x] for x in row["career"]] for row in raw_rows(data / "mvad.csv")]
    requests = [row["trace"].split() for row in raw_rows(data / "receipt.csv")]
    tasks = [task for request in requests for task in request]
    often = sorted(task for task in set(tasks) if tasks.count(task) >= 30)
    log = [[task if task in often else "other" for task in tasks]] # one request after the other
    wanted = {"careers": counts(months, list(activities.values())),
              "event log": counts(log, [*often, "other"])}
    for name, file in COUNTED.items():
        lines = (ROOT / "hmmop_nb" / "data" / file).read_text().splitlines()
        assert [line.split(",") for line in lines[1:]] == wanted[name], name


FOUR = ("degree 3", "degree 5", "multipartite", "part of speech")
CYCLIC = ("degree 3", "degree 5", "cyclic", "part of speech")
TWO = ("degree 5", "cyclic")
LABELLED = ("degree 3", "degree 5", "multipartite", "multipartite, leak")
KEEPS = (.2, .35, .5, .65, .8, .9)
SEEDS = range(5)
LABELLERS = ("full sentence", "known W", "emissions only", "Naive", "paper", "exact argmax",
             "probabilities")
VARIANTS = product(("collapsed", "augmented", "paper"), ("flat", "sparse"))
GAPS_STUDY = ("naive", "analytic", "known", "em", "zeros told", "gaps", "gaps, median",
              "gaps, sparse", "gaps, sparse, median",
              *(f"fit_gaps, {variant}, {prior}" for variant, prior in VARIANTS))
TABLES = { # of notebooks: the columns that name a row, and the rows that must be there
    "experiments/convergence.csv": (
        ("chain", "seed", "iteration"),
        product(TWO, SEEDS, range(31))),
    "matching_convergence.csv": (
        ("chain", "seed", "placement", "inner", "iteration"),
        product(TWO, SEEDS, ("paper",), (30, 100, 300), range(31))),
    "matching_recovery.csv": (
        ("chain", "seed", "placement", "iteration"),
        product(CYCLIC, SEEDS, ("exact", "gibbs", "paper"), (1, 5, 10, 25))),
    "psi_imputation.csv": (
        ("chain", "share", "seed", "method", "imputation"),
        product(FOUR, (.3, .6, .9), SEEDS, ("matching", "gaps, flat", "gaps, sparse"),
                ("sampling", "random"))),
    "labelling.csv": (
        ("chain", "sigma", "seed", "labeller"),
        product(LABELLED, (.5, .75, 1), SEEDS, LABELLERS)),
    "gaps_study.csv": (
        ("chain", "keep", "seed", "method"),
        product(FOUR, KEEPS, SEEDS, GAPS_STUDY)),
    "em_recovery.csv": (
        ("chain", "keep", "seed", "method"),
        product(FOUR, KEEPS, SEEDS, ("naive", "analytic", "em", "known"))),
    "gaps_long.csv": (("chain", "prior"), product(FOUR, ("flat", "sparse"))),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_notebooks_are_complete(name):
    keys, wanted = TABLES[name]
    found = [tuple(row[key] for key in keys) for row in read_rows(FOLDER.parent / name)]
    assert not set(wanted) - set(found) and len(found) == len(set(found))


def test_every_claim_has_a_page_and_every_page_a_verdict():
    pages = {path.stem for path in (ROOT / "nbs" / "experiments").glob("*.ipynb")}
    beyond = {"time-stamps", "pictures"} # what the paper does not ask, and what it only draws
    assert pages - {"index", "summary"} - beyond == {page for page, *_ in CLAIMS}
    for finding in judge(folder=FOLDER):
        assert 0 <= finding.holds <= finding.of and finding.of > 0 and finding.effect
        assert (finding.verdict == "confirmed") == (finding.holds == finding.of), finding.claim


@pytest.fixture(scope="module")
def errors():
    "Error by (method, told) of a few cells of an experiment at a fifth of the data, averaged."
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    def run(name, value, chain="degree 3", seeds=(0, 1), leave_out=()):
        runs = tuple(run for run in EXPERIMENTS[name].runs if run[0] not in leave_out)
        small = replace(EXPERIMENTS[name], n_sequences=300, runs=runs)
        found = {run: [] for run in runs}
        for seed in seeds:
            for row in run_cell(small, chain, value, seed):
                found[row["method"], row["told"]].append(float(row["l1_mean"]))
        return {run: np.mean(l1) for run, l1 in found.items()}
    yield run
    numba.set_num_threads(threads)


def test_slice_of_ignorable(errors):
    e = {method: x for (method, _), x in errors("ignorable", .5).items()}
    assert e["naive"] > .5 and e["random"] > .5 # ignoring the gaps is poor
    for method in ("analytic", "gaps", "gaps, sparse", "em", "matching"):
        assert e[method] < .5 * e["naive"], method
    assert e["known"] < e["gaps"] # known places tell more
    assert e["gaps, sparse"] < .8 * e["gaps"] # a sparse prior makes up for much of it


def test_slice_of_printed(errors):
    e = errors("printed", .5, seeds=(0,))
    # after 80 iterations Matching is still far away
    assert e["gaps, printed", "truth"] < .7 * e["matching, printed", "truth"]


def test_slice_of_leak(errors):
    e = errors("leak", .8, "multipartite, leak", (0,))
    assert .25 < e["naive", "truth"] < .7 # not 1.6


def test_slice_of_placements(errors):
    e = {told: x for (_, told), x in errors("placements", .5).items()}
    assert .7 < e["equivalent"] / e["true"] < 1.4
    assert e["consecutive"] > 1.5 * e["true"] and e["random"] > 5 * e["true"]


def test_slice_of_wrong_psi(errors):
    slices = (errors("wrong-psi", told, leave_out=("gaps, sparse",)) for told in (.5, .35, .75))
    right, wrong, high = slices
    assert right["gaps", "guess"] < .3 * right["naive", "truth"]
    assert right["gaps", "guess"] < high["gaps", "guess"] < high["naive", "truth"]
    assert right["gaps", "guess"] < wrong["gaps", "guess"]


def test_slice_of_varying_psi(errors):
    leave_out = ("gaps, sparse", "known", "matching")
    little, much = (errors("varying-psi", sd, leave_out=leave_out) for sd in (.05, .3))
    assert much["naive", "mean"] < little["naive", "mean"] # well-recorded sequences help Naive
    assert much["gaps", "mean"] < much["naive", "mean"]
    assert little["gaps", "mean"] < .5 * little["naive", "mean"]


def test_lengths_tell_what_each_sequence_lost():
    "Matching under one psi does not settle on such data in short runs, so a psi for each sequence is learned."
    model = hm.degree_chain(10, 3, psi=.5, seed=0)
    data = model.sample(300, 80, seed=3, omission=hm.PerSequenceOmission(.5, .3))
    run = dict(emission=model.emission, chains=2, warmup=100, draws=150, seed=0, progress=False)
    learned = hm.fit_matching(data.sequences, 80, omission=hm.PerSequenceOmission(np.nan, np.nan), **run)
    told = hm.fit_gaps(data.sequences, .5, **run)
    assert worst_entry(learned.T)[0] < 1.2
    assert hm.l1_distance(learned.mean_T, model.T) < .8 * hm.l1_distance(told.mean_T, model.T)


def test_slice_of_bursty(errors):
    leave_out = ("gaps, sparse", "known")
    little, much = (errors("bursty", memory, leave_out=leave_out) for memory in (.05, .35))
    assert much["naive", "mean"] < little["naive", "mean"] # bursts help Naive
    share, before = (e["gaps", "mean"] / e["naive", "mean"] for e in (much, little))
    assert share > 1.5 * before # and hurt the sampler
    assert much["gaps", "mean"] < .9 * much["analytic", "mean"] # but the semi-analytic method more


def test_slice_of_nonignorable(errors):
    e = errors("nonignorable", .4)
    for method in ("gaps", "gaps, sparse", "matching", "analytic"):
        assert e[method, "truth"] < .5 * e["naive", "truth"], method
    assert e["gaps", "share"] > 1.4 * e["gaps", "truth"]
    assert e["known", "share"] > 1.5 * e["known", "truth"]
    assert e["matching", "nothing"] > 1.4 * e["matching", "truth"]


def test_saved_cell_is_reproduced():
    "The same seed gives the saved numbers, at full size; other samplers gave nearly the same."
    name = "wrong-psi"
    experiment = replace(EXPERIMENTS[name], runs=(("naive", "truth"), ("gaps", "guess")))
    saved = [row for row in read_results(name, FOLDER) if place_of(row) == ("degree 3", .5, 0)]
    for row in run_cell(experiment, "degree 3", .5, 0):
        before = pick(saved, method=row["method"], told=row["told"])[0]
        assert abs(float(row["l1_mean"]) - before) < .01, row["method"]


def command(*args, out):
    return [sys.executable, "-m", "hmmop_nb.experiments", *args, "--out", str(out)]


def listen_to_ctrl_c(): signal.signal(signal.SIGINT, signal.default_int_handler)


def test_command_stops_and_goes_on(tmp_path):
    "Interrupted, the command keeps what is finished; the same command completes it."
    env = os.environ | dict(PYTHONPATH=str(ROOT))
    path, part = (results_path("leak", tmp_path, quick=True, part=part) for part in (False, True))
    run = subprocess.Popen(
        command("leak", "--quick", "--workers", "2", out=tmp_path), env=env,
        stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=listen_to_ctrl_c)
    until = time.monotonic() + 120
    while not part.exists() and run.poll() is None and time.monotonic() < until: time.sleep(.05)
    if run.poll() is None: os.killpg(run.pid, signal.SIGINT) # as Ctrl-C does
    assert run.wait(60) in (0, 130)
    before = raw_rows(part if part.exists() else path)
    assert before
    again = command("leak", "--quick", "--figures", "--workers", "1", out=tmp_path)
    done = subprocess.run(again, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert path.with_suffix(".png").stat().st_size > 5000
    assert not part.exists()
    after = raw_rows(path)
    assert {place_of(row) for row in after} == set(EXPERIMENTS["leak"].quick().cells())
    kept = {(place_of(row), run_of(row)) for row in before}
    assert [row for row in after if (place_of(row), run_of(row)) in kept] == before


def test_command_lists_and_refuses(tmp_path):
    run = dict(env=os.environ | dict(PYTHONPATH=str(ROOT)), capture_output=True, text=True)
    listed = subprocess.run(command("list", out=tmp_path), **run)
    assert listed.returncode == 0 and all(name in listed.stdout for name in EXPERIMENTS)
    assert "Warning" not in listed.stderr
    refused = subprocess.run(command("nothing", out=tmp_path), **run)
    assert refused.returncode == 2 and "'nothing' is not an experiment" in refused.stderr


def test_tables_of_slow_pages_are_as_they_were_made():
    "What `made.csv` says of a table is what it holds, and no page made half of its tables."
    import sys
    sys.path.insert(0, str(ROOT / "tools"))
    import experiments
    made, held = experiments.read_made(), experiments.tables()
    for name, row in made.items():
        assert held.get(name) == row["held"], f"{name} was changed after its run"
    for page in {row["page"] for row in made.values()}:
        assert len({row["code"] for row in made.values() if row["page"] == page}) == 1, page


def test_a_page_is_made_again_when_what_its_slow_cells_reach_has_changed(tmp_path, monkeypatch):
    "Prose, and cells after the slow one, do not count; its own code and the package's do."
    import sys
    sys.path.insert(0, str(ROOT / "tools"))
    import experiments
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
    import hmmop_nb.transforms as transforms
    def stamp(slow="#| slow\nT = unthin(R, .5) # undo it", words="Some words.", after="print(T)"):
        cells = [new_markdown_cell(words), new_code_cell("from hmmop_nb.transforms import unthin"),
                 new_code_cell(slow), new_code_cell(after)]
        path = tmp_path / "page.ipynb"
        nbformat.write(new_notebook(cells=cells), path)
        return experiments.page_stamp(path)
    first = stamp()
    assert stamp(words="Other words.") == stamp(after="print(2 * T)") == first
    assert stamp("#| slow\nT = unthin(R, .5) # back") == first
    assert stamp("#| slow\nT = unthin(R, .6)") != first
    old = transforms._unit_rows
    monkeypatch.setattr(transforms, "_unit_rows", lambda *args: old(*args))
    assert stamp() != first
