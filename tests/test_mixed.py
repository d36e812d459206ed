"""What is known in part: every form of it is taken, helps, and is refused where it contradicts itself."""
import numba
import numpy as np
import pytest
from arviz_stats.base import array_stats

import hmmop_nb as hm

NAN = np.nan
MODEL = hm.degree_chain(4, 3, psi=.5, scale=.2, seed=1)
DATA = MODEL.sample(30, 20, seed=2)
RUN = dict(n_states=4, draws=20, warmup=30, chains=2, seed=3, progress=False)
RNG = np.random.default_rng(0)
STAMPS = [np.where(RNG.random(len(p)) < .3, p, NAN) for p in DATA.positions]
LENGTHS = np.where(RNG.random(30) < .5, 20., NAN)
LABELS = [np.where(RNG.random(len(p)) < .2, DATA.states[i][p], -1) for i, p in enumerate(DATA.positions)]
MIXED = dict(positions=STAMPS, n_steps=LENGTHS, labels=LABELS, psi=.5)


def table(**more):
    "The same data as a long table, with what is known in columns."
    pd = pytest.importorskip("pandas")
    owner = np.repeat(np.arange(30), DATA.sequences.lengths)
    words = [None if s < 0 else "abcd"[int(s)] for s in np.concatenate(LABELS)]
    return pd.DataFrame(dict(sequence=owner, value=DATA.sequences.values, step=np.concatenate(STAMPS),
                             state=words, days=LENGTHS[owner], often=1) | more)


def test_a_table_names_the_columns():
    as_lists = hm.fit(DATA.sequences, **MIXED, **RUN)
    as_table = hm.fit(table(), positions="step", n_steps="days", labels="state", weights="often", psi=.5, **RUN)
    np.testing.assert_array_equal(as_lists.T, as_table.T)
    assert "labels: a = 0, b = 1, c = 2, d = 3" in as_table.info["chosen"]


def test_fit_says_what_it_was_told():
    line = hm.fit(DATA.sequences, **MIXED, **RUN).info["chosen"]
    told = int(np.isfinite(np.concatenate(STAMPS)).sum())
    for said in ("fit_mixed", f"{int(np.isfinite(LENGTHS).sum())} of 30 lengths",
                 f"{told} of {len(DATA.sequences.values)} positions", "labels", "psi"):
        assert said in line


@pytest.mark.parametrize("told, complete", [
    (dict(positions=[p.astype(float) for p in DATA.positions], n_steps=np.full(30, 20.)), dict(method="known")),
    (dict(n_steps=np.full(30, 20.)), dict(method="matching")),
    (dict(positions=[None] * 30), dict(method="gaps")),
])
def test_the_corners_are_the_three_methods(told, complete):
    plain = {name: np.array(x, int) for name, x in told.items() if name == "n_steps"}
    if complete["method"] == "known": plain["positions"] = DATA.positions
    ours = hm.fit(DATA.sequences, psi=.5, method="mixed", **told, **RUN)
    theirs = hm.fit(DATA.sequences, psi=.5, **plain, **complete, **RUN)
    np.testing.assert_array_equal(ours.T, theirs.T)
    np.testing.assert_array_equal(ours.log_density, theirs.log_density)


def test_any_number_of_threads_gives_the_same_draws():
    before = numba.get_num_threads()
    found = []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            found.append(hm.fit(DATA.sequences, **MIXED, **RUN).T)
    finally: numba.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_a_run_that_was_stopped_goes_on(tmp_path):
    whole = hm.fit(DATA.sequences, **MIXED, **RUN)
    path = tmp_path / "run.npz"
    hm.fit(DATA.sequences, **MIXED, **RUN | dict(draws=8), checkpoint=path)
    again = hm.fit(DATA.sequences, **MIXED, **RUN, checkpoint=path)
    np.testing.assert_array_equal(whole.T, again.T)


def test_psi_by_sequence_is_psi_by_state_when_all_are_alike():
    by_list = hm.fit(DATA.sequences, psi=np.full((30, 1), .5), **RUN)
    np.testing.assert_allclose(by_list.mean_T, hm.fit(DATA.sequences, psi=.5, **RUN).mean_T, atol=.2)
    assert by_list.info["chosen"].endswith("psi by sequence")


def test_labels_settle_the_numbering():
    "A state that is told to be number 0 stays number 0, whatever the order of the means."
    turned = [np.where(x >= 0, 3 - x, -1) for x in LABELS]
    means = hm.fit(DATA.sequences, psi=.5, labels=turned, **RUN).model().emission.means
    assert (np.diff(means) < 0).all()


def test_more_knowledge_helps():
    model = hm.degree_chain(6, 3, psi=.6, scale=.1, seed=5)
    data = model.sample(150, 40, seed=6)
    run = dict(emission=model.emission, draws=60, warmup=80, chains=2, seed=1, progress=False, psi=.6)
    errors = []
    for share in (0., .3, 1.):
        hide = np.random.default_rng(1)
        stamps = [np.where(hide.random(len(p)) < share, p, NAN) for p in data.positions]
        errors.append(hm.l1_distance(hm.fit(data.sequences, positions=stamps, **run).mean_T, model.T))
    assert errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize("told, words", [
    (dict(positions=[[0, NAN, 9]], n_steps=9), ("sequence 0", "steps are 0 to 8")),
    (dict(positions=[[4, NAN, 5]]), ("sequence 0", "observation 2", "no place")),
    (dict(positions=[[4, NAN, 4]]), ("has 4 before 4",)),
    (dict(earliest=[[NAN, 5, NAN]], latest=[[NAN, 3, NAN]], n_steps=9), ("sequence 0", "no place")),
    (dict(latest=[[NAN, 3, NAN]], psi=.5), ("sequence 0", "windows need an end")),
    (dict(labels=[[7, -1, -1]], psi=.5), ("sequence 0", "observation 0", "7", "no state")),
    (dict(labels=[[0, -1]], psi=.5), ("sequence 0", "2 labels for 3 observations")),
    (dict(weights=[-1], psi=.5), ("weights[0]",)),
    (dict(weights=[.5], psi=.5), ("weights", "whole numbers")),
    (dict(psi=[[.5], [.5]]), ("psi", "shape (2, 1)")),
    (dict(psi=[[NAN]]), ("psi", "sequence 0")),
    (dict(n_steps=[2.5]), ("n_steps",)),
    (dict(n_steps="each", psi=.5), ("n_steps", "law of the lengths")),
    (dict(labels=[[0, 1, -1]]), ("at least one must be known",)),
])
def test_contradictions_name_the_place_and_the_remedy(told, words):
    with pytest.raises(ValueError) as error: hm.fit([[0., 1., 2.]], 3, emission=hm.Gaussian([0, 1, 2], .5), progress=False, **told)
    for word in words: assert word in str(error.value), str(error.value)


def test_a_label_that_the_emission_forbids_is_named():
    words = "labels: sequence 1, observation 0 is told to come from state 1, which cannot emit 0"
    told = dict(emission="states", psi=.5, labels=[None, [1, -1, -1]], progress=False)
    for door in (hm.fit, hm.fit_em):
        with pytest.raises(ValueError, match=words):
            door([[0, 1, 1], [0, 1, 0]], **told if door is hm.fit else told | dict(emission=hm.Categorical(np.eye(2))))


def test_inference_takes_the_same_knowledge():
    told = dict(positions=STAMPS, labels=LABELS)
    logs = hm.log_likelihood(MODEL, DATA.sequences, LENGTHS, **told)
    gamma = hm.posterior_marginals(MODEL, DATA.sequences, LENGTHS, **told)
    assert np.isfinite(logs).all() and all(np.allclose(g.sum(1), 1) for g in gamma)
    for g, label in zip(gamma, LABELS):
        for row, s in zip(g, label): assert s < 0 or row[int(s)] == pytest.approx(1)
    for method in ("posterior", "viterbi"):
        found = hm.decode(MODEL, DATA.sequences, LENGTHS, method=method, **told)
        for x, label in zip(found, LABELS): assert (x[label >= 0] == label[label >= 0]).all()
    steps = hm.place(MODEL, DATA.sequences, 20, **told)
    for x, stamp in zip(steps, STAMPS): assert (x[np.isfinite(stamp)] == stamp[np.isfinite(stamp)]).all()
    with pytest.raises(ValueError, match="n_steps: is not known for sequence"): hm.place(MODEL, DATA.sequences, LENGTHS, **told)


def test_known_places_in_inference_are_the_sum_over_walks():
    "The likelihood of a list with all its places, against a sum over all walks."
    model = hm.HMMOP([[.2, .8], [.6, .4]], [.7, .3], hm.Gaussian([0., 1.], .5), [.3, .6])
    values, places = np.array([.1, .9]), [1, 3]
    b, total = np.exp(model.emission.log_likelihood(values)), 0.
    for walk in np.ndindex(2, 2, 2, 2, 2):
        p = model.start[walk[0]] * np.prod([model.T[i, j] for i, j in zip(walk, walk[1:])])
        for t, s in enumerate(walk): p *= (1 - model.psi[s]) * b[places.index(t), s] if t in places else model.psi[s]
        total += p
    assert hm.log_likelihood(model, [values], 5, positions=[places])[0] == pytest.approx(np.log(total), abs=1e-12)


def test_a_stamp_in_the_middle_is_two_independent_lattices():
    "Given its state, what comes before a time stamp and what comes after it are two walks of their own."
    values, N, k, step = DATA.sequences[0][:9], 20, 4, 9
    whole = hm.log_likelihood(MODEL, [values], N, positions=[[NAN] * k + [step] + [NAN] * (len(values) - k - 1)])
    parts = []
    for s in range(MODEL.n_states):
        left = hm.log_likelihood(MODEL, [values[:k + 1]], step + 1, positions=[[NAN] * k + [step]],
                                 labels=[[-1] * k + [s]])
        after = hm.HMMOP(MODEL.T, MODEL.T[s], MODEL.emission, MODEL.psi)
        parts.append(left[0] + hm.log_likelihood(after, [values[k + 1:]], N - step - 1)[0])
    assert whole[0] == pytest.approx(np.logaddexp.reduce(parts), abs=1e-10)


def test_stamps_of_every_other_observation_do_not_stop_the_moves():
    "Many short runs between stamps: their places are drawn, so that moves are accepted."
    model = hm.degree_chain(seed=0, psi=.5)
    data = model.sample(150, 40, seed=1)
    hide = np.random.default_rng(1)
    stamps = [np.where(hide.random(len(p)) < .5, p, NAN) for p in data.positions]
    fitted = hm.fit(data.sequences, positions=stamps, psi=.5, emission=model.emission, draws=50, warmup=50,
                    chains=2, seed=1, progress=False)
    assert fitted.stats["corrected"].mean() > .6


def test_a_few_stamps_on_a_cycle_do_not_stop_the_moves():
    "Totals between stamps leave remainders there, of which the surrogate knows little: they are shared out."
    model = hm.cyclic_multipartite(psi=.65, seed=11)
    data = model.sample(150, 40, seed=12)
    hide = np.random.default_rng(1)
    stamps = [np.where(hide.random(len(p)) < .05, p, NAN) for p in data.positions]
    fitted = hm.fit(data.sequences, positions=stamps, psi=.65, emission=model.emission, draws=150, warmup=200,
                    chains=2, seed=1, progress=False)
    T = np.ascontiguousarray(fitted.T.reshape(2, 150, -1))
    assert array_stats.rhat(T, chain_axis=0, draw_axis=1).max() < 1.15 # 1.4 to 1.9 without


LAW = hm.Prior(n_steps={20: 2., 22: 1., 25: 1.})


@pytest.mark.parametrize("word", ["each", "common"])
@pytest.mark.parametrize("method", ["auto", "em"])
def test_a_law_of_lengths_goes_together_with_all_else(word, method):
    psi = np.where(np.arange(30)[:, None] % 2, .5, .4) * np.ones(4)
    early = [np.where(np.isfinite(s), NAN, np.maximum(p - 1., 0)) for s, p in zip(STAMPS, DATA.positions)]
    short = RUN | dict(draws=4, warmup=4, chains=1)
    fitted = hm.fit(DATA.sequences, n_steps=word, positions=STAMPS, earliest=early, labels=LABELS, psi=psi,
                    emission=MODEL.emission, prior=LAW, method=method, **{k: x for k, x in short.items() if k != "n_states"})
    assert np.isfinite(fitted.T).all() and "length" in fitted.info["chosen"]
    if method == "auto": assert set(np.unique(fitted.extra["n_steps"])) <= {20., 22., 25.} or word == "each"


def test_a_stamp_beyond_the_longest_length_of_the_law_is_named():
    with pytest.raises(ValueError, match="sequence 0 has position 30, but its steps are 0 to 24"):
        hm.fit([[0., 1., 2.]], 3, n_steps="each", positions=[[NAN, NAN, 30]], psi=.5, prior=LAW, progress=False)


def test_psi_by_sequence_in_inference_is_one_model_for_each():
    quality = np.array([[.3], [.6]]) * np.ones(4)
    both = hm.log_likelihood(MODEL, DATA.sequences[:2], 20, psi=quality)
    for i in range(2):
        model = hm.HMMOP(MODEL.T, MODEL.start, MODEL.emission, quality[i])
        assert both[i] == pytest.approx(hm.log_likelihood(model, DATA.sequences[i:i + 1], 20)[0], abs=1e-9)


# ---- everything that may be known, at every door ----

THREE = hm.degree_chain(3, 2, psi=.5, scale=.2, seed=1)
SIX = THREE.sample(6, 10, seed=2)
HIDE = np.random.default_rng(0)
PLACES = list(SIX.positions)
SOME = [None if i == 1 else np.where(HIDE.random(len(p)) < .4, p, NAN) for i, p in enumerate(PLACES)]
EARLY, LATE = [np.maximum(p - 1., 0) for p in PLACES], [np.minimum(p + 1., 9) for p in PLACES]
SEEN = [np.where(HIDE.random(len(p)) < .3, SIX.states[i][p], -1) for i, p in enumerate(PLACES)]
SETS = [[{0, 1, 2} if s < 0 else {int(s), (int(s) + 1) % 3} for s in x] for x in SEEN]
PART = [10., NAN, 10., NAN, 10., 10.]
NEVER = [(int(i), int(j)) for i, j in np.argwhere(THREE.T == 0)]
HELD = [[x if np.isfinite(N) else None for x, N in zip(each, PART)] for each in (EARLY, LATE)] # windows need an end
TABLE = hm.Prior(n_steps={10: 1., 11: 1.})
KNOWN = {
    "nothing but psi": dict(psi=.5), "psi by state": dict(psi=[.5, .4, .6]),
    "psi by sequence": dict(psi=np.full((6, 1), .5)),
    "psi by sequence and state": dict(psi=np.tile([.5, .4, .6], (6, 1))),
    "psi of some states": dict(psi=[.5, NAN, .6], n_steps=10),
    "all positions": dict(positions=PLACES, n_steps=10),
    "all positions, no length": dict(positions=PLACES, psi=.5),
    "some positions": dict(positions=SOME, n_steps=10),
    "some positions, no length": dict(positions=SOME, psi=.5),
    "windows": dict(earliest=EARLY, latest=LATE, n_steps=10),
    "latest steps": dict(latest=LATE, n_steps=10),
    "windows and positions": dict(earliest=EARLY, latest=LATE, positions=SOME, n_steps=10),
    "one length": dict(n_steps=10), "lengths": dict(n_steps=np.full(6, 10)),
    "some lengths": dict(n_steps=PART, psi=.5),
    "some lengths and positions": dict(n_steps=PART, positions=SOME, psi=.5),
    "a common length": dict(n_steps="common"), "a common length of a table": dict(n_steps="common", prior=TABLE),
    "a law of lengths": dict(n_steps="each", prior=TABLE, psi=.5),
    "labels": dict(labels=SEEN, psi=.5), "sets of labels": dict(labels=SETS, psi=.5),
    "labels with nan": dict(labels=[np.where(x < 0, NAN, x) for x in SEEN], psi=.5),
    "labels and lengths": dict(labels=SEEN, n_steps=10),
    "zeros in the prior": dict(prior=hm.Prior(T=(THREE.T > 0) * 1.), psi=.5),
    "impossible pairs": dict(prior=hm.Prior(impossible=NEVER), psi=.5),
    "weights": dict(weights=[1, 2, 0, 1, 1, 1], psi=.5), "a start": dict(start=[.2, .3, .5], psi=.5),
    "everything": dict(positions=SOME, earliest=HELD[0], latest=HELD[1], n_steps=PART, labels=SEEN, psi=np.full((6, 1), .5),
                       weights=[1, 2, 0, 1, 1, 1], start=[.2, .3, .5], prior=hm.Prior(impossible=NEVER)),
}
OF_MODEL = "psi", "start", "prior"


def ask_estimator(told):
    "What belongs to the model at the first door of the estimator, what belongs to the data at the second."
    model = hm.GapHMM(3, emission="gaussian", seed=1, options=dict(max_iter=3),
                      **{name: x for name, x in told.items() if name in OF_MODEL})
    return model.fit(SIX.sequences, **{name: x for name, x in told.items() if name not in OF_MODEL}).posterior_


DOORS = {
    "fit": lambda told: hm.fit(SIX.sequences, emission=THREE.emission, draws=3, warmup=3, chains=1, seed=1,
                               progress=False, **told),
    "fit, learned": lambda told: hm.fit(SIX.sequences, 3, draws=3, warmup=3, chains=1, seed=1, progress=False, **told),
    "GapHMM": lambda told: ask_estimator(told),
    "fit_em": lambda told: hm.fit_em(SIX.sequences, n_states=3, max_iter=3, seed=1, **told),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", KNOWN)
def test_every_kind_of_knowledge_is_learned_from(what, door):
    told = KNOWN[what]
    found = DOORS[door](told)
    assert np.allclose(found.T.sum(-1), 1) and np.isfinite(found.log_density).all()
    if "impossible" in what or "zeros" in what or what == "everything":
        assert all((found.T[..., i, j] == 0).all() for i, j in NEVER)
    if "start" in told: assert np.allclose(found.start, told["start"])
    if np.isscalar(told.get("psi")): assert (found.psi == told["psi"]).all()


STEPS = "n_steps", "positions", "earliest", "latest", "labels", "psi"
ASKED = {what: {k: x for k, x in told.items() if k in STEPS} for what, told in KNOWN.items()
         if not isinstance(told.get("n_steps"), str) and what != "psi of some states"}


@pytest.mark.parametrize("what", ASKED)
def test_every_kind_of_knowledge_is_asked_with(what):
    "Likelihood, both labellers and marginals take it; places wherever lengths or places hold them."
    told = ASKED[what]
    logs = hm.log_likelihood(THREE, SIX.sequences, **told)
    gamma = hm.posterior_marginals(THREE, SIX.sequences, **told)
    assert np.isfinite(logs).all()
    for g in gamma: np.testing.assert_allclose(g.sum(1), 1, atol=1e-9)
    for method in ("posterior", "viterbi"):
        found = hm.decode(THREE, SIX.sequences, method=method, **told)
        assert [len(x) for x in found] == list(SIX.sequences.lengths)
        for x, g in zip(found, gamma): assert (g[np.arange(len(x)), x] > 0).all()
    if "n_steps" not in told or told["n_steps"] is PART: return
    for x, places in zip(hm.place(THREE, SIX.sequences, **told), told.get("positions", [None] * 6)):
        assert (np.diff(x) > 0).all() and x[-1] < 10
        if places is not None: assert (x[np.isfinite(places)] == places[np.isfinite(places)]).all()


@pytest.mark.parametrize("what", ASKED)
def test_the_likelihood_is_a_sum_over_walks_and_places(what):
    "The first list, against a plain recursion over steps that knows windows, labels and nothing else."
    told = ASKED[what]
    def of(name):
        each = told.get(name)
        return None if each is None else each[0]
    values, N = SIX.sequences[0], told.get("n_steps")
    if np.ndim(N): N = N[0]
    psi = np.array(told.get("psi", THREE.psi), float)
    psi = np.broadcast_to(psi[0] if psi.ndim == 2 else psi, 3)
    low, high = np.zeros(len(values)), np.full(len(values), np.inf)
    for name in ("positions", "earliest", "latest"):
        if of(name) is None: continue
        told_here = np.array(of(name), float)
        if name != "latest": low = np.fmax(low, told_here)
        if name != "earliest": high = np.fmin(high, told_here)
    b = np.exp(THREE.emission.log_likelihood(values))
    for k, x in enumerate(of("labels") if of("labels") is not None else []):
        if isinstance(x, set): b[k] *= [s in x for s in range(3)]
        elif x >= 0: b[k] *= np.arange(3) == x
    a, done = np.zeros((len(values) + 1, 3)), 0.
    for t in range(400 if N is None else int(N)):
        v = a @ THREE.T
        if t == 0: v[0] = THREE.start
        a = v * psi
        for k in range(len(values)):
            if low[k] <= t <= high[k]: a[k + 1] += v[k] * (1 - psi) * b[k]
        if N is None:
            done, a[-1] = done + a[-1].sum(), 0.
    expected = np.log(done if N is None else a[-1].sum())
    assert hm.log_likelihood(THREE, SIX.sequences, **told)[0] == pytest.approx(expected, abs=1e-8)
