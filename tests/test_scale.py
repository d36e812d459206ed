"Data in blocks: the same bytes from memory, from files and from a cluster, whatever happens on the way."
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine import scale
from hmmop_nb.engine.scale import in_blocks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

MODEL = hm.degree_chain(4, 2, psi=.4, scale=.3, seed=0)
MADE = MODEL.sample(150, 40, seed=1)
LISTS = MADE.sequences
COLUMNS = dict(sequence="who", order="day", value="x")
SIZE = 600
SHORT = dict(draws=8, warmup=6, chains=2, seed=1, progress=False, n_states=4)
QUICK = dict(psi=.4, n_states=4, seed=3, max_iter=12, init=MODEL)
pytestmark = pytest.mark.filterwarnings("ignore")


def digest(posterior):
    "Everything that was estimated or drawn, as bytes."
    arrays = [posterior.T, posterior.start, posterior.psi, posterior.log_density]
    return pickle.dumps([np.array(x) for x in (*arrays, *(x for _, x in sorted(posterior.emission.items())))])


def write(folder, cuts, rows, lists=LISTS):
    "The lists as Parquet files that are cut at some rows."
    names = np.repeat(np.arange(len(lists)), lists.lengths)
    place = np.concatenate([np.arange(n) for n in lists.lengths])
    table = pa.table(dict(who=names, day=place, x=lists.values, steps=np.full(len(names), 40), at=MADE.positions.values))
    edges = [0, *cuts, len(names)]
    for i, (a, z) in enumerate(zip(edges, edges[1:])):
        pq.write_table(table.slice(a, z - a), folder / f"part-{i}.parquet", row_group_size=rows)
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory): return write(tmp_path_factory.mktemp("events"), [700, 2211], 130)


@contextmanager
def workers(n):
    "A cluster of processes on this machine, and a client of it."
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None)
    client = distributed.Client(cluster)
    try: yield client
    finally:
        client.close()
        with suppress(KeyError): cluster.close() # which distributed raises if a worker died on the way


@pytest.fixture(scope="module")
def client():
    with workers(2) as client: yield client


def memory(**more): return in_blocks(LISTS, size=SIZE, **more)


FITS = dict(
    em=lambda data: hm.fit_em(data, **QUICK),
    em_lengths=lambda data: hm.fit_em(data, n_steps=40, n_states=4, init=MODEL, max_iter=6),
    gaps=lambda data: hm.fit_gaps(data, .4, **SHORT),
    naive=lambda data: hm.fit_naive(data, **SHORT),
    matching=lambda data: hm.fit_matching(data, 40, **SHORT),
)


@pytest.mark.parametrize("name", FITS)
def test_files_give_the_bytes_that_memory_gives(files, name):
    found = in_blocks(files, **COLUMNS, size=SIZE)
    assert len(found) > 4 and len(found.pieces) > 2
    assert digest(FITS[name](found)) == digest(FITS[name](memory()))


def test_known_positions_may_be_a_column(files):
    found = hm.fit_known(in_blocks(files, **COLUMNS, size=SIZE), "at", "steps", **SHORT)
    assert digest(found) == digest(hm.fit_known(memory(), MADE.positions, 40, **SHORT))


def test_how_files_are_cut_makes_no_difference(files, tmp_path):
    other = write(tmp_path, [5, 6, 1500], 77)
    one, two = (hm.fit_em(in_blocks(x, **COLUMNS, size=SIZE), **QUICK) for x in (files, other))
    assert digest(one) == digest(two)


def test_one_block_is_what_it_is_in_memory(files):
    assert digest(hm.fit_gaps(in_blocks(files, **COLUMNS), .4, **SHORT)) == digest(hm.fit_gaps(LISTS, .4, **SHORT))
    assert digest(hm.fit_em(files, **COLUMNS, **QUICK)) == digest(hm.fit_em(LISTS, **QUICK))


def test_an_array_file_is_read_in_blocks(tmp_path):
    held = np.memmap(tmp_path / "x.bin", float, "w+", shape=LISTS.values.shape)
    held[:] = LISTS.values
    held.flush()
    found = in_blocks((np.memmap(tmp_path / "x.bin", float, "r"), LISTS.lengths), size=SIZE)
    assert digest(hm.fit_em(found, **QUICK)) == digest(hm.fit_em(memory(), **QUICK))


@pytest.mark.parametrize("emission", ["poisson", "categorical", "negative_binomial", "student_t", "gaussian"])
def test_sums_over_blocks_are_sums_over_everything(emission):
    "All families: one EM step from the same point, against the data as one piece."
    values = LISTS.values if emission == "student_t" else np.c_[LISTS.values, LISTS.values**2] if emission == "gaussian" else np.clip(LISTS.values.round(), 0, 3).astype(int)
    lists = hm.Sequences(values, LISTS.offsets)
    how = dict(psi=.4, n_states=3, emission=emission, seed=1)
    start = hm.fit_em(lists, **how, max_iter=2).model()
    whole, blocks = (hm.fit_em(x, **how, init=start, max_iter=3) for x in (lists, in_blocks(lists, size=SIZE)))
    np.testing.assert_allclose(blocks.T, whole.T, atol=1e-8)
    np.testing.assert_allclose(blocks.log_density, whole.log_density, rtol=1e-10)


def test_weights_labels_and_missing_values_come_in_blocks():
    values = LISTS.values.copy()
    values[1500] = np.nan
    lists = hm.Sequences(values, LISTS.offsets, missing=True)
    labels = [[-1] * n for n in lists.lengths]
    labels[100][0] = 2
    how = QUICK | dict(weights=np.arange(150.) % 3, labels=labels)
    whole, blocks = (hm.fit_em(x, **how) for x in (lists, in_blocks(lists, size=SIZE)))
    np.testing.assert_allclose(blocks.T, whole.T, atol=1e-7)
    np.testing.assert_allclose(blocks.log_density, whole.log_density, rtol=1e-9)


def test_labels_and_likelihoods_are_those_in_memory(files, tmp_path):
    found = in_blocks(files, **COLUMNS, size=SIZE)
    np.testing.assert_array_equal(hm.log_likelihood(MODEL, found), hm.log_likelihood(MODEL, LISTS))
    np.testing.assert_allclose(hm.log_likelihood(MODEL, found, 40), hm.log_likelihood(MODEL, LISTS, 40), rtol=1e-12)
    paths = hm.decode(MODEL, found, to=tmp_path / "labels")
    table = pq.read_table(tmp_path / "labels")
    assert len(paths) == len(found) and paths == sorted(paths)
    np.testing.assert_array_equal(table["label"].to_numpy(), hm.decode(MODEL, LISTS).values)
    np.testing.assert_array_equal(table["sequence"].to_numpy(), np.repeat(np.arange(150), LISTS.lengths))
    hm.posterior_marginals(MODEL, found, to=tmp_path / "shares")
    table = pq.read_table(tmp_path / "shares")
    gamma = np.column_stack([table[f"state_{s}"].to_numpy() for s in range(4)])
    np.testing.assert_array_equal(gamma, np.concatenate(hm.posterior_marginals(MODEL, LISTS)))


def test_states_that_are_seen_are_counted_once(monkeypatch):
    states = hm.Sequences(np.clip(LISTS.values.round(), 0, 3).astype(int), LISTS.offsets)
    emission, how = hm.Categorical(np.eye(4)), dict(draws=10, warmup=10, chains=1, seed=1, progress=False)
    data, loads = in_blocks(states, size=SIZE), []
    original = scale.load
    monkeypatch.setattr(scale, "load", lambda ticket: loads.append(ticket.first) or original(ticket))
    found = hm.fit_gaps(data, .4, emission=emission, **how)
    assert loads[-len(data):] == data.cuts[:-1].tolist() # after the sample, every block once
    assert len(loads) <= len(data) + scale.RUNS + 4
    n = np.zeros((4, 4))
    for part in states: np.add.at(n, (part[:-1], part[1:]), 1)
    R = hm.thin(found.mean_T, .4)
    np.testing.assert_allclose(R, n / n.sum(1, keepdims=True), atol=.1)
    best = hm.fit_em(data, psi=0., emission=emission)
    np.testing.assert_allclose(best.T[0, 0], n / n.sum(1, keepdims=True), atol=1e-4)


FAMILIES = dict(
    gaussian=LISTS.values, student_t=LISTS.values, vector=np.c_[LISTS.values, LISTS.values**2],
    poisson=np.clip(LISTS.values.round(), 0, 3).astype(int), categorical=np.clip(LISTS.values.round(), 0, 3).astype(int),
    negative_binomial=np.clip(LISTS.values.round(), 0, 3).astype(int),
)


@pytest.mark.parametrize("name", FAMILIES)
def test_all_families_give_the_bytes_that_memory_gives(tmp_path, name):
    "Files that are cut in other places than blocks, against the same blocks in memory."
    values = FAMILIES[name]
    names = np.repeat(np.arange(len(LISTS)), LISTS.lengths)
    wide = values.reshape(len(values), -1)
    columns = [f"x{k}" for k in range(wide.shape[1])]
    table = pa.table(dict(who=names) | {column: wide[:, k] for k, column in enumerate(columns)})
    for i, (a, z) in enumerate(((0, 1000), (1000, len(names)))):
        pq.write_table(table.slice(a, z - a), tmp_path / f"{i}.parquet", row_group_size=333)
    far = in_blocks(tmp_path, sequence="who", value=columns if len(columns) > 1 else columns[0], size=SIZE)
    near = in_blocks(hm.Sequences(values, LISTS.offsets), size=SIZE)
    how = dict(psi=.4, n_states=3, emission="gaussian" if name == "vector" else name, seed=1, max_iter=4, init="random")
    assert digest(hm.fit_em(far, **how)) == digest(hm.fit_em(near, **how))
    short = dict(draws=4, warmup=4, chains=1, seed=1, progress=False, n_states=3, emission=how["emission"])
    assert digest(hm.fit_gaps(far, .4, **short)) == digest(hm.fit_gaps(near, .4, **short))


@pytest.mark.parametrize("told", [
    dict(n_steps="steps"), dict(n_steps="steps", positions="at"), dict(positions="at", psi=.4), dict(psi=.4, labels="label"),
    dict(psi=.4, weights="count"), dict(n_steps="some"), dict(psi=.4, n_steps="some", labels="label", weights="count"),
], ids=lambda told: "+".join(told))
def test_what_is_known_may_be_columns_of_files(tmp_path, told):
    "EM on files with columns of what is known, against the same lists and what is known of them in memory."
    n, rng = len(LISTS), np.random.default_rng(3)
    own = np.repeat(np.arange(n), LISTS.lengths)
    x = np.concatenate([MADE.states[i][MADE.positions[i]] for i in range(n)])
    label = np.where(rng.random(len(x)) < .2, x, np.nan)
    some, count = np.where(rng.random(n) < .5, 40., np.nan), rng.integers(0, 4, n).astype(float)
    table = pa.table(dict(who=own, x=LISTS.values, steps=np.full(len(own), 40), some=pa.array(some[own], from_pandas=True),
                          at=MADE.positions.values, label=pa.array(label, from_pandas=True), count=count[own]))
    for i, (a, z) in enumerate(((0, 700), (700, len(own)))):
        pq.write_table(table.slice(a, z - a), tmp_path / f"{i}.parquet", row_group_size=130)
    labels = [np.where(np.isnan(part), -1, part).astype(int) for part in hm.Sequences(label, LISTS.offsets, missing=True)]
    held = dict(steps=40, some=some, at=MADE.positions, label=labels, count=count)
    how = dict(n_states=4, init=MODEL, max_iter=4, seed=1)
    in_files = hm.fit_em(in_blocks(tmp_path, sequence="who", value="x", size=SIZE), **how, **told)
    here = {name: held[x] if isinstance(x, str) else x for name, x in told.items()}
    assert digest(in_files) == digest(hm.fit_em(memory(), **how, **here))
    if "psi" not in told: return # without blocks the climb would begin elsewhere: not from a sample
    plain = hm.fit_em(LISTS, **how, **here)
    np.testing.assert_allclose(in_files.T, plain.T, atol=1e-7)
    np.testing.assert_allclose(in_files.log_density, plain.log_density, rtol=1e-9)


def test_the_number_of_states_is_chosen_in_blocks():
    far, near = (hm.choose_n_states(data, (2, 3), psi=.4, emission="gaussian", seed=1, restarts=0) for data in (memory(), LISTS))
    assert far.best == near.best
    np.testing.assert_allclose(far["BIC"], near["BIC"], rtol=1e-4)


EM_RUN = """
import sys, time, hmmop_nb as hm
from hmmop_nb.engine import passes
from hmmop_nb.engine.scale import in_blocks
add = passes.Passes.add
def slow(self, *pass_):
    found = add(self, *pass_)
    self.save() # a checkpoint after every pass
    print(self.made, flush=True)
    time.sleep(.2)
    return found
passes.Passes.add = slow
data = in_blocks({files!r}, sequence="who", order="day", value="x", size={size})
hm.fit_em(data, psi=.4, n_states=4, seed=3, restarts=1, checkpoint={path!r})
"""


def test_a_killed_climb_goes_on_from_its_checkpoint(files, tmp_path):
    "EM whose process dies by SIGKILL; the same call again makes the passes that are missing, and ends at the same bytes."
    path = tmp_path / "em.npz"
    run = subprocess.Popen([sys.executable, "-c", EM_RUN.format(files=files, size=SIZE, path=str(path))], stdout=subprocess.PIPE, text=True)
    try:
        for line in run.stdout:
            if int(line) >= 6: break
        assert run.poll() is None, "the climb ended before it was killed"
    finally: run.send_signal(signal.SIGKILL); run.wait()
    how = dict(psi=.4, n_states=4, seed=3, restarts=1)
    data = in_blocks(files, **COLUMNS, size=SIZE)
    plain, again = hm.fit_em(data, **how), hm.fit_em(data, **how, checkpoint=path)
    assert digest(again) == digest(plain) and again.info["starts"] == plain.info["starts"]
    assert again.info["checkpoint"]["answered"] >= 5, "what was kept was used"
    more = hm.fit_em(data, **how, checkpoint=path)
    assert more.info["checkpoint"]["made"] == 0 and digest(more) == digest(plain)
    with pytest.raises(ValueError, match="belongs to another run"): hm.fit_em(memory(), **how, checkpoint=path)


def test_a_pass_says_how_many_blocks_are_left(files, capsys):
    hm.fit_em(in_blocks(files, **COLUMNS, size=SIZE), **QUICK, progress=True)
    said = capsys.readouterr().err
    blocks = len(in_blocks(files, **COLUMNS, size=SIZE))
    assert f"/{blocks} [" in said, "blocks of a pass"
    assert "to gain; stops below 0.0001" in said, "what is left of the climb"


@pytest.mark.parametrize("row, column, value, said", [
    (1700, "x", np.nan, r"part-1.parquet', row 1000: column 'x' is missing"),
    (1700, "x", np.inf, r"part-1.parquet', row 1000: column 'x' is infinite"),
    (1700, "day", np.nan, r"part-1.parquet', row 1000: column 'day' is missing"),
    (1700, "who", 3., r"part-1.parquet', row 1000: sequence 3.* begins again; it stood at .*part-0.parquet', row"),
    (1700, "steps", 41., r"row 1000: is 41 after 40 in the same sequence"),
])
def test_a_bad_row_is_named(tmp_path, row, column, value, said):
    names = np.repeat(np.arange(len(LISTS)), LISTS.lengths)
    assert names[row] == names[row - 1], "the row is inside of a sequence"
    table = dict(who=names * 1., day=np.concatenate([np.arange(n) for n in LISTS.lengths]) * 1., x=LISTS.values.copy(),
                 steps=np.full(len(names), 40.))
    table[column][row] = value
    for i, (a, z) in enumerate(((0, 700), (700, len(names)))):
        pq.write_table(pa.table({k: x[a:z] for k, x in table.items()}), tmp_path / f"part-{i}.parquet", row_group_size=130)
    with pytest.raises(ValueError, match=said):
        hm.fit_em(in_blocks(tmp_path, **COLUMNS, size=SIZE), n_states=4, init=MODEL, n_steps="steps", max_iter=2)


def test_a_killed_run_goes_on_from_its_checkpoint(files, tmp_path):
    "The client dies by SIGKILL; the same call again gives the draws of a run that nobody killed."
    code = textwrap.dedent(f"""
        import hmmop_nb as hm
        from hmmop_nb.engine.scale import in_blocks
        data = in_blocks({files!r}, sequence="who", order="day", value="x", size={SIZE})
        hm.fit_gaps(data, .4, n_states=4, draws=100000, warmup=6, chains=2, seed=1, progress=False,
                    checkpoint={str(tmp_path / 'run.npz')!r})
    """)
    code = "import hmmop_nb.engine.driver as d\nd.check_every = lambda seconds: .5\n" + code
    run = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(1200):
            if (tmp_path / "run.npz").exists() or run.poll() is not None: break
            time.sleep(.1)
        assert run.poll() is None, "the run ended before it was killed"
    finally: run.send_signal(signal.SIGKILL); run.wait()
    data = in_blocks(files, **COLUMNS, size=SIZE)
    from hmmop_nb.engine.files import read_npz
    kept = min(chain["kept"] for chain in read_npz(tmp_path / "run.npz", "checkpoint")[0]["chains"])
    how = dict(n_states=4, warmup=6, chains=2, seed=1, progress=False)
    again = hm.fit_gaps(data, .4, draws=kept + 5, checkpoint=tmp_path / "run.npz", **how)
    assert digest(again) == digest(hm.fit_gaps(data, .4, draws=kept + 5, **how))


@pytest.mark.parametrize("name", ["em", "gaps", "naive"])
def test_a_cluster_gives_the_same_bytes(files, client, name):
    plain = digest(FITS[name](memory()))
    assert digest(FITS[name](in_blocks(files, **COLUMNS, size=SIZE, client=client))) == plain
    if name == "em": assert digest(FITS[name](memory(client=client))) == plain


def test_dask_collections_give_the_same_bytes(files, client):
    dd, db = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.bag")
    plain = digest(hm.fit_em(memory(), **QUICK))
    frame = dd.read_parquet(files).repartition(npartitions=5)
    for data in (frame, frame.repartition(npartitions=2)):
        assert digest(hm.fit_em(in_blocks(data, **COLUMNS, size=SIZE, client=client), **QUICK)) == plain
    bag = db.from_sequence([LISTS[i] for i in range(len(LISTS))], npartitions=7)
    assert digest(hm.fit_em(in_blocks(bag, size=SIZE, client=client), **QUICK)) == plain
    assert digest(hm.fit_em(in_blocks(bag, size=SIZE), **QUICK)) == plain


@pytest.mark.parametrize("n", [1, 4])
def test_one_and_four_workers_give_the_same_bytes(files, n):
    "The cluster of the other tests has two."
    with workers(n) as client:
        for name in ("em", "gaps"):
            found = FITS[name](in_blocks(files, **COLUMNS, size=SIZE, client=client))
            assert digest(found) == digest(FITS[name](memory()))


def test_a_worker_that_is_killed_changes_nothing(files):
    with workers(2) as client:
        victim = next(iter(client.run(os.getpid).values()))
        data, swept = in_blocks(files, **COLUMNS, size=SIZE, client=client), []
        original = data.each
        def each(*args, **more):
            swept.append(1)
            if len(swept) == 8: os.kill(victim, signal.SIGKILL)
            return original(*args, **more)
        data.each = each
        assert digest(FITS["gaps"](data)) == digest(FITS["gaps"](memory()))
        assert len(swept) > 12


def test_errors_of_a_worker_name_file_and_row(files, client, tmp_path):
    lists = hm.Sequences(np.clip(LISTS.values.round(), 0, 3), LISTS.offsets)
    lists.values[2000] = 1.5
    where = write(tmp_path, [700, 2211], 130, lists)
    data = in_blocks(where, **COLUMNS, size=SIZE, client=client)
    with pytest.raises(ValueError, match=r"part-1.parquet', row 1300"):
        hm.fit_em(data, psi=.4, n_states=3, emission="poisson", init="random", seed=1)


def test_a_file_that_changes_under_way_is_refused(tmp_path):
    data = in_blocks(write(tmp_path, [700, 2211], 130), **COLUMNS, size=SIZE)
    write(tmp_path, [701, 2211], 130)
    with pytest.raises(ValueError, match="part-.*parquet' changed while it was in use"): hm.fit_em(data, **QUICK)


def test_a_method_that_needs_memory_says_so(files):
    with pytest.raises(ValueError, match="wants the data in memory"):
        hm.fit_gaps(in_blocks(files, **COLUMNS, size=SIZE), .4, variant="augmented", n_states=4)


def test_functions_that_want_memory_name_the_way_there(files):
    data = in_blocks(files, **COLUMNS, size=SIZE)
    np.testing.assert_array_equal(data.read().values, LISTS.values)
    short = dict(SHORT) | dict(n_states=4)
    for call in (lambda: hm.forecast(MODEL, data), lambda: hm.filtered_marginals(MODEL, data), lambda: hm.fit_random(data, 40, **short),
                 lambda: hm.expected_gaps(MODEL, data), lambda: hm.place(MODEL, data, 40),
                 lambda: hm.fit(data, 4, omission=hm.MarkovOmission(.6, .2), progress=False)):
        with pytest.raises(ValueError, match=r"pass what data.read\(\) gives"): call()
