"""The rooms are where a newcomer expects them, and the names between them are honest."""
import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import pytest

import hmmop_nb as hm

ROOT = Path(__file__).resolve().parents[1]
NBS, PACKAGE = ROOT / "nbs", ROOT / "hmmop_nb"
sys.path.insert(0, str(ROOT / "tools"))
import notebooks

PAGES = notebooks.all_notebooks()
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))
           if path.name not in ("__init__.py", "_modidx.py")}
BOOK = ["model", "transforms", "known_gaps", "matching", "gaps", "psi", "em", "inference", "omission", "limits",
        "fit", "explore", "experiments"]
# DESIGN section 4: what users are promised
CONTRACT = """Sequences Gaussian Categorical Poisson GaussianVector NegativeBinomial StudentT Product HMMOP BernoulliOmission MarkovOmission PerSequenceOmission
degree_chain cyclic_multipartite part_of_speech l1_distance thin thin_start unthin thin_finite stationary compose
infer_psi thin_bursty admissible_psi nearest_stochastic fit_known fit_naive fit_random fit_analytic fit_matching
fit_gaps fit_em fit Prior Posterior log_likelihood decode posterior_marginals place limit plan
filtered_marginals forecast expected_gaps fates timescales check psi_bound""".split()


def name_of(path): return str(path.relative_to(NBS))


def test_the_book_is_numbered_without_letters_or_holes():
    pages = sorted(path.stem for path in NBS.glob("*.ipynb") if path.stem != "index")
    assert pages == [f"{i:02d}_{name}" for i, name in enumerate(BOOK)]


def test_every_folder_begins_with_a_page_that_says_what_lives_there():
    for folder in ("engine", "lab", "tutorials", "experiments", "reference"):
        cells = nbformat.read(NBS / folder / "index.ipynb", 4).cells
        assert any("fig-cap" in cell.source for cell in cells if cell.cell_type == "code"), f"{folder}: no map"
        told = "\n".join(map(str, cells)) # a table may be an output
        missing = [path.name for path in (NBS / folder).glob("*.ipynb") if path.stem != "index" and f"({path.name}" not in told]
        assert not missing, f"{folder}: its first page does not lead to {missing}"


def test_the_package_mirrors_the_notebooks():
    for path in PAGES:
        first = next((c.source for c in nbformat.read(path, 4).cells if c.source.startswith("#| default_exp")), None)
        if first is None: continue
        place = path.relative_to(NBS).with_suffix("")
        name = re.sub(r"^\d+_", "", place.name)
        wanted = name if place.parent.name in ("", "reference") else f"{place.parent.name}.{name}"
        assert first.split()[2] == wanted, name_of(path)


def test_no_module_shadows_the_standard_library():
    "Inside the package a name like `engine.random` is fine; at the top level and in tools it is not."
    files = [*PACKAGE.glob("*.py"), *(ROOT / "tools").glob("*.py"), *(ROOT / "bench").glob("*.py"),
             *(ROOT / "tests").glob("*.py")]
    assert not [path.name for path in files if path.stem in sys.stdlib_module_names]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_code_fits_the_page(path):
    for i, cell in enumerate(nbformat.read(path, 4).cells):
        if cell.cell_type != "code": continue
        lines = [line for line in cell.source.split("\n") if not re.match(r"#\| fig-(cap|alt)", line)]
        wide = [line for line in lines if len(line) > 100]
        assert not wide, f"cell {i}: {wide[0]}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_code_before_the_first_paragraph(path):
    "Title, then words; hidden cells and the module's name do not count."
    titled = False
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            if titled: return
            titled = True
            if len(cell.source.split("\n\n")) > 2: return
        else: assert re.match(r"#\| (hide|default_exp)", cell.source), f"{cell.source[:60]!r} comes before any paragraph"


def imported(path):
    "What a module imports from the package: pairs of module and name."
    here = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom): continue
        if node.level: base = ".".join([*here[:-node.level], *([node.module] if node.module else [])])
        elif (node.module or "").startswith("hmmop_nb"): base = node.module
        else: continue
        for alias in node.names: yield base, alias.name, node.col_offset


def public_names(path):
    "The `__all__` of a module, read without importing it."
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__": return ast.literal_eval(node.value)
    return []


def test_names_that_modules_import_are_public_where_they_come_from():
    hidden = [f"{module}: {name} of {base}" for module, path in MODULES.items() for base, name, _ in imported(path)
              if base in MODULES and name not in public_names(MODULES[base])]
    assert not hidden, "export them with `#| export`: " + "; ".join(hidden)


def test_nothing_imports_in_a_circle():
    needs = {module: {base for base, _, indent in imported(path) if base in MODULES and not indent} for module, path in MODULES.items()}
    done = set()
    while needs:
        ready = [module for module, wanted in needs.items() if wanted <= done]
        assert ready, f"a circle among {sorted(needs)}"
        for module in ready: done.add(module); del needs[module]


def test_what_users_are_promised_is_there():
    assert not [name for name in CONTRACT if not hasattr(hm, name)]
    assert set(CONTRACT) <= set(hm.__all__) and len(hm.__all__) <= 60


def test_importing_draws_nothing_and_loads_little():
    code = "import sys, hmmop_nb; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split())
    heavy = {"matplotlib.pyplot", "scipy.optimize", "scipy.stats", "scipy.cluster", "scipy.sparse.csgraph", "ipywidgets",
             "IPython", "tqdm", "pandas"}
    assert not heavy & loaded


def public_functions():
    "Every public function, and every public method of a public class, by name."
    for name in hm.__all__:
        thing = getattr(hm, name)
        if inspect.isfunction(thing): yield name, thing
        if not inspect.isclass(thing): continue
        for part, method in inspect.getmembers(thing, inspect.isfunction):
            if part == "__init__" and "__dataclass_fields__" not in vars(thing): yield f"{name}.{part}", method
            elif not part.startswith("_") and method.__module__.startswith("hmmop_nb"): yield f"{name}.{part}", method


def test_no_default_is_an_array():
    "The site cannot write one into a signature, and shows an error in its place."
    found = []
    for info in pkgutil.walk_packages(hm.__path__, "hmmop_nb."):
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", []):
            thing = getattr(getattr(module, name), "py_func", getattr(module, name))
            if not inspect.isfunction(thing): continue
            found += [f"{info.name}.{name}: {p.name}" for p in inspect.signature(thing).parameters.values() if type(p.default).__name__ == "ndarray"]
    assert not found


@pytest.mark.parametrize("name, function", list(public_functions()), ids=lambda x: x if isinstance(x, str) else "")
def test_public_signatures_are_typed_and_explained(name, function):
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
    assert not bare, f"{bare} have no type"
    assert function.__name__ == "__init__" or signature.return_annotation is not inspect.Signature.empty, "no type of the result"
    said = inspect.getdoc(function) or ""
    if function.__name__ == "__init__": said = inspect.getdoc(getattr(hm, name.split(".")[0])) # where Python's users look
    silent = [p.name for p in signature.parameters.values() if p.name not in ("self", "cls") and f"{p.name} :" not in said]
    assert not silent, f"help() says nothing of {silent}"


@pytest.mark.parametrize("told", [dict(psi=.4), dict(n_steps=True), dict(n_steps=True, positions=True)], ids=["gaps", "matching", "known"])
def test_seven_calls_lead_from_fit_to_a_kernel(told, monkeypatch):
    from hmmop_nb.engine import parallel
    model = hm.HMMOP([[.3, .7], [.6, .4]], [.5, .5], hm.Gaussian([0., 1.], .3), .4)
    data = model.sample(20, 8, seed=1)
    known = {name: getattr(data, name) if value is True else value for name, value in told.items()}
    paths = []

    def frames(frame):
        found = []
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("hmmop_nb."): found.append(frame.f_code.co_name)
            frame = frame.f_back
        return found[::-1]

    starting, start = {}, threading.Thread.start
    def noted(self):
        starting[self] = frames(sys._getframe(1))
        start(self)
    def shares(kernel, *args, **kw):
        before = starting.get(threading.current_thread(), [])
        paths.append([*before, *frames(sys._getframe(1)), "in_shares", getattr(kernel, "__name__", "kernel")])
        return original(kernel, *args, **kw)
    original = parallel.in_shares
    monkeypatch.setattr(threading.Thread, "start", noted)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("hmmop_nb") and hasattr(module, "in_shares"): monkeypatch.setattr(module, "in_shares", shares)
    hm.fit(data.sequences, emission=model.emission, draws=3, warmup=2, chains=2, seed=1, progress=False, **known)
    sweeps = [path for path in paths if "step" in path and "init" not in path]
    assert sweeps and sweeps[0][0] == "fit"
    assert max(len(path) - 1 for path in sweeps) <= 7, max(sweeps, key=len)


# runs in plain Python, where kernels are functions like others and have frames
DEPTH = """
import ast, json, sys, threading, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
import hmmop_nb as hm

PACKAGE = Path(hm.__file__).parent
def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any("njit" in ast.dump(d) for d in node.decorator_list)
KERNELS = {(str(path), node.name) for path in PACKAGE.rglob("*.py")
           for node in ast.walk(ast.parse(path.read_text())) if is_kernel(node)}
assert len(KERNELS) > 100
starting, deepest, found, start = {}, [], {}, threading.Thread.start

def calls(frame):
    found = []
    while frame is not None:
        place = frame.f_code.co_filename, frame.f_code.co_name
        if place[0].startswith(str(PACKAGE)) and place[1][0] != "<": found.append(place)
        frame = frame.f_back
    return found[::-1]

def noted(self):
    starting[self] = calls(sys._getframe(1))
    start(self)

def look(frame, event, argument):
    if event != "call" or (frame.f_code.co_filename, frame.f_code.co_name) not in KERNELS: return
    path = [*starting.get(threading.current_thread(), []), *calls(frame)]
    names = [name for _, name in path]
    first = next(k for k, place in enumerate(path) if place in KERNELS)
    if "step" not in names or "init" in names: return # only sweeps
    if first >= len(deepest): deepest[:] = names[:first + 1]

threading.Thread.start = noted
MODEL = hm.HMMOP([[.3, .7], [.6, .4]], [.5, .5], hm.Gaussian([0., 1.], .3), .4)
DATA = MODEL.sample(6, 7, seed=1)
RUN = dict(n_states=2, draws=2, warmup=3, chains=2, seed=5, progress=False)
threading.setprofile(look)
for name, call in json.loads(sys.argv[1]).items():
    deepest.clear()
    sys.setprofile(look)
    eval(call)
    sys.setprofile(None)
    found[name] = list(deepest)
print(json.dumps(found))
"""
DEEPEST = { # calls from a method to its first kernel, and how many these are at most
    "known": ("hm.fit_known(DATA.sequences, DATA.positions, 7, **RUN)", 7),
    "known, augmented": ("hm.fit_known(DATA.sequences, DATA.positions, 7, variant='augmented', **RUN)", 7),
    "naive": ("hm.fit_naive(DATA.sequences, **RUN)", 7),
    "gaps": ("hm.fit_gaps(DATA.sequences, .4, **RUN)", 7),
    "gaps, augmented": ("hm.fit_gaps(DATA.sequences, .4, variant='augmented', **RUN)", 7),
    "matching": ("hm.fit_matching(DATA.sequences, 7, **RUN)", 9),
    "front door": ("hm.fit(DATA.sequences, psi=.4, **RUN)", 8),
    "in part": ("hm.fit(DATA.sequences, psi=.4, n_steps=[7, np.nan] * 3, **RUN)", 10),
}


def test_few_calls_lead_from_a_method_to_its_kernels():
    "All kernels that a sweep calls, the Hamiltonian ones among them."
    env = os.environ | dict(NUMBA_DISABLE_JIT="1", PYTHONPATH=str(ROOT))
    calls = {name: call for name, (call, _) in DEEPEST.items()}
    done = subprocess.run([sys.executable, "-c", DEPTH, json.dumps(calls)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    paths = json.loads(done.stdout.splitlines()[-1])
    for name, (_, most) in DEEPEST.items(): assert "step" in paths[name] and len(paths[name]) - 1 <= most, (name, paths[name])
