"""Editors know the package: pyright finds no error in what users write."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYRIGHT = ROOT / ".venv" / "npm" / "node_modules" / "pyright" / "index.js"


def complaints(folder, *files):
    "What pyright says about some files, the package being this one."
    if not PYRIGHT.exists() or shutil.which("node") is None:
        pytest.skip("pyright is not here: `make .venv/npm/ready` installs it with npm")
    config = dict(typeCheckingMode="basic", extraPaths=[str(ROOT)], include=[path.name for path in files])
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(["node", PYRIGHT, "--outputjson", "-p", str(folder), "--pythonpath", sys.executable],
                          capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] >= len(files), done.stdout[:500]
    return [f"{Path(x['file']).name}:{x['range']['start']['line'] + 1}: {x['message']}"
            for x in found["generalDiagnostics"] if x["severity"] == "error"]


def test_every_promised_call_is_known_to_editors(tmp_path):
    shutil.copy(ROOT / "tests" / "typed_use.py", tmp_path)
    assert complaints(tmp_path, tmp_path / "typed_use.py") == []


def test_readme_is_known_to_editors(tmp_path):
    blocks = re.findall(r"^``` ?python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(blocks) >= 3
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    assert complaints(tmp_path, tmp_path / "readme.py") == []


def test_a_wrong_call_is_found(tmp_path):
    "Without this, a pyright that sees nothing would pass as well."
    (tmp_path / "wrong.py").write_text("import hmmop_nb as hm\nhm.fit_naive([[0.]], draw=3)\nhm.Posterior.nothing\n")
    assert len(complaints(tmp_path, tmp_path / "wrong.py")) == 2
