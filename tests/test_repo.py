"The repository is in step with its notebooks, and the package stands on its own."
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import notebooks as nb

ROOT = nb.ROOT


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    "A copy of the tree after nbdev's own export and clean."
    copy = tmp_path_factory.mktemp("copy")
    for name in ("settings.ini", "setup.py", "README.md"): shutil.copy(ROOT / name, copy)
    for name in ("nbs", "hmmop_nb"): shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for command in ("nbdev_export", "nbdev_clean"):
        subprocess.run([Path(sys.executable).parent / command], cwd=copy, check=True, capture_output=True)
    return copy


def python_files(root): return {path.relative_to(root): path.read_text() for path in sorted((root / "hmmop_nb").rglob("*.py"))}


def test_modules_are_what_the_notebooks_export(exported):
    here, there = python_files(ROOT), python_files(exported)
    assert here.keys() == there.keys()
    stale = [str(path) for path in here if here[path] != there[path]]
    assert not stale, f"{stale} differ from what the notebooks export: run `make nb`"


@pytest.mark.parametrize("path", nb.all_notebooks(), ids=lambda path: str(path.relative_to(nb.NBS)))
def test_notebook_is_clean_and_fresh(path, exported):
    book = nbformat.read(path, 4)
    assert path.read_text() == (exported / path.relative_to(ROOT)).read_text(), "not clean: run `make nb`"
    assert nb.is_fresh(book), "its outputs were made by other code: run `make nb`"
    errors = [i for i, cell in enumerate(book.cells) for output in cell.get("outputs", []) if output.output_type == "error"]
    assert not errors, f"saved errors in cells {errors}"


def test_a_changed_cell_is_noticed():
    book = nbformat.read(nb.all_notebooks()[0], 4)
    code = next(cell for cell in book.cells if cell.cell_type == "code")
    code.source += "\n1 + 1"
    assert not nb.is_fresh(book)


def test_readme_is_made_from_the_index():
    text, pictures = nb.readme()
    assert (ROOT / "README.md").read_bytes() == text, "run `make nb`"
    for name, data in pictures.items(): assert (nb.NBS / "images" / name).read_bytes() == data, f"{name}: run `make nb`"


def test_package_imports_without_nbdev_or_jupyter():
    code = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"nbdev", "fastcore", "execnb", "IPython", "ipykernel", "nbformat", "jupyter_core", "pandas"}: raise ImportError(name)
sys.meta_path.insert(0, Wall())
import hmmop_nb as hm
hm.degree_chain(seed=0).sample(2, 5, seed=0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_is_in_the_front_room():
    "`import hmmop_nb as hm` gives every public name of every module."
    import importlib
    import hmmop_nb as hm
    for path in (ROOT / "hmmop_nb").glob("[a-z]*.py"):
        if path.stem in ("oracles", "trust"): continue # for those who test: imported by their own name
        module = importlib.import_module(f"hmmop_nb.{path.stem}")
        missing = [name for name in module.__all__ if not hasattr(hm, name)]
        assert not missing, f"{missing} of {path.name}: add `from .{path.stem} import *` to hmmop_nb/__init__.py"
