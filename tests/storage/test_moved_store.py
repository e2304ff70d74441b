"""A store that is moved away, replaced or unlocked under its writer: the writer stops, and touches nothing there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from tests.storage.opened import open_ring
from tests.storage.records import fill, raw_batch, reject, stored_numbers
from treering.storage.catalog import Change
from treering.storage.cut import cut_older
from treering.storage.errors import StoreError
from treering.storage.excision import Act
from treering.storage.files import OsFiles
from treering.storage.ring import Ring
from treering.storage.wal import wal_path

LOST = "is not the store that this writer opened"


def entries(path: Path) -> dict[str, bytes]:
    """Every file below a directory, but for the text in `LOCK`."""
    return {
        str(file.relative_to(path)): b"" if file.name == "LOCK" else file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


def numbers_of(path: Path, *, is_clean: bool = True) -> list[int]:
    assert not is_clean or tr.check(path, deep=True).is_clean
    with open_ring(path, "r") as ring:
        return stored_numbers(ring)


def moved(path: Path) -> Path:
    """Move the store away; another one comes to its place."""
    aside = path.rename(path.with_name("aside"))
    begun(path)
    return aside


def begun(path: Path) -> None:
    """Make another store and let its writer die with events in the log and the next file of the log begun."""
    with open_ring(path) as other:
        other.append(raw_batch(range(3)))
        other.flush()
        other.append(raw_batch(range(3, 5)))


def replaced(path: Path) -> Path:
    """The same, but the store is not moved away: it is gone."""
    shutil.rmtree(path)
    begun(path)
    return path


def unlocked(path: Path) -> Path:
    """Remove `LOCK`, so that another writer comes in and goes on."""
    (path / "LOCK").unlink()
    with open_ring(path) as other:
        n = other.next_seq
        other.append(raw_batch(range(n, n + 2)))
    return path


def gone(path: Path) -> Path:
    """Move the store away; nothing comes to its place."""
    return path.rename(path.with_name("aside"))


CALLS: dict[str, Callable[[Ring], object]] = {
    "append": lambda ring: ring.append(raw_batch([ring.next_seq])),
    "flush": Ring.flush,
    "settle": Ring.settle,
    "compact": Ring.compact,
    "fold": Ring.fold,
    "embed": fill,
    "erase": lambda ring: ring.erase(lambda state: cut_older(state, 2 * 10**9), Act("expire", {})),
    "commit": lambda ring: ring._writing().commit(Change(acts=[("look", {})])),
    "repair": Ring.repair,
    "abort": Ring.abort_move,
}


@pytest.mark.parametrize("happens", [moved, replaced, unlocked, gone])
@pytest.mark.parametrize("call", CALLS)
def test_a_writer_whose_store_is_another_one_says_so_and_touches_nothing(
    path: Path, happens: Callable[[Path], Path], call: str
) -> None:
    ring = open_ring(path)
    for n in (0, 4, 8):
        ring.append(raw_batch(range(n, n + 4)), rejects=[reject(n)])
        if n < 8:
            ring.flush()
    happens(path)
    before = entries(path.parent)
    for _ in range(2):
        with pytest.raises(StoreError, match=LOST) as caught:
            CALLS[call](ring)
        assert "\n" not in str(caught.value) and "close this one" in str(caught.value)
    assert ring.is_stopped
    ring.close()
    assert entries(path.parent) == before


def test_what_was_acknowledged_is_in_the_directory_that_was_moved_and_in_no_other(path: Path) -> None:
    ring = open_ring(path)
    ring.append(raw_batch(range(4)))
    aside = moved(path)
    with pytest.raises(StoreError, match=LOST):
        ring.append(raw_batch([4]))
    with pytest.raises(StoreError, match="writes to it"):
        open_ring(aside)  # that store is held until its writer is closed
    ring.close()
    assert numbers_of(path) == list(range(5))
    assert numbers_of(aside) == list(range(4))
    with open_ring(aside) as again:
        again.append(raw_batch([4]))
    assert numbers_of(aside) == list(range(5))


def test_what_two_writers_acknowledged_around_a_removed_lock_is_all_there(path: Path) -> None:
    first = open_ring(path)
    first.append(raw_batch(range(4)))
    (path / "LOCK").unlink()
    with open_ring(path) as second:
        second.append(raw_batch([4]))
        with pytest.raises(StoreError, match=LOST):
            first.append(raw_batch([5]))
        second.flush()
        with pytest.raises(StoreError, match=LOST):
            first.flush()
        second.append(raw_batch([5]))
        first.close()
    assert numbers_of(path) == list(range(6))


def test_a_store_that_comes_back_is_not_taken_up_again_by_a_writer_that_missed_it(path: Path) -> None:
    ring = open_ring(path)
    ring.append(raw_batch(range(2)))
    aside = gone(path)
    with pytest.raises(StoreError, match=LOST):
        ring.flush()
    aside.rename(path)
    with pytest.raises(StoreError, match=LOST):
        ring.append(raw_batch([2]))
    ring.close()
    assert numbers_of(path) == [0, 1]


def test_closing_a_store_that_was_moved_says_so_once_and_lets_go_of_it(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    store = tr.open(path, compacts=False)
    store.append([{"n": 1, "ts": 1_777_593_600}])
    aside = gone(path)
    with pytest.raises(tr.StoreError, match=LOST):
        store.close()
    store.close()
    with tr.open(aside) as again:
        assert [row["n"] for row in again.query("*")] == [1]


class MovingFiles(OsFiles):
    """Files behind whose change `at`, counted from 1, something happens."""

    def __init__(self, happens: Callable[[], object] = lambda: None, at: int = 0) -> None:
        self.happens, self.at, self.n_changes = happens, at, 0

    def did(self) -> None:
        self.n_changes += 1
        if self.n_changes == self.at:
            self.happens()


def _watched(name: str) -> Callable[..., Any]:
    def change(files: MovingFiles, *arguments: Any) -> Any:
        done = getattr(OsFiles, name)(files, *arguments)
        files.did()
        return done

    return change


for _name in ("create", "mkdir", "fsync_dir", "link", "rename", "unlink", "rmtree"):
    setattr(MovingFiles, _name, _watched(_name))


def test_a_store_that_is_moved_in_the_middle_of_a_flush_leaves_the_other_one_as_it_is(tmp_path: Path) -> None:
    def life(place: Path, at: int) -> int:
        """Flush, and let another store come in behind the change `at`; gives how many changes there were."""
        place.mkdir()
        path, other, aside = place / "ring", place / "other", place / "aside"
        begun(other)
        before = entries(other)

        def happens() -> None:
            path.rename(aside)
            other.rename(path)

        files = MovingFiles(happens)
        ring = open_ring(path, files=files)
        ring.append(raw_batch(range(4)), rejects=[reject(0)])
        files.n_changes, files.at = 0, at
        with suppress(StoreError):
            ring.flush()
        if at:
            with pytest.raises(StoreError, match=LOST):
                ring.append(raw_batch([4]))
            assert entries(path) == before
            assert numbers_of(aside, is_clean=False) == list(range(4))
        ring.close()
        if at:
            with open_ring(aside):
                pass  # which sweeps what the flush left
            assert numbers_of(aside) == list(range(4))
        return files.n_changes

    n_changes = life(tmp_path / "0", 0)
    assert n_changes > 15
    for at in range(1, n_changes + 1):
        life(tmp_path / str(at), at)


# -- what a call that fails takes away again --------------------------------------------------------------------------


@pytest.fixture
def ring(path: Path) -> Iterator[Ring]:
    with open_ring(path) as opened:
        opened.append(raw_batch(range(4)), rejects=[reject(0)])
        yield opened


def test_a_flush_that_finds_the_next_file_of_the_log_leaves_it(path: Path, ring: Ring) -> None:
    theirs = wal_path(path / "wal", 2)
    theirs.write_bytes(b"of somebody else")
    with pytest.raises(StoreError, match=r"000002\.wal.*close the store and open it again"):
        ring.flush()
    assert theirs.read_bytes() == b"of somebody else"
    assert ring.is_stopped


@pytest.mark.parametrize(
    "name", ["rejects/{:08d}.arrow", "meta/segments-{:08d}.json", "meta/rejects-{:08d}.json"]
)
def test_a_flush_that_finds_a_file_where_it_would_make_one_leaves_it(
    path: Path, ring: Ring, name: str
) -> None:
    for number in range(30):
        (path / name.format(number)).touch(exist_ok=True)
    before = set(entries(path))
    with pytest.raises(StoreError, match="File exists"):
        ring.flush()
    assert before <= set(entries(path))


def test_a_backup_whose_directory_becomes_another_one_leaves_that_as_it_is(tmp_path: Path) -> None:
    with open_ring(tmp_path / "source") as ring:
        for n in (0, 4):
            ring.append(raw_batch(range(n, n + 4)))
            ring.flush()
        ring.append(raw_batch(range(8, 9)))
        n_changes = 0
        for at in range(60):
            place = tmp_path / str(at)
            place.mkdir()
            other, target = place / "other", place / "copy"
            begun(other)
            before = entries(other)

            def happens(target: Path = target, other: Path = other) -> None:
                target.rename(target.with_name("aside"))
                other.rename(target)

            files = MovingFiles(happens, at)
            ring._files = files
            with suppress(StoreError):
                ring.backup(target)
            n_changes = n_changes or files.n_changes
            # The first change makes the directory, before it is locked.
            if 3 < at < n_changes:
                assert entries(target) == before
    assert n_changes > 20
