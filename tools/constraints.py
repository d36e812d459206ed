"""Write tools/constraints.txt: the exact versions, installed here, with which the suite passes.

`python -m pip install -c tools/constraints.txt -e ".[dev]"` brings them back. The lines hold for the versions of Python
that have been tried with them; on others pip takes what settings.ini allows.
"""
import sys
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tools" / "constraints.txt"
PYTHONS = 'python_version >= "3.11" and python_version < "3.14"' # numpy and scipy of today have left 3.10 behind
INSTALLERS = {"pip", "setuptools", "wheel"} # which belong to the environment, not to the package


def wanted():
    "What settings.ini asks for, with what the suite needs."
    settings = ConfigParser(delimiters=["="], interpolation=None)
    settings.read(ROOT / "settings.ini")
    facts = settings["DEFAULT"]
    return [Requirement(text) for name in ("requirements", "dev_requirements") for text in facts[name].split()]


def applies(requirement, extras):
    "Whether a requirement is one here."
    if requirement.marker is None: return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def installed():
    "Versions of everything that is needed, directly or by others, and installed here."
    found, todo = {}, [(requirement, ()) for requirement in wanted()]
    while todo:
        requirement, extras = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in INSTALLERS or not applies(requirement, extras): continue
        try: package = metadata.distribution(name)
        except metadata.PackageNotFoundError: continue
        if name in found and not requirement.extras: continue
        found[name] = package.version
        todo += [(Requirement(text), tuple(requirement.extras)) for text in package.requires or ()]
    return found


def pinned():
    "Versions in the file, by name."
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    return {canonicalize_name(pin.name): pin for pin in pins}


def main():
    python = ".".join(map(str, sys.version_info[:2]))
    head = f"# Exact versions with which the suite passes, tried on Python {python}; written by tools/constraints.py\n"
    FILE.write_text(head + "".join(f"{name}=={version}; {PYTHONS}\n" for name, version in sorted(installed().items())))


if __name__ == "__main__": main()
