"""No malformed call ends in anything but an answer or an error that names the argument."""
import inspect
import random

import pytest

import fuzz
import hmmop_nb as hm

TARGETS = fuzz.targets()
# what takes a Problem that was checked when it was posed, or is a part of a sampler: not for users, but other modules import it
MACHINERY = """inference.label_probabilities inference.best_match inference.best_labels inference.in_parts gaps.undecided gaps.cut_gaps
reading.as_objects reading.is_missing reading.is_text
gaps.Latent gaps.expected_latent gaps.bridge_counts gaps.GapTables gaps.gap_tables gaps.Gaps gaps.draw_gaps gaps.GapsSampler
gaps.AugmentedSampler gaps.FreeSampler gaps.ListSampler gaps.PaperState gaps.PaperInfo gaps.share_of_gaps gaps.PaperSampler gaps.gaps_sampler
psi.Identifiability psi.LossIdentifiability psi.CommonPsi psi.length_weights psi.open_psi reading.anndata_table reading.may_miss reading.blank_codes reading.read_for fit.Comparison
fit.StateChoice fit.Method limits.Limit limits.Plan""".split()
MODULES = dict(transforms=hm.transforms, inference=hm.inference, gaps=hm.gaps, em=hm.em, psi=hm.psi, plot=hm.plot, chains=hm.chains, limits=hm.limits,
               reading=hm.engine.reading, fit=fuzz.fit)


@pytest.fixture(autouse=True, scope="module")
def folder():
    with fuzz.own_folder(): yield


def public_names():
    "Everything that users can call, by name."
    for name in hm.__all__:
        thing = getattr(hm, name)
        yield name
        if not inspect.isclass(thing) or issubclass(thing, Warning): continue
        for part, method in inspect.getmembers(thing, callable):
            if not part.startswith("_") and method.__module__.startswith("hmmop_nb"): yield f"{name}.{part}"
    for short, module in MODULES.items():
        for name in module.__all__:
            if callable(getattr(module, name)) and name not in hm.__all__: yield f"{short}.{name}"


def test_everything_public_is_attacked():
    attacked = {target.name.split(",")[0] for target in TARGETS} | set(MACHINERY) | {"SamplingWarning"}
    missing = [name for name in public_names() if name not in attacked]
    assert not missing, f"add them to tests/fuzz.py: {missing}"
    assert not [name for name in MACHINERY if name not in set(public_names())], "gone from the public names: take them out here"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_parameter_is_attacked(target):
    known = inspect.signature(target.call).parameters.values()
    left_out = [p.name for p in known if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in target.given]
    assert not left_out or target.only, f"add {left_out}"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_one_wrong_argument(target):
    found = fuzz.flaws_of(target)
    assert not found, "\n".join(f"{flaw.argument} = {flaw.value}: {flaw.outcome}" for flaw in found[:20])


@pytest.mark.parametrize("target", [t for t in TARGETS if len(t.only or t.given) > 1], ids=lambda target: target.name)
def test_several_wrong_arguments(target):
    found = fuzz.flaws_of_several(target, random.Random(target.name), 40)
    assert not found, "\n".join(f"{flaw.argument} = {flaw.value}: {flaw.outcome}" for flaw in found[:20])
