"""Every code cell of every notebook is a test: `pytest nbs` runs them by nbdev's own rules.

Cells of a notebook share one shell and run in order. When a cell fails, the cells after it are
skipped, since what they need is not there.
"""
import hashlib
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
        book.shell.run(self.cell.source)
        if book.shell.exc:
            book.broken = self.name
            raise CellFailed("".join(traceback.format_exception(book.shell.exc)))

    def repr_failure(self, excinfo, style=None):
        if not isinstance(excinfo.value, CellFailed): return super().repr_failure(excinfo, style)
        where = f"{self.path.relative_to(ROOT)}, {self.name}"
        return f"{where}:\n\n{self.cell.source}\n\n{excinfo.value}"

    def reportinfo(self): return self.path, None, f"{self.path.name} {self.name}"
