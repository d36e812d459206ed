"""Compiled kernels are kept where that is possible, and nothing is lost where it is not."""
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USE = """
import hmmop_nb as hm
model = hm.HMMOP([[.7, .3], [.4, .6]], [.5, .5], hm.Gaussian([0., 3.], .5), .4)
assert len(model.sample(3, 4, seed=1)) == 3 # compiles two small kernels
model.sample(3, 4, seed=1, omission=hm.MarkovOmission(.5, .1)) # and a third
print("at", hm.__file__)
"""


def user_of(folder):
    "How to start Python as someone who cannot write everywhere: root can, unless that is taken away."
    if os.geteuid(): return [sys.executable]
    if not shutil.which("setpriv"): pytest.skip("root can write everywhere, and there is no setpriv")
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable]
    probe = f"open({str(folder / 'probe')!r}, 'w')"
    if subprocess.run([*command, "-c", probe], capture_output=True).returncode == 0: pytest.skip("root can write everywhere")
    return command


@pytest.fixture
def frozen(tmp_path):
    "A copy of the package and an empty home, both read-only."
    package, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(ROOT / "hmmop_nb", package / "hmmop_nb", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    folders = [path for path in [package, *package.rglob("*"), home] if path.is_dir()]
    for path in folders: path.chmod(0o555)
    yield package, home
    for path in folders: path.chmod(0o755)


def use(command, package, script=USE, **environment):
    clean = {name: x for name, x in os.environ.items() if not name.startswith(("NUMBA", "XDG", "PYTHON"))}
    environment = clean | dict(PYTHONPATH=str(package), PYTHONDONTWRITEBYTECODE="1") | environment
    done = subprocess.run([*command, "-c", script], env=environment, cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"at {package}" in done.stdout
    return done.stderr


def test_nowhere_to_write(frozen):
    "Containers with a random user: neither the package nor the home can be written."
    package, home = frozen
    said = use(user_of(home), package, HOME=str(home))
    assert said.count("compiled kernels cannot be kept") == 1 and "NUMBA_CACHE_DIR" in said


def test_importing_alone_says_nothing(frozen):
    package, home = frozen
    script = "import hmmop_nb as hm; print('at', hm.__file__); hm.thin([[.5, .5], [.5, .5]], .5)"
    assert not use(user_of(home), package, script, HOME=str(home))


def test_a_folder_of_ones_own(frozen, tmp_path):
    "With NUMBA_CACHE_DIR everything is kept, as ever."
    package, home = frozen
    cache = tmp_path / "cache"
    assert not use(user_of(home), package, HOME=str(home), NUMBA_CACHE_DIR=str(cache))
    assert len(list(cache.rglob("*.nbc"))) >= 3


def test_disc_without_room(tmp_path):
    "Writing a compiled kernel fails, here because of its size: the call gives its answer all the same."
    pytest.importorskip("resource")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    said = use([sys.executable], ROOT, limit + USE, NUMBA_CACHE_DIR=str(tmp_path))
    assert said.count("could not be kept") == 1
    assert not list(tmp_path.rglob("*.nbc"))


def test_damaged_cache(tmp_path):
    "Files that were cut short are made anew."
    use([sys.executable], ROOT, NUMBA_CACHE_DIR=str(tmp_path))
    kept = sorted(tmp_path.rglob("*.nb[ci]"))
    for i, path in enumerate(kept): path.write_bytes(path.read_bytes()[:[0, 3, -9][i % 3]])
    assert not use([sys.executable], ROOT, NUMBA_CACHE_DIR=str(tmp_path))
    check = USE + "hits = [k.stats.cache_hits for k in (hm.model.walk_share, hm.model.markov_share)]\nassert all(hits), hits\n"
    use([sys.executable], ROOT, check, NUMBA_CACHE_DIR=str(tmp_path))


@pytest.fixture(scope="module")
def pages():
    "What runs the pages as tests."
    spec = importlib.util.spec_from_file_location("run_pages", ROOT / "nbs" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name):
    from nbdev.frontmatter import FrontmatterProc
    from nbdev.process import NBProcessor
    return NBProcessor(ROOT / "nbs" / name, procs=FrontmatterProc, process=True).nb


def test_a_page_is_checked_with_the_kernels_of_its_module(pages):
    from hmmop_nb.engine import messages
    shared = pages.module_kernels(page("engine/messages.ipynb"))
    assert shared["draw_blocks"] is messages.draw_blocks and shared["Layout"] is messages.Layout
    assert "draw_paths" not in shared, "what is not compiled is the page's own"


@pytest.mark.parametrize("before, after", [("total[l] += out[s, l]", "total[l] -= out[s, l]"), ("LANES = 64", "LANES = 32")])
def test_a_page_that_says_something_else_shares_nothing(pages, before, after):
    nb = page("engine/messages.ipynb")
    cell, = (cell for cell in nb.cells if cell.cell_type == "code" and before in cell.source)
    cell.source = cell.source.replace(before, after)
    assert pages.module_kernels(nb) == {}


def test_cells_are_cut_after_their_kernels(pages):
    cell = "a = 1\n@njit\ndef f(x): return x\n\nb = f\ndef g(): pass\n"
    cut = list(pages.pieces(cell, {"f": None, "h": None}))
    assert [name for _, name in cut] == ["f", None] and "".join(text for text, _ in cut) == cell
    assert cut[0][0].endswith("def f(x): return x\n")
    assert list(pages.pieces(cell, {})) == [(cell, None)]
