from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from treering.storage.errors import ConfigError
from treering.storage.object_cache import DEFAULT_LIMIT_BYTES, FileCache, cache_from, read_size


def _never() -> bytes:
    raise AssertionError("it is kept")


def test_a_file_is_made_once_and_then_shared(tmp_path: Path) -> None:
    first, second = FileCache(tmp_path / "c"), FileCache(tmp_path / "c")
    assert first.get("s", "a", 3, lambda: b"abc").to_pybytes() == b"abc"
    assert second.get("s", "a", 3, _never).to_pybytes() == b"abc"
    assert (first.hits, first.misses, second.hits, second.misses) == (0, 1, 1, 0)
    assert second.get("t", "a", 3, lambda: b"xyz").to_pybytes() == b"xyz"


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    FileCache(tmp_path / "c").get("s", "a", 3, lambda: b"abc")
    assert (tmp_path / "c/s").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "c/s/a").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "c/s").iterdir()] == ["a"]


def test_a_file_of_another_size_is_made_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.get("s", "a", 3, lambda: b"abc")
    (tmp_path / "s/a").write_bytes(b"ab")
    assert cache.get("s", "a", 3, lambda: b"abc").to_pybytes() == b"abc"
    assert (tmp_path / "s/a").read_bytes() == b"abc"


def test_a_file_that_rotted_on_the_disk_is_made_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.get("s", "a", 3, lambda: b"abc")
    (tmp_path / "s/a").write_bytes(b"aXc")
    found = cache.get("s", "a", 3, lambda: b"abc", lambda kept: kept.to_pybytes() == b"abc")
    assert found.to_pybytes() == b"abc"
    assert cache.get("s", "a", 3, _never, lambda kept: kept.to_pybytes() == b"abc").to_pybytes() == b"abc"


def test_the_least_recently_used_go_first_and_what_is_mapped_stays_good(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)
    maps = [cache.get("s", str(n), 30, lambda: bytes(30)) for n in range(3)]
    for age, name in enumerate(("2", "0", "1")):
        os.utime(tmp_path / "s" / name, (1000 + age, 1000 + age))
    cache.get("s", "0", 30, _never)
    cache.get("s", "3", 30, lambda: bytes(30))
    assert {path.name for path in (tmp_path / "s").iterdir()} == {"0", "1", "3"}
    assert all(one.to_pybytes() == bytes(30) for one in maps)


def test_the_limit_holds_over_several_stores_and_processes(tmp_path: Path) -> None:
    for n in range(20):
        FileCache(tmp_path, 100).get(f"store {n % 3}", f"f{n}", 30, lambda: bytes(30))
        assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 100


def test_a_limit_of_nothing_and_a_disk_that_cannot_be_written_keep_files_in_memory(tmp_path: Path) -> None:
    assert FileCache(tmp_path / "c", 0).get("s", "a", 3, lambda: b"abc").to_pybytes() == b"abc"
    assert not (tmp_path / "c").exists()
    (tmp_path / "file").write_bytes(b"")
    assert FileCache(tmp_path / "file").get("s", "a", 3, lambda: b"abc").to_pybytes() == b"abc"


def test_what_is_dropped_is_made_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    for name in ("seg.a.x", "seg.a.y", "seg.ab.x"):
        cache.get("s", name, 1, lambda: b"1")
    cache.drop("s", "seg.a.")
    assert [cache.has("s", name, 1) for name in ("seg.a.x", "seg.a.y", "seg.ab.x")] == [False, False, True]
    cache.drop("never", "seg")


def test_two_threads_that_want_the_same_file_get_it(tmp_path: Path) -> None:
    cache, both = FileCache(tmp_path), threading.Barrier(2)

    def make() -> bytes:
        both.wait(10)
        return b"abc"

    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.get("s", "a", 3, make).to_pybytes()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"abc", b"abc"]
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["a"]


def test_the_environment_says_where_and_how_much(tmp_path: Path) -> None:
    own = cache_from({"TREERING_CACHE": str(tmp_path), "TREERING_CACHE_LIMIT": "2G"})
    assert (own.directory, own.limit_bytes) == (tmp_path / "objects", 2 << 30)
    base = cache_from({"XDG_CACHE_HOME": str(tmp_path)})
    assert (base.directory, base.limit_bytes) == (tmp_path / "treering/objects", DEFAULT_LIMIT_BYTES)
    assert cache_from({}).directory == Path.home() / ".cache/treering/objects"


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("0", 0), ("17", 17), ("3 KiB", 3072), ("5m", 5 << 20), ("1TB", 1 << 40)]
)
def test_sizes_are_read(text: str, n_bytes: int) -> None:
    assert read_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "much", "-1", "1.5G", "3X"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number of bytes"):
        read_size(text)
