"""The one writer of a store: what it leaves behind when something goes wrong between two steps."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.handles import Through
from tests.storage.records import MODEL, decode, numbers_in, raw_batch, vectors_of
from tests.storage.words import ACT, files_with, having, open_words, words
from treering.storage.cleaner import Cleaner
from treering.storage.errors import StoreError
from treering.storage.files import Handle, OsFiles
from treering.storage.ring import Ring

SECRET = "zqalice"


def names(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*")}


def test_a_sidecar_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    with Ring.open(tmp_path / "ring", decoder=decode, files=files) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(4)))
        ring.flush()
        (segment,) = ring.unfinished()
        vectors, before = vectors_of(segment.vectors().key), names(ring.path)
        at, has_failed = 0, True
        while has_failed:
            fault = Fault(at, errno.ENOSPC, is_torn=True, among=("create", "write"))
            files.n_calls, files.fault = 0, fault
            has_failed = False
            try:
                ring.add_late(segment.id, vectors=vectors, signals_done=True)
            except StoreError:
                has_failed, at = True, at + 1
                assert names(ring.path) == before
        assert at > 2


class InterruptedFiles(OsFiles):
    """Files of which the user interrupts the making of the first one of a segment."""

    def __init__(self) -> None:
        self.is_interrupted = False

    def create(self, path: Path) -> Handle:
        if self.is_interrupted and path.suffix == ".arrow":
            raise KeyboardInterrupt
        return super().create(path)


def test_an_opening_that_is_interrupted_lets_go_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody keeps the error: a notebook does."""
    path, files = tmp_path / "ring", InterruptedFiles()
    with open_words(path) as ring, monkeypatch.context() as patch:
        ring.append(words([(10, f"login {SECRET}"), (20, "login bob")]))
        patch.setattr(Cleaner, "clean", lambda self: ({}, ()))
        ring.erase(having(SECRET), ACT)
    assert files_with(path, SECRET)
    files.is_interrupted = True
    with pytest.raises(KeyboardInterrupt) as kept:
        open_words(path, files=files)
    with open_words(path) as ring:
        assert not files_with(path, SECRET)
        assert ring.next_seq == 2
    assert kept.value is not None


class FailingClose(OsFiles):
    """Files whose log cannot be closed: a network file system may tell of a failure only then."""

    def append(self, path: Path) -> Handle:
        return ClosingBadly(super().append(path), path)


class ClosingBadly(Through):
    """An open file that fails once it is closed, if it is of the log."""

    def __init__(self, handle: Handle, path: Path) -> None:
        super().__init__(handle)
        self.path = path

    def close(self) -> None:
        self.handle.close()
        if self.path.suffix == ".wal":
            raise OSError(errno.EIO, "made to fail", str(self.path))


def test_a_close_that_fails_lets_go_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    ring = Ring.open(path, decoder=decode, files=FailingClose())
    ring.append(raw_batch(range(3)))
    with suppress(OSError):
        ring.close()
    with Ring.open(path, decoder=decode) as again, again.snapshot() as snapshot:
        assert numbers_in(snapshot) == [0, 1, 2]


@pytest.mark.parametrize("is_read", [False, True])
def test_what_was_erased_is_gone_from_the_disk_too_once_that_is_said(tmp_path: Path, is_read: bool) -> None:
    """A power loss right behind the answer brings no removed file back."""
    live, left = tmp_path / "live", tmp_path / "left"
    for place in (live, left):
        place.mkdir()
    files = FaultyFiles(live)
    with open_words(live / "ring", files=files) as ring:
        ring.append(words([(10, f"login {SECRET}"), (20, "login bob")]))
        ring.flush()
        ring.append(words([(30, f"paid {SECRET}"), (10**7, f"paid {SECRET}")]))
        if is_read:
            with open_words(live / "ring", mode="r") as reader, reader.snapshot():
                assert not ring.erase(having(SECRET), ACT).is_erased
            assert ring.erase(having(SECRET), ACT).is_erased
        else:
            assert ring.erase(having(SECRET), ACT).is_erased
        files.after_power_loss(left, None)
    assert files_with(left, SECRET) == set()


def test_an_erasure_whose_shadow_stays_says_that_the_events_are_deleted(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    with open_words(tmp_path / "ring", files=files) as ring:
        ring.append(words([(10, f"login {SECRET}"), (20, "login bob")]))
        ring.set_model(MODEL)
        (ring.path / "reembed").mkdir()
        files._directories.add(ring.path / "reembed")
        files.n_calls, files.fault = 0, Fault(0, errno.EBUSY, among=("rmtree",))
        with pytest.raises(StoreError, match=r"1 events are deleted and nobody sees them any more"):
            ring.erase(having(SECRET), ACT)
        files.fault = None
        assert ring.erase(having(SECRET), ACT).record is None
        assert not (ring.path / "reembed").exists()
        assert files_with(ring.path, SECRET) == set()
