"Every call that README.md promises for a kind of knowledge is one that `fit` takes."
import re
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine.reading import read_sequences

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
TABLE = TEXT.partition("| you know | call |")[2].partition("\n\n")[0]
CALLS = re.findall(r"`(hm\.\w+\(.*?\))`", TABLE)

nan = np.nan
MODEL = hm.HMMOP([[.2, .8], [.7, .3]], [.5, .5], hm.Categorical(np.eye(2)), .5)
DATA = MODEL.sample(12, 80, seed=0)
SEEN = [len(x) for x in DATA.sequences]
# what stands for the reader's own numbers
OWN = {
    "[[0, nan, 7], None, ...]": "some_steps", "[80, nan, ...]": "some_lengths",
    "[[0, -1, 1], ...]": "some_labels",
}
NAMES = dict(
    data=[["sun" if s else "rain" for s in x] for x in DATA.sequences],
    codes=[list(x.astype(int)) for x in DATA.sequences],
    numbers=[x + .1 * np.sin(np.arange(len(x))) for x in DATA.sequences],
    steps=list(DATA.positions), nan=nan,
    some_steps=[np.where(np.arange(n) % 3, nan, w) for n, w in zip(SEEN, DATA.positions)],
    some_lengths=[80, nan] * 6,
    some_labels=[np.where(np.arange(n) % 3, -1, x) for n, x in zip(SEEN, DATA.sequences)],
)
BRIEF = dict(draws=4, warmup=4, chains=1, seed=0, progress=False)


def test_there_are_calls_for_every_kind_of_knowledge():
    told = " ".join(CALLS)
    for word in ("psi=", "n_steps=", "positions=", "labels=", "MarkovOmission",
                 "PerSequenceOmission", '"naive"', "psi_bound"): assert word in told, word
    assert "`earliest=`, `latest=`" in TABLE and "`value=[" in TEXT and len(CALLS) >= 11


@pytest.mark.parametrize("call", CALLS)
def test_call_of_the_table_runs(call):
    for shown, meant in OWN.items(): call = call.replace(shown, meant)
    brief = SimpleNamespace(**vars(hm) | dict(fit=partial(hm.fit, **BRIEF)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore") # four draws are few, and say so
        found = eval(call, dict(hm=brief, **NAMES))
    if "psi_bound" in call: assert 0 < found <= 1
    else: assert np.allclose(found.mean_T.sum(1), 1)


def test_a_log_in_the_layout_of_pm4py_is_read():
    "As the tutorial on careers says: cases, activities, and time stamps that only sort."
    pd = pytest.importorskip("pandas")
    log = pd.DataFrame({
        "case:concept:name": ["7", "7", "7", "8", "8", "8"],
        "concept:name": ["pay", "ask", "pay", "ask", "ask", "pay"],
        "time:timestamp": pd.to_datetime(["2024-01-03", "2024-01-01", "2024-02-01", "2024-01-01",
                                          "2024-01-02", "2024-01-09"], utc=True)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = hm.fit(log, psi=.3, sequence="case:concept:name", order="time:timestamp",
                       value="concept:name", **BRIEF)
    assert found.info["labels"] == ["ask", "pay"] and found.T.shape[-2:] == (2, 2)
    lists, labels = read_sequences(log, sequence="case:concept:name", order="time:timestamp",
                                   value="concept:name")
    assert [[labels[code] for code in x] for x in lists] == [["ask", "pay", "pay"],
                                                             ["ask", "ask", "pay"]]
