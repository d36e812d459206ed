"The repository is in step with its notebooks, and the package stands on its own."
import csv
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import nbformat
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import notebooks as nb

ROOT = nb.ROOT


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    "A copy of the tree after nbdev's own export and clean."
    copy = tmp_path_factory.mktemp("copy")
    for name in ("settings.ini", "setup.py", "README.md"): shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("nbs", "hmmop_nb"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for command in ("nbdev_export", "nbdev_clean"):
        program = Path(sys.executable).parent / command
        subprocess.run([program], cwd=copy, check=True, capture_output=True)
    return copy


def python_files(root):
    "The text of every module, by path."
    paths = sorted((root / "hmmop_nb").rglob("*.py"))
    return {path.relative_to(root): path.read_text() for path in paths}


def test_modules_are_what_the_notebooks_export(exported):
    here, there = python_files(ROOT), python_files(exported)
    assert here.keys() == there.keys()
    stale = [str(path) for path in here if here[path] != there[path]]
    assert not stale, f"{stale} differ from what the notebooks export: run `make nb`"


@pytest.mark.parametrize("path", nb.all_notebooks(), ids=lambda path: str(path.relative_to(nb.NBS)))
def test_notebook_is_clean_and_fresh(path, exported):
    book = nbformat.read(path, 4)
    cleaned = (exported / path.relative_to(ROOT)).read_text()
    assert path.read_text() == cleaned, "not clean: run `make nb`"
    assert nb.is_fresh(book), "its outputs were made by other code: run `make nb`"
    errors = [i for i, cell in enumerate(book.cells)
              for output in cell.get("outputs", []) if output.output_type == "error"]
    assert not errors, f"saved errors in cells {errors}"


def test_a_changed_cell_is_noticed():
    book = nbformat.read(nb.all_notebooks()[0], 4)
    code = next(cell for cell in book.cells if cell.cell_type == "code")
    code.source += "\n1 + 1"
    assert not nb.is_fresh(book)


def test_readme_is_made_from_the_index():
    text, pictures = nb.readme()
    assert (ROOT / "README.md").read_bytes() == text, "run `make nb`"
    for name, data in pictures.items():
        assert (nb.NBS / "images" / name).read_bytes() == data, f"{name}: run `make nb`"


def test_package_imports_without_nbdev_or_jupyter():
    code = """
import sys
LEFT_OUT = {"nbdev", "fastcore", "execnb", "IPython", "ipykernel", "nbformat", "jupyter_core",
            "pandas"}
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in LEFT_OUT: raise ImportError(name)
sys.meta_path.insert(0, Wall())
import hmmop_nb as hm
hm.degree_chain(seed=0).sample(2, 5, seed=0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted((nb.NBS / "results").glob("bench_*.csv")), ids=lambda path: path.stem)
def test_a_table_of_times_comes_from_one_run(path):
    with path.open() as file: rows = list(csv.DictReader(file))
    assert len({row.get("run") for row in rows}) == 1, f"rows of several runs: make bench ONLY={path.stem[6:]}"
    assert len({row.get("version") for row in rows}) == 1


def settings():
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "settings.ini")
    return parser["DEFAULT"]


def test_the_citation_is_of_this_version():
    cited, facts = yaml.safe_load((ROOT / "CITATION.cff").read_text()), settings()
    assert str(cited["version"]) == facts["version"]
    assert cited["repository-code"] == facts["git_url"] and cited["license"] == "Apache-2.0"
    paper = cited["references"][0]
    assert paper["title"] in (ROOT / "README.md").read_text() and paper["year"] == 2023


def test_supported_pythons_are_the_same_everywhere():
    pythons = settings()["pythons"].split()
    work = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert work["jobs"]["pythons"]["strategy"]["matrix"]["python-version"] == pythons
    said = f"Python {pythons[0]} to {pythons[-1]}"
    assert said in (ROOT / "CONTRIBUTING.md").read_text()
    assert f"python {pythons[0]} to {pythons[-1]}" in (ROOT / "README.md").read_text()


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    texts = [path.read_text() for path in sorted((ROOT / ".github/workflows").glob("*.yml"))]
    texts.append((ROOT / "CONTRIBUTING.md").read_text())
    for text in texts:
        called = set(re.findall(r"(?:run: |`|^)make ([a-z-]+)", text, re.M))
        assert called <= targets, called - targets
    published = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())
    assert published[True]["push"]["tags"] == ["v*"], "`on` is what YAML reads as true"


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")),
                         ids=lambda path: path.stem)
def test_forms_are_forms(path):
    form = yaml.safe_load(path.read_text())
    if path.stem == "config": return
    assert form["name"] and form["description"] and form["body"]
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids)
    for part in form["body"]: assert part["attributes"]["label"], part


def test_links_of_the_top_level_texts_lead_to_files():
    for name in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"):
        for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text()):
            if not re.match(r"[a-z]+:", link): assert (ROOT / link).exists(), f"{name}: {link}"


def test_ruff_finds_no_mistake():
    pytest.importorskip("ruff", reason="ruff is not installed; `make lint` does so")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "hmmop_nb", "tools", "tests",
               "bench"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
