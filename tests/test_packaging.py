"The sdist is complete: a wheel can be built from it, and both work in an empty environment."
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import pythons as py

NO_INDEX = "pip cannot reach an index, so nothing can be built or installed here"
# what pip says when the network is at fault and not the package
OFFLINE = re.compile("connection broken|NewConnectionError|Max retries|timed out|ProxyError|"
                     "Name or service not known|name resolution", re.IGNORECASE)


def last_line(error): return str(error).splitlines()[-1]


def pip_or_skip(python, step, *arguments, cwd):
    "Run pip; skip where the index is out of reach, fail for any other reason."
    try: return py.pip(python, step, *arguments, cwd=cwd)
    except py.StepFailed as error:
        if OFFLINE.search(str(error)): pytest.skip(f"{NO_INDEX}: {last_line(error)}")
        raise


@pytest.fixture(scope="module")
def folder(tmp_path_factory): return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="module")
def python(folder):
    "An interpreter in a fresh environment that holds pip and nothing else."
    return py.make_environment(sys.executable, folder / "env")


@pytest.fixture(scope="module")
def backend(folder, python):
    "A folder with setuptools, apart from the environment, which stays empty."
    brief = ("--retries", "1", "--timeout", "20") # this is the first that asks for an index
    options = ("install", "--no-compile", *brief, "--target", folder / "backend")
    try: py.pip(python, "installing setuptools", *options, "setuptools>=77", cwd=folder)
    except py.StepFailed as error: pytest.skip(f"{NO_INDEX}: {last_line(error)}")
    return folder / "backend"


def with_backend(python, backend, code, cwd):
    "Run code that needs setuptools; what it printed."
    code = f"import sys; sys.path.insert(0, {str(backend)!r}); {code}"
    return py.run("setuptools", [python, "-I", "-c", code], cwd)


@pytest.fixture(scope="module")
def built_sdist(folder, python, backend):
    "The sdist, and what setuptools said while it was built."
    source, out = py.copy_source(folder / "source"), folder / "sdist"
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})"
    said = with_backend(python, backend, code, source)
    return next(out.glob("*.tar.gz")), said


@pytest.fixture(scope="module")
def sdist(built_sdist): return built_sdist[0]


@pytest.fixture(scope="module")
def unpacked(folder, sdist):
    "The one folder that the sdist holds."
    with tarfile.open(sdist) as archive:
        # the safe way to unpack, which the first releases of 3.10 and 3.11 do not have
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder / "unpacked")
    return next((folder / "unpacked").iterdir())


@pytest.fixture(scope="module")
def built_wheel(folder, python, unpacked):
    "The wheel, built from the sdist with nothing of the repository beside it, and what was said."
    out = folder / "wheel"
    options = ("wheel", "--verbose", "--no-deps", "-w", out, unpacked)
    said = pip_or_skip(python, "building the wheel", *options, cwd=folder)
    return next(out.glob("*.whl")), said


@pytest.fixture(scope="module")
def wheel(built_wheel): return built_wheel[0]


@pytest.fixture(scope="module")
def metadata(wheel):
    "The lines that describe the package."
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode().split("\n\n")[0].splitlines()


@pytest.fixture(scope="module")
def wheel_python(folder, python, wheel):
    "The interpreter of the fresh environment, with the wheel and what it needs."
    pip_or_skip(python, "installing the wheel", "install", "--no-compile", wheel, cwd=folder)
    return python


def fits(python, cwd):
    "Fit a few draws far from the repository; the file that was imported."
    said = py.run("using the package", [python, "-I", py.__file__, "--here", "naive"], cwd)
    return Path(said.strip().rpartition("; ")[2])


def source_files():
    "Everything that belongs into the package."
    package = ROOT / "hmmop_nb"
    found = [*package.rglob("*.py"), *package.glob("data/*"), package / "py.typed"]
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_sdist_holds_all_that_its_setup_reads(unpacked):
    wanted = {"settings.ini", "setup.py", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    assert not (wanted | source_files()) - found
    assert not {"tests", "tools", "nbs"} & found


def test_the_wheel_holds_modules_data_and_types_and_nothing_else(wheel):
    assert {"hmmop_nb/py.typed", "hmmop_nb/data/brown.npz"} <= source_files()
    with zipfile.ZipFile(wheel) as archive: names = archive.namelist()
    assert {name for name in names if ".dist-info/" not in name} == source_files()


def test_building_gives_no_warning(built_sdist, built_wheel):
    for said in (built_sdist[1], built_wheel[1]):
        assert not re.search("DeprecationWarning|UserWarning|Unknown distribution", said), said


def test_the_wheel_states_its_licence_and_its_pythons(metadata):
    assert "License-Expression: Apache-2.0" in metadata
    assert "License-File: LICENSE" in metadata
    assert f"Requires-Python: >={py.supported()[0]}" in metadata
    for python in ("3.10", "3.11", "3.12", "3.13"):
        assert f"Classifier: Programming Language :: Python :: {python}" in metadata
    assert not [line for line in metadata if line.startswith("Classifier: License ::")]


def test_a_build_without_settings_says_what_is_missing(tmp_path, python, backend):
    copy = py.copy_source(tmp_path / "source")
    (copy / "settings.ini").unlink()
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    with pytest.raises(py.StepFailed, match=r"settings\.ini is missing from .*; take a complete"):
        with_backend(python, backend, code, copy)


def test_a_wheel_built_from_the_sdist_imports_and_fits(wheel_python, folder, tmp_path):
    assert fits(wheel_python, tmp_path).is_relative_to(folder / "env")


def test_the_sdist_itself_installs_imports_and_fits(wheel_python, sdist, folder, tmp_path):
    again = ("install", "--no-compile", "--no-deps", "--force-reinstall", sdist)
    pip_or_skip(wheel_python, "installing the sdist", *again, cwd=tmp_path)
    records = (folder / "env").rglob("hmmop_nb-*.dist-info/direct_url.json")
    assert [sdist.name in record.read_text() for record in records] == [True]
    assert fits(wheel_python, tmp_path).is_relative_to(folder / "env")
