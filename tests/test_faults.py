"Full discs, closed folders, damaged and hostile files: a clear error, and nothing is lost."
import errno
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

import hmmop_nb as hm
from hmmop_nb.engine import files
from hmmop_nb.engine.posterior import Posterior

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
        with pytest.raises(OSError, match=said): fit(half)
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
        with pytest.raises(OSError, match="could not be written"): fit(half)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert half.read_bytes() == old and fit(half).T.tobytes() == expected


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


def test_a_flipped_bit_is_noticed_or_harmless(half, expected):
    whole, rng = half.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 60):
        flipped = bytes([whole[place] ^ 1 << int(rng.integers(8))])
        half.write_bytes(whole[:place] + flipped + whole[place + 1:])
        try: assert fit(half).T.tobytes() == expected, place
        except ValueError as error: assert str(error).startswith("checkpoint: ")


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
