"""Every code cell of every notebook is a test: `pytest nbs` runs them by nbdev's own rules.

Cells of a notebook share one shell and run in order. When a cell fails, the cells after it are
skipped, since what they need is not there.

A kernel that a page exports stands in its module too, in the same words. While these are the same,
the page's checks run on the module's, which is compiled once for all pages and tests.
"""
import ast
import hashlib
import importlib
import os
import sys
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def kernel_cache():
    """A folder for compiled kernels that belongs to the present code.

    Numba does not notice when a kernel that another one calls has changed."""
    sources = sorted((ROOT / "nbs").rglob("*.ipynb")) + sorted((ROOT / "hmmop_nb").rglob("*.py"))
    import nbformat
    code = hashlib.sha256()
    for path in sources:
        if path.suffix == ".py": code.update(path.read_bytes())
        else:
            cells = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
            code.update("\0".join(cells).encode())
    return ROOT / ".venv" / "numba" / code.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(kernel_cache()))
os.environ.setdefault("MPLBACKEND", "agg")
os.environ["IN_TEST"] = "1"
sys.path.insert(0, str(ROOT))


def pytest_collect_file(file_path, parent):
    if file_path.suffix != ".ipynb" or not file_path.is_relative_to(ROOT / "nbs"): return None
    inside = file_path.relative_to(ROOT / "nbs").parts
    if any(part.startswith((".", "_")) for part in inside): return None
    return Notebook.from_parent(parent, path=file_path)


# the files that take longest: begun last, one of them would keep a single worker busy at the end
LONGEST = ("tests/test_fuzz.py", "nbs/engine/lattice.ipynb", "nbs/05_psi.ipynb", "nbs/03_matching.ipynb",
           "nbs/engine/hamiltonian.ipynb", "nbs/engine/mixed.ipynb", "tests/test_properties.py")


def pytest_collection_modifyitems(items):
    "Begin with the files that take longest; within a file nothing changes."
    rank = {ROOT / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


EXPORTS = ("export", "exporti", "exports")


def exported_cells(nb):
    "The code cells that nbdev writes to the page's module, and the name of that module."
    told = [(cell, getattr(cell, "directives_", None) or {}) for cell in nb.cells
            if cell.cell_type == "code"]
    named = [words["default_exp"][0] for _, words in told if "default_exp" in words]
    cells = [cell for cell, words in told if any(words.get(word) == [] for word in EXPORTS)]
    return cells, (named or [None])[0]


def statements(code):
    "The statements of a piece of code but for imports, each with the name that it defines."
    for node in ast.parse(code).body:
        written = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        quoted = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or written or quoted: continue
        yield getattr(node, "name", None), ast.dump(node)


def is_compiled(thing):
    "Whether numba compiles it, or compiles kernels for it."
    from numba.core.dispatcher import Dispatcher
    return isinstance(thing, Dispatcher) or (isinstance(thing, type) and issubclass(thing, tuple))


def module_kernels(nb):
    """The kernels of a page's module, and the named tuples that they take, by name.

    None at all unless module and page say the same, statement by statement: a page that was edited
    and not exported runs on its own."""
    cells, name = exported_cells(nb)
    file = ROOT / "hmmop_nb" / f"{str(name).replace('.', '/')}.py"
    if not file.exists(): return {}
    page = [said for cell in cells for said in statements(cell.source)]
    if page != list(statements(file.read_text())): return {}
    held = vars(importlib.import_module(f"hmmop_nb.{name}"))
    return {name: held[name] for name, _ in page if is_compiled(held.get(name))}


def pieces(source, kernels):
    "A cell, cut after every definition of a kernel, with the name of that kernel."
    lines, begin = source.splitlines(keepends=True), 0
    for node in ast.parse(source).body if kernels else ():
        if getattr(node, "name", None) not in kernels: continue
        yield "".join(lines[begin:node.end_lineno]), node.name
        begin = node.end_lineno
    if begin < len(lines): yield "".join(lines[begin:]), None


class Notebook(pytest.File):
    "One notebook, with a shell of its own."

    def collect(self):
        from nbdev.config import get_config
        from nbdev.frontmatter import FrontmatterProc
        from nbdev.process import NBProcessor
        wanted = set(os.environ.get("TEST_FLAGS", "").split())
        skip_flags = set(get_config(path=ROOT).tst_flags.split()) - wanted
        nb = NBProcessor(self.path, procs=FrontmatterProc, process=True).nb
        if str(nb.get("frontmatter_", {}).get("skip_exec", False)).lower() == "true": return
        self.nb = nb
        for i, cell in enumerate(nb.cells):
            direct = getattr(cell, "directives_", None) or {}
            if cell.cell_type != "code" or not cell.source.strip(): continue
            off = direct.get("eval:", [""])[0].lower() == "false"
            if off or skip_flags & direct.keys(): continue
            yield Cell.from_parent(self, name=f"cell {i}", cell=cell)

    def setup(self):
        from execnb.shell import CaptureShell
        from hmmop_nb.engine import emissions
        # pages register classes of their own under the package's names; the next page finds the package's again
        self.registers = [(register, dict(register)) for register in vars(emissions).values()
                          if type(register) is dict and register is not vars(emissions).get("__builtins__")]
        self.home = os.getcwd()
        os.chdir(self.path.parent)
        self.shell, self.broken = CaptureShell(self.path), None
        self.kernels, (self.exported, _) = module_kernels(self.nb), exported_cells(self.nb)

    def teardown(self):
        for register, held in self.registers:
            register.clear()
            register.update(held)
        os.chdir(self.home)
        self.shell = None


class CellFailed(Exception): pass


class Cell(pytest.Item):
    "One code cell."

    def __init__(self, *, cell, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell

    def runtest(self):
        book = self.parent
        if book.broken: pytest.skip(f"{book.broken} of this notebook failed")
        exported = any(self.cell is cell for cell in book.exported)
        for piece, name in pieces(self.cell.source, book.kernels if exported else {}):
            book.shell.run(piece)
            if book.shell.exc: break
            if name is not None: book.shell.user_ns[name] = book.kernels[name]
        if book.shell.exc:
            book.broken = self.name
            raise CellFailed("".join(traceback.format_exception(book.shell.exc)))

    def repr_failure(self, excinfo, style=None):
        if not isinstance(excinfo.value, CellFailed): return super().repr_failure(excinfo, style)
        where = f"{self.path.relative_to(ROOT)}, {self.name}"
        return f"{where}:\n\n{self.cell.source}\n\n{excinfo.value}"

    def reportinfo(self): return self.path, None, f"{self.path.name} {self.name}"
