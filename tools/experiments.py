"""Make every table of results, from an empty folder if need be; stopped at any time, the same command goes on.

    python tools/experiments.py [NAME ...] [--list] [--workers 2]

First the experiments of the paper (`python -m hmmop_nb.experiments`), whose rows carry stamps of their own. Then every
page with cells flagged slow is executed with them. A page is left out if its tables are as the same code has left them:
`nbs/results/made.csv` says of each table which page made it, by which code (of the page's cells and of all that they reach
in the package), and what it held. That file is written by this command only, in the moment in which a page has made its tables.
"""
import argparse
import ast
import csv
import hashlib
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
RESULTS = NBS / "results"
MADE = RESULTS / "made.csv"
COLUMNS = "table", "page", "code", "held", "minutes", "version"
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]


def digest(data):
    "Twelve digits of a hash."
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:12]


def slow_pages():
    "Pages with cells that are flagged slow, those that others read from first."
    from notebooks import all_notebooks, directives
    return [path for path in all_notebooks() if any("slow" in found for found in directives(path))]


def names_used(code):
    "What a page takes from the package: (module, name or None) for each import and for `hm.name`."
    aliases, used = {}, set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for a in node.names:
                if a.name.split(".")[0] == "hmmop_nb": aliases[a.asname or a.name.split(".")[0]] = a.name if a.asname else "hmmop_nb"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hmmop_nb":
            used |= {(node.module, a.name) for a in node.names if a.name != "*"}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            used.add((aliases[node.value.id], node.attr))
    return used


def page_stamp(path):
    "A stamp of a page's slow cells and of those before them, and of what they reach in the package."
    from hmmop_nb.lab.provenance import code_stamp, meaning
    from notebooks import directives
    nb = nbformat.read(path, 4)
    flags = directives(path)
    last = max(i for i, found in enumerate(flags) if "slow" in found)
    cells = [cell.source for cell in nb.cells[:last + 1] if cell.cell_type == "code"]
    code = "\n".join(line for cell in cells for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))
    roots = []
    for module, name in sorted(names_used(code)):
        home = importlib.import_module(module)
        if hasattr(home, name): roots.append(getattr(home, name))
    return digest(meaning(ast.parse(code)) + code_stamp(*roots))


def tables():
    "What every table holds, by its path under the results."
    return {str(path.relative_to(RESULTS)): digest(path.read_bytes()) for path in sorted(RESULTS.rglob("*.csv"))
            if path != MADE and ".part" not in path.suffixes and ".quick" not in path.suffixes}


def read_made():
    "What is noted of each table."
    if not MADE.exists(): return {}
    with MADE.open(newline="") as file: return {row["table"]: row for row in csv.DictReader(file)}


def write_made(rows):
    "Note it, all or nothing."
    part = MADE.with_suffix(".new")
    with part.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows[name] for name in sorted(rows))
    os.replace(part, MADE)


def is_current(path, made, held):
    "Whether the present code made a page's tables, and nobody has changed them since."
    mine = [row for row in made.values() if row["page"] == str(path.relative_to(NBS))]
    if not mine: return False
    stamp = page_stamp(path)
    return all(row["code"] == stamp and held.get(row["table"]) == row["held"] for row in mine)


def make_page(path):
    "Execute a page with its slow cells, and note what it made; tables that it did not write are not its own."
    from hmmop_nb import __version__
    from notebooks import execute
    stamp, begin = page_stamp(path), time.time()
    before = {str(table.relative_to(RESULTS)): table.stat().st_mtime_ns for table in RESULTS.rglob("*.csv")}
    execute(path, slow=True)
    if page_stamp(path) != stamp: raise SystemExit(f"{path.name}: the code was changed while the page ran; its tables are not noted")
    minutes, made = (time.time() - begin) / 60, read_made()
    for name, held in tables().items():
        if (RESULTS / name).stat().st_mtime_ns == before.get(name): continue
        made[name] = dict(table=name, page=str(path.relative_to(NBS)), code=stamp, held=held, minutes=f"{minutes:.1f}",
                          version=__version__)
    write_made(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments or pages (such as 04_gaps); the default is all of them")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--workers", type=int, default=2, help="processes for the experiments (2)")
    args = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(ROOT)
    RESULTS.mkdir(exist_ok=True)
    from hmmop_nb.experiments import EXPERIMENTS
    pages = {str(path.relative_to(NBS).with_suffix("")): path for path in slow_pages()}
    unknown = [name for name in args.names if name not in EXPERIMENTS and name not in pages]
    if unknown: parser.error(f"{unknown[0]!r} is neither an experiment nor a page with slow cells; "
                             f"choose some of: {', '.join([*EXPERIMENTS, *pages])}")
    wanted = args.names or [*EXPERIMENTS, *pages]
    command = [sys.executable, "-m", "hmmop_nb.experiments"]
    out = ["--out", str(RESULTS / "experiments")]
    if args.list:
        subprocess.run([*command, "status", *out], check=True)
        made, held = read_made(), tables()
        for name, path in pages.items():
            print(f"{name:<28}", "made by this code" if is_current(path, made, held) else "to be made")
        return 0
    names = [name for name in wanted if name in EXPERIMENTS]
    if names:
        code = subprocess.run([*command, *names, "--workers", str(args.workers), *out]).returncode
        if code: return code
    for name in wanted:
        if name in EXPERIMENTS or is_current(pages[name], read_made(), tables()): continue
        print(f"running {name} with its slow cells", flush=True)
        make_page(pages[name])
    return 0


if __name__ == "__main__": sys.exit(main())
