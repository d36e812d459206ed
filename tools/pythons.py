"""Build the wheel, and use it in a fresh environment of every Python that is supported.

    python tools/pythons.py [3.12 ...]               all that settings.ini lists, or only these
    python -I tools/pythons.py --here [em ...]       the check itself, in the Python that runs it

Interpreters are taken from HMMOP_PYTHONS (executables or folders of them, separated as in PATH),
from PATH, and from pyenv, in this order. Those that are not there are named and left out.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "HMMOP_PYTHONS"
METHODS = ("naive", "gaps", "matching", "em")
JUNK = (".git", ".venv", "_docs", "_proc", "build", "dist", "*.egg-info", "__pycache__",
        ".ipynb_checkpoints", ".pytest_cache", ".hypothesis")


class StepFailed(Exception):
    "A command that did not succeed, with what it printed."


def quiet_environment():
    "The variables that a user has, without those by which a developer steers Python and numba."
    steers = lambda name: name.startswith(("PYTHON", "NUMBA_", "VIRTUAL_ENV"))
    return {name: x for name, x in os.environ.items() if not steers(name)} | {"MPLBACKEND": "agg"}


def run(step, command, cwd):
    "What a command prints; a `StepFailed` that names the step if it fails."
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=quiet_environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0: return done.stdout
    raise StepFailed(f"{step} failed:\n{done.stdout.strip()}")


def supported():
    "The versions that the package says it supports."
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read_string((ROOT / "settings.ini").read_text(encoding="utf-8"))
    return parser["DEFAULT"]["pythons"].split()


def named_pythons(version):
    "Executables that the environment variable points to."
    for entry in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(entry).expanduser()
        if path.is_file(): yield path
        for folder in (path, path / "bin"): yield folder / f"python{version}"


def pyenv_pythons(version):
    "Executables of pyenv, the newest first."
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    number = lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)]
    for folder in sorted(home.glob(f"{version}.*"), key=number, reverse=True):
        yield folder / "bin" / "python"


def candidates(version):
    "Where an interpreter may be, in the order in which they are tried."
    yield from named_pythons(version)
    for folder in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        yield Path(folder) / f"python{version}"
    yield from pyenv_pythons(version)


def answers(python, version):
    "Whether this is a Python of the version that can make environments."
    # asked by running it: a shim of pyenv is on PATH, but may refuse to start
    ask = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try: done = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True)
    except OSError: return False
    return done.returncode == 0 and done.stdout.strip() == version


def find_python(version):
    "An interpreter of a version, or `None`."
    return next((p for p in candidates(version) if p.is_file() and answers(p, version)), None)


def copy_source(target):
    "A copy of the repository without what was built before, which would get into the wheel."
    return Path(shutil.copytree(ROOT, target, symlinks=True, ignore=shutil.ignore_patterns(*JUNK)))


def make_environment(python, folder):
    "The interpreter of a new, empty environment."
    run("making an environment", [python, "-I", "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def pip(python, step, *arguments, cwd):
    "Run the pip of an environment."
    return run(step, [python, "-I", "-m", "pip", *arguments], cwd)


def build_wheel(python, source, out):
    "The wheel of a source tree or an sdist, built as pip builds it for a user."
    pip(python, "building the wheel", "wheel", "--no-deps", "-w", out, source, cwd=out.parent)
    return next(out.glob("*.whl"))


def use_package(methods):
    "Sample, fit, save and load with the installed package, and say where it is."
    import numba
    import numpy as np
    import scipy
    import hmmop_nb as hm
    place = Path(hm.__file__).resolve()
    if not place.is_relative_to(Path(sys.prefix).resolve()):
        raise SystemExit(f"hmmop_nb came from {place}, not from {sys.prefix}; install it there")
    data = hm.degree_chain(3, 2, psi=.3, seed=0).sample(40, 12, seed=1)
    told = dict(naive={}, gaps=dict(psi=.3), matching=dict(n_steps=data.n_steps), em=dict(psi=.3))
    hm.part_of_speech() # reads the data that come with the package
    for method in methods:
        post = hm.fit(data.sequences, 3, method=method, **told[method], seed=2, draws=4, warmup=4,
                      chains=1, progress=False)
        np.testing.assert_allclose(post.T.sum(-1), 1)
        post.save("posterior.npz")
        np.testing.assert_array_equal(hm.Posterior.load("posterior.npz").T, post.T)
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, numba {numba.__version__}; {place}")


def try_python(python, shared):
    "Use the wheel in a fresh environment of an interpreter; what it says about itself."
    folder = Path(tempfile.mkdtemp(dir=shared))
    try:
        inside = make_environment(python, folder / "env")
        wheel = next(shared.glob("*.whl"), None) or build_wheel(inside, shared / "source", shared)
        pip(inside, "installing the wheel", "install", "--no-compile", wheel, cwd=folder)
        command = [inside, "-I", Path(__file__).resolve(), "--here"]
        return run("using the package", command, folder).strip().splitlines()[-1].split(";")[0]
    finally: shutil.rmtree(folder, ignore_errors=True)


def report(version, shared):
    "Try a version and print its line: whether it passed, or `None` if it was not found."
    begin, python = time.perf_counter(), find_python(version)
    if python is None:
        print(f"{version:<6}not found: set {VARIABLE} to it, or put python{version} on PATH")
        return None
    try: said = try_python(python, shared)
    except StepFailed as error:
        print(f"{version:<6}FAILED ({python}): {error}", flush=True)
        return False
    seconds = time.perf_counter() - begin
    print(f"{version:<6}passed in {seconds:.0f} s ({python}; {said})", flush=True)
    return True


def check_all(versions):
    "Try every version; the exit code."
    with tempfile.TemporaryDirectory(prefix="hmmop_nb_pythons_") as shared:
        copy_source(Path(shared) / "source")
        passed = {version: report(version, Path(shared)) for version in versions}
    missing = [version for version, good in passed.items() if good is None]
    if missing: print(f"not tried, since not found: {', '.join(missing)}")
    if len(missing) == len(passed): print("no Python was found, so nothing was checked")
    return int(False in passed.values() or len(missing) == len(passed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", action="store_true", help="check the Python that runs this")
    parser.add_argument("names", nargs="*", help="versions; with --here, methods")
    args = parser.parse_args()
    known = METHODS if args.here else supported()
    strange = [name for name in args.names if name not in known]
    if strange: parser.error(f"{strange[0]!r} is not one of {', '.join(known)}")
    if args.here: return use_package(args.names or METHODS)
    return check_all(args.names or known)


if __name__ == "__main__": sys.exit(main())
