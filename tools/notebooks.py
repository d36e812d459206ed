"""Keep notebooks, package and README in step.

    python tools/notebooks.py run [--all] [--slow] [NOTEBOOK ...]   execute, export, clean, write README.md
    python tools/notebooks.py export                                export only (also writes README.md)

A notebook is executed when the code it holds is not the code that made its outputs: every execution records a hash
of the notebook's own code cells in its metadata, and that hash is what `make test` compares. Outputs themselves are
not compared, since another processor changes last digits and pixels.
"""
import argparse
import hashlib
import os
import re
from base64 import b64decode
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbdev.clean import nbdev_clean
from nbdev.doclinks import nbdev_export
from nbdev.process import NBProcessor

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
KEY = "hmmop"


def all_notebooks(nbs=NBS):
    "Every notebook that is part of the site, in reading order."
    hidden = lambda path: any(part.startswith((".", "_")) for part in path.relative_to(nbs).parts)
    return sorted(path for path in nbs.rglob("*.ipynb") if not hidden(path))


def code_hash(nb):
    "A hash of what a notebook executes."
    code = "\0".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def is_fresh(nb):
    "Whether the saved outputs were made by the present code."
    return nb.metadata.get(KEY, {}).get("code") == code_hash(nb)


def write_atomically(path, text):
    "Write to a temporary name and rename, so that nobody meets half a file."
    part = path.with_name(f".{path.name}.part")
    data = text if isinstance(text, bytes) else text.encode()
    part.write_bytes(data)
    os.replace(part, path)


def directives(path):
    "nbdev's directives of each cell, by position."
    return [getattr(cell, "directives_", None) or {} for cell in NBProcessor(path, process=True).nb.cells]


def skips(found, flags=("slow",)):
    "Whether nbdev's rules skip a cell with these directives."
    return found.get("eval:", [""])[0].lower() == "false" or any(flag in found for flag in flags)


def execute(path, slow=False):
    "Run a notebook in place and record which code made its outputs."
    from nbclient import NotebookClient
    nb = nbformat.read(path, 4)
    found = directives(path)
    for cell, direct in zip(nb.cells, found):
        if cell.cell_type == "code" and skips(direct, () if slow else ("slow",)): cell.metadata["tags"] = ["skip-execution"]
    os.environ["PYTHONPATH"] = str(ROOT) # the package of this tree, whatever is installed
    NotebookClient(nb, timeout=None, kernel_name="python3", extra_arguments=["--log-level=ERROR"], coalesce_streams=True,
                   resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in nb.cells: cell.metadata.pop("tags", None)
    nb.metadata[KEY] = {"code": code_hash(nb)}
    write_atomically(path, nbformat.writes(nb) + "\n")


def badges():
    "Facts of settings.ini and the way to the site, for the first lines of README.md; the site needs neither."
    ini = ConfigParser(interpolation=None)
    ini.read(ROOT / "settings.ini")
    facts = ini["DEFAULT"]
    pythons = facts["pythons"].split()
    site, code = facts["doc_host"] + facts["doc_baseurl"], facts["git_url"]
    badge = lambda name, value, goal: f"[![{name} {value}](https://img.shields.io/badge/{quote(name)}-{quote(value)}-blue)]({goal})"
    shown = [badge("python", f"{pythons[0]} to {pythons[-1]}", f"{code}/blob/{facts['branch']}/settings.ini"),
             badge("license", "Apache 2.0", f"{code}/blob/{facts['branch']}/LICENSE"), badge("docs", "the site", site)]
    ways = [f"**[The site]({site})**", f"[Tutorials]({site}/tutorials/index.html)", f"[The book]({site}/model.html)",
            f"[API]({site}/reference/api.html)", "[Contributing](CONTRIBUTING.md)"]
    return " ".join(shown) + "\n\n" + " · ".join(ways)


def readme(nbs=NBS):
    "README.md as bytes, and the pictures it shows by file name, both from index.ipynb."
    import pypandoc
    nb, pictures, parts = nbformat.read(nbs / "index.ipynb", 4), {}, []
    for cell, direct in zip(nb.cells, directives(nbs / "index.ipynb")):
        if "hide" in direct or cell.source.startswith("#| hide"): continue
        if cell.cell_type == "markdown":
            if len(parts) == 1: parts.append(badges())
            parts.append(re.sub(r"\]\(([\w/-]+)\.ipynb(#[\w-]+)?\)", r"](nbs/\1.ipynb)", cell.source))
            continue
        source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("#|"))
        if direct.get("echo:", [""])[0] != "false": parts.append(f"```python\n{source.strip()}\n```")
        caption = direct.get("fig-cap:", [])
        for output in cell.get("outputs", []): parts.append(_show(output, " ".join(caption).strip('"'), pictures))
    text = pypandoc.convert_text("\n\n".join(filter(None, parts)), "gfm", "markdown-tex_math_dollars-citations-smart", extra_args=["--wrap=none"])
    return ("<!-- Made from nbs/index.ipynb by `make nb`; edit that. -->\n\n" + text.strip() + "\n").encode(), pictures


def _show(output, caption, pictures):
    "One output of a cell as markdown; images are put aside in `pictures`."
    if output.output_type == "stream": return f"```\n{output.text.strip()}\n```"
    data = output.get("data", {})
    if "image/png" in data:
        name = f"index-{len(pictures) + 1}.png"
        pictures[name] = b64decode(data["image/png"])
        return f"![{caption}](nbs/images/{name})"
    if "text/markdown" in data: return data["text/markdown"]
    return f"```\n{data['text/plain']}\n```" if "text/plain" in data else ""


def write_readme():
    "Bring README.md and its pictures in step with index.ipynb."
    text, pictures = readme()
    (NBS / "images").mkdir(exist_ok=True)
    for name, data in pictures.items(): write_atomically(NBS / "images" / name, data)
    write_atomically(ROOT / "README.md", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "export"])
    parser.add_argument("notebooks", nargs="*", type=Path, help="only these; the default is every notebook whose code has changed")
    parser.add_argument("--all", action="store_true", help="execute even where outputs are fresh")
    parser.add_argument("--slow", action="store_true", help="execute cells flagged slow too")
    args = parser.parse_args()
    os.chdir(ROOT)
    nbdev_export.__wrapped__()
    if args.command == "run":
        for path in [p.resolve() for p in args.notebooks] or all_notebooks():
            if args.all or args.notebooks or not is_fresh(nbformat.read(path, 4)):
                print(f"running {path.relative_to(ROOT)}", flush=True)
                execute(path, args.slow)
        nbdev_clean.__wrapped__()
    write_readme()


if __name__ == "__main__": main()
