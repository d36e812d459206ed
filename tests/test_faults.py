"Full discs, closed folders, damaged and hostile files: a clear error, and nothing is lost."
import errno
import io
import os
import pickle
import stat
import threading
import time
import tracemalloc
import zipfile
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine import driver, files
from hmmop_nb.engine.driver import Sampler, run_chains
from hmmop_nb.engine.posterior import Posterior
from hmmop_nb.engine.random import Stream, sweep_rng

DATA = hm.degree_chain(3, 2, psi=.3, seed=0).sample(5, 12, seed=1).sequences
RUN = dict(n_states=3, draws=12, warmup=3, chains=2, seed=1, progress=False)


def fit(path, **more): return hm.fit_naive(DATA, checkpoint=path, **RUN | more)


@pytest.fixture(scope="module")
def expected(): return fit(None).T.tobytes()


@pytest.fixture
def half(tmp_path):
    "A checkpoint half-way."
    fit(tmp_path / "run.npz", draws=6)
    return tmp_path / "run.npz"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_leaves_the_old_file(half, expected, number, monkeypatch):
    "The disc is full, read-only, over quota or broken when the new checkpoint is flushed."
    old = half.read_bytes()
    def fail(_): raise OSError(number, os.strerror(number))
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fail)
        said = "checkpoint: .*run.npz.* could not be written.*last complete one.*repeat the call"
        with pytest.warns(hm.SamplingWarning, match=said) as caught: done = fit(half)
    assert done.T.tobytes() == expected, "the draws are made, and are not lost"
    assert len(caught) == 1 and done.info["warnings"] == [str(caught[0].message)]
    assert half.read_bytes() == old
    assert [p.name for p in half.parent.iterdir()] == ["run.npz"], "no litter"
    assert fit(half).T.tobytes() == expected


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_a_real_limit_on_file_size(half, expected):
    "No mock: the kernel itself refuses to let the file grow."
    import resource
    import signal
    old, limits = half.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(hm.SamplingWarning, match="could not be written"): done = fit(half)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert done.T.tobytes() == expected
    assert half.read_bytes() == old and fit(half).T.tobytes() == expected


def test_a_disc_that_is_full_for_a_while_costs_nothing(tmp_path, monkeypatch):
    "Saves fail, then succeed again: one warning, and the last checkpoint is the whole run."
    path, real, fails = tmp_path / "run.npz", os.fsync, iter([True] * 5)
    def fail(number):
        if next(fails, False): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)
    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.warns(hm.SamplingWarning, match="could not be written") as caught:
        done = run_chains(Slow(), **FEW, checkpoint=path, checkpoint_every=0.)
    assert len(caught) == 1 and "warnings" not in done.info and next(fails, None) is None
    assert run_chains(Plain(), **FEW, checkpoint=path).T.tobytes() == done.T.tobytes()


def test_a_folder_that_is_closed_is_refused_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = "checkpoint: the folder .* is not writable; choose another"
    with pytest.raises(ValueError, match=said): fit(tmp_path / "run.npz")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="checkpoint: there is no folder"):
        fit(tmp_path / "file" / "run.npz")


def test_a_file_that_is_cut_short_is_refused_at_any_length(half):
    whole = half.read_bytes()
    for n in np.random.default_rng(0).integers(0, len(whole), 40):
        half.write_bytes(whole[:n])
        with pytest.raises(ValueError, match="checkpoint: "): fit(half)
        assert half.read_bytes() == whole[:n], "what is left of it is not touched"


def parts_of(path):
    "Places of a file: those that say what is in it, and those of the numbers."
    inside = np.zeros(path.stat().st_size, bool)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                begin = stream._orig_compress_start # where the member's own bytes begin
                np.lib.format.read_magic(stream)
                np.lib.format.read_array_header_1_0(stream)
                body = slice(begin + stream.tell(), begin + member.file_size)
            if member.filename != "header.npy": inside[body] = True
    return np.flatnonzero(~inside), np.flatnonzero(inside)


def flips(path, places):
    "Write the file once for each place, with a bit flipped there."
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for place in places:
        flipped = bytes([whole[place] ^ 1 << int(rng.integers(8))])
        path.write_bytes(whole[:place] + flipped + whole[place + 1:])
        yield place
    path.write_bytes(whole)


def test_a_flipped_bit_of_a_checkpoint_is_noticed_or_harmless(half, expected):
    about, numbers = parts_of(half)
    rng, harmless = np.random.default_rng(0), 0
    for place in flips(half, [*rng.choice(about, 300, False), *rng.choice(numbers, 60, False)]):
        try: assert fit(half).T.tobytes() == expected, place
        except ValueError as error: assert str(error).startswith(f"checkpoint: '{half}'"), error
        else: harmless += 1
    assert harmless < 360, "the bits were flipped"


def test_a_flipped_bit_of_a_posterior_is_noticed_or_harmless(tmp_path):
    "Every byte that says what is in the file, and some of the numbers."
    path, post = tmp_path / "post.npz", fit(None)
    post.save(path)
    about, numbers = parts_of(path)
    names = ["T", "start", "psi", "log_density", *post.emission, *post.extra, *post.stats]
    def content(post): return [post.family, post.info, *(post._values(x).tolist() for x in names)]
    same, harmless, some = content(post), 0, np.random.default_rng(0).choice(numbers, 200, False)
    for place in flips(path, [*about, *some]):
        try: assert content(Posterior.load(path)) == same, place
        except ValueError as error: assert str(error).startswith(f"path: '{path}'"), error
        else: harmless += 1
    assert 0 < harmless < len(about) / 2, "dates and the like do no harm, the rest is noticed"


def forge(path, change):
    "Change header or arrays of a file; its checksums are right."
    header, arrays = files.read_npz(path, "checkpoint")
    change(header, arrays)
    files.write_npz(path, header, arrays)


FORGERIES = {
    "draws cut": lambda h, a: a.update({"0/draws/T": a["0/draws/T"][:3]}),
    "draws of another shape": lambda h, a: a.update(
        {f"{i}/draws/means": a[f"{i}/draws/means"][:, :2] for i in range(2)}),
    "draws missing": lambda h, a: a.pop("1/draws/T"),
    "a field missing": lambda h, a: a.pop("0/state/theta.T"),
    "a field of another kind": lambda h, a: a.update({"0/state/theta.T": np.arange(3)}),
    "more draws than sweeps": lambda h, a: h["chains"][0].update(kept=7),
    "sweeps in words": lambda h, a: h["chains"][0].update(sweep="nine"),
    "no chains": lambda h, a: h.update(chains=[]),
    "one chain": lambda h, a: h["chains"].pop(),
    "chains are a number": lambda h, a: h.update(chains=7),
    "no identity": lambda h, a: h.pop("identity"),
    "identity is a list": lambda h, a: h.update(identity=[]),
    "key in words": lambda h, a: h["identity"].update(key="abc"),
    "key too large": lambda h, a: h["identity"].update(key=2**80),
    "rows do not sum to one": lambda h, a: a.update({"0/draws/T": a["0/draws/T"] * 2}),
    "a scale below zero": lambda h, a: a.update({"0/draws/scales": -a["0/draws/scales"]}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_checkpoint_is_refused_by_name(half, name):
    forge(half, FORGERIES[name])
    for draws in (12, 6): # to go on from, and finished
        if draws == 6 and name.startswith(("a field", "draws of another")): continue # not looked at
        with pytest.raises(ValueError, match="^checkpoint: .*run.npz"): fit(half, draws=draws)


def test_what_grows_in_memory_is_refused(tmp_path):
    "A small file whose members would unpack to a quarter of a gigabyte is not unpacked."
    path, post = tmp_path / "post.npz", fit(None)
    post.save(path)
    with zipfile.ZipFile(path) as archive:
        members = [(x.filename, archive.read(x)) for x in archive.infolist()]
    header = io.BytesIO()
    claim = dict(shape=(2**25,), fortran_order=False, descr="<f8")
    np.lib.format.write_array_header_1_0(header, claim)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members: archive.writestr(name, data)
        with archive.open("array/extra/zeros.npy", "w", force_zip64=True) as stream:
            stream.write(header.getvalue())
            for _ in range(16): stream.write(bytes(2**24))
    assert path.stat().st_size < 1e6
    tracemalloc.start()
    with pytest.raises(ValueError, match="path: .*compressed"): Posterior.load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1e7


def test_an_impossible_value_is_refused_on_load(tmp_path):
    path, post = tmp_path / "post.npz", fit(None)
    replace(post, psi=np.full(post.psi.shape, 7.)).save(path)
    with pytest.raises(ValueError, match=r"path: .*psi\[0, 0, 0\] is 7.0.*between 0 and 1"):
        Posterior.load(path)


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


@posix
def test_only_files_are_replaced(tmp_path):
    "A pipe and a device are refused, by name and before the run; a link is followed to its file."
    pipe, post = tmp_path / "pipe", fit(None)
    os.mkfifo(pipe)
    for target in (pipe, os.devnull):
        with pytest.raises(ValueError, match="path: .*not a file"): post.save(target)
        with pytest.raises(ValueError, match="path: .*not a file"): Posterior.load(target)
        with pytest.raises(ValueError, match="checkpoint: .*not a file"): fit(target)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and stat.S_ISCHR(os.stat(os.devnull).st_mode)
    post.save(tmp_path / "real.npz")
    (tmp_path / "link.npz").symlink_to("real.npz")
    fit(None, seed=2).save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert Posterior.load(tmp_path / "real.npz").info["seed"] == 2


@posix
def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "run.npz"
    for mode in (0o600, 0o640):
        for write in (fit(None).save, fit):
            path.unlink(missing_ok=True)
            write(path)
            path.chmod(mode)
            if write == fit: fit(path, draws=20)
            else: write(path)
            assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    "Not even one whose name was guessed."
    victim, post = tmp_path / "victim", fit(None)
    victim.write_text("precious")
    old_name = f".post.npz.{os.getpid()}-{threading.get_ident()}.part"
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "guessed")
    for name in (old_name, ".post.npz.guessed.part"): (tmp_path / name).symlink_to(victim)
    with pytest.raises(FileExistsError): post.save(tmp_path / "post.npz")
    monkeypatch.undo()
    post.save(tmp_path / "post.npz")
    assert victim.read_text() == "precious"


def test_a_path_is_not_a_pattern(tmp_path):
    "A checkpoint called * does not clear away what others left."
    others = [tmp_path / name for name in (".run.npz.1-2.part", ".notes.part", ".a.b.part")]
    for other in others:
        other.touch()
        os.utime(other, (0, 0))
    done = fit(tmp_path / "*")
    assert all(other.exists() for other in others)
    assert fit(tmp_path / "*").T.tobytes() == done.T.tobytes()


class Plain(Sampler):
    "Independent draws."
    name = "plain"
    def init(self, key): return Point(np.eye(2))
    def record(self, state):
        return dict(T=state.T, start=np.ones(2) / 2, psi=np.zeros(2), log_density=0.)
    def step(self, state, key, sweep, warm):
        return Point(sweep_rng(key, sweep, Stream.PARAMETERS).dirichlet([1, 1], 2)), Sweep(sweep)


class Slow(Plain):
    "The same, with time for a checkpoint after every sweep."
    def step(self, state, key, sweep, warm):
        time.sleep(.01)
        return super().step(state, key, sweep, warm)


class Point(NamedTuple):
    T: np.ndarray


class Sweep(NamedTuple):
    sweep: int


FEW = dict(draws=30, warmup=2, chains=1, seed=3, progress=False)


def test_two_runs_on_one_path_do_not_undo_each_other(tmp_path):
    "Both begin when there is no file; the second to write finds the first one's and leaves it."
    path, other = tmp_path / "run.npz", {}
    second = FEW | dict(seed=4, checkpoint=path)
    class First(Plain):
        def step(self, state, key, sweep, warm):
            if sweep == 0: other["done"] = run_chains(Plain(), **second)
            return super().step(state, key, sweep, warm)
    text = "checkpoint: .*another run.*path of its own"
    with pytest.warns(hm.SamplingWarning, match=text) as said:
        done = run_chains(First(), **FEW, checkpoint=path, checkpoint_every=0.)
    assert len(said) == 1 and done.info["warnings"] == [str(said[0].message)]
    assert done.T.tobytes() == run_chains(Plain(), **FEW).T.tobytes()
    again = run_chains(Plain(), **second)
    assert again.T.tobytes() == other["done"].T.tobytes()


def test_where_a_run_begins_belongs_to_its_identity(tmp_path):
    "Runs that begin with another psi or other emissions are other runs."
    path, start = tmp_path / "run.npz", [1 / 3] * 3
    def begin(psi, means):
        model = hm.HMMOP(np.full((3, 3), 1 / 3), start, hm.Gaussian(means, .5), psi)
        return hm.fit_matching(DATA, 12, checkpoint=path, init=model, **RUN)
    first = begin(.3, [0., 1., 2.])
    for psi, means in [(.4, [0., 1., 2.]), (.3, [0., 1., 2.1])]:
        with pytest.raises(ValueError, match="checkpoint: .*belongs to another run.*init"):
            begin(psi, means)
    assert begin(.3, [0., 1., 2.]).T.tobytes() == first.T.tobytes()


def test_draws_that_do_not_fit_into_memory_are_refused_before_the_first_sweep(monkeypatch):
    monkeypatch.setattr(driver, "memory_here", lambda: 2**30)
    symbols = np.random.default_rng(0).integers(0, 5000, 400)
    told = dict(n_states=20, emission="categorical", chains=1, seed=0, progress=False)
    said = "draws: 1 chain of 1000 draws take 1.49 GiB.*'probs'.*1 GiB of memory.*fewer draws"
    with pytest.raises(ValueError, match=said): hm.fit_naive([symbols], draws=1000, **told)
    assert hm.fit_naive([symbols], draws=2, warmup=0, **told).n_draws == 2


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    def saved(**arrays):
        np.savez(path, **arrays)
        return path.read_bytes()
    def headed(text): return saved(header=np.frombuffer(text, np.uint8))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as z: z.writestr("hello.txt", "hello")
    strangers = [b"PK", b"", b"hello", saved(a=np.eye(2)), saved(header=np.zeros(3, np.uint8)),
                 headed(b'{"kind": 1}'), (tmp_path / "x.zip").read_bytes(),
                 headed(b'{"kind": "checkpoint", "format_version": 99}')]
    for content in strangers:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint: "): fit(path)
        with pytest.raises(ValueError, match="path: "): Posterior.load(path)


class Hostile:
    "An object whose unpickling makes a file."
    def __init__(self, path): self.path = path
    def __reduce__(self): return open, (str(self.path), "w")


def test_no_file_runs_code(tmp_path):
    trap, path = tmp_path / "trap", tmp_path / "run.npz"
    bomb = np.array([Hostile(trap)], object)
    def as_npz(**arrays):
        np.savez(path, **arrays)
        return path.read_bytes()
    npy = io.BytesIO()
    np.save(npy, bomb, allow_pickle=True)
    text = b'{"kind": "checkpoint", "format_version": 1, "identity": {}, "chains": []}'
    header = np.frombuffer(text, np.uint8)
    hostile = [as_npz(header=bomb), as_npz(header=header, **{"array/T": bomb}), npy.getvalue(),
               pickle.dumps(Hostile(trap))]
    for content in hostile:
        path.write_bytes(content)
        for load in (lambda: fit(path), lambda: Posterior.load(path)):
            with pytest.raises(ValueError): load()
        assert not trap.exists()
    pickle.loads(pickle.dumps(Hostile(trap))).close()
    assert trap.exists(), "the trap itself works"
