"""The exact versions with which the suite passes are written down, and are what settings.ini allows."""
import sys
from pathlib import Path

import pytest

pytest.importorskip("packaging")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import constraints

PINS = constraints.pinned()


def version_of(pin): return str(pin.specifier).removeprefix("==")


def test_all_that_is_asked_for_is_pinned_to_what_is_allowed():
    for requirement in constraints.wanted():
        pin = PINS.get(constraints.canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name}: run tools/constraints.py"
        assert requirement.specifier.contains(version_of(pin)), f"{pin} is not {requirement}"


def test_pins_are_exact_and_for_pythons_that_have_them():
    "On another Python the file says nothing, so that nothing it does not have is asked for."
    for pin in PINS.values():
        assert len(pin.specifier) == 1 and str(pin.specifier).startswith("==") and "*" not in str(pin.specifier), pin
        assert not pin.marker.evaluate({"python_version": "3.10"}) and pin.marker.evaluate({"python_version": "3.12"}), pin


def test_what_is_installed_is_what_is_written_down():
    "A suite that passes with other versions is fine; but these are not the ones that the file promises."
    have = constraints.installed()
    other = [f"{name} {have[name]} instead of {version_of(pin)}" for name, pin in PINS.items()
             if name in have and pin.marker.evaluate() and have[name] != version_of(pin)]
    new = [name for name in have if name not in PINS]
    if other or new: pytest.skip("; ".join(other + [f"{name} is not in the file" for name in new]))
