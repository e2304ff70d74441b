import bz2
import gzip
import io
import lzma
import os
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.indexer.fingerprints import anchors, fingerprint, free_fingerprint
from treering.indexer.sources import Input, opened, resolve
from treering.indexer.taken import Taken
from treering.storage.errors import InputError
from treering.storage.ledger import Position

_DATA = b"".join(b'{"n":%d}\n' % i for i in range(5000))


def _bytes(given: Input) -> tuple[bytes, list[str]]:
    warnings: list[str] = []
    (origin,) = resolve(given)
    with opened(origin, warnings.append) as chunks:
        return b"".join(chunks), warnings


def _file(tmp_path: Path, data: bytes, name: str = "x") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_all_compressions_give_the_same_bytes(tmp_path: Path) -> None:
    zstd = pa.compress(_DATA, "zstd", asbytes=True)
    packed = [gzip.compress(_DATA), bz2.compress(_DATA), lzma.compress(_DATA), zstd, _DATA]
    for i, data in enumerate(packed):
        assert _bytes(_file(tmp_path, data, f"f{i}")) == (_DATA, [])
        assert _bytes(io.BytesIO(data)) == (_DATA, [])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_members_are_joined_and_garbage_behind_them_is_one_warning(tmp_path: Path, compress: object) -> None:
    assert callable(compress)
    members = compress(b"a\n") + compress(b"") + compress(b"b\n")
    assert _bytes(_file(tmp_path, members)) == (b"a\nb\n", [])
    assert _bytes(_file(tmp_path, members + b"\0" * 512)) == (b"a\nb\n", [])
    data, warnings = _bytes(_file(tmp_path, members + b"garbage"))
    assert (data, len(warnings)) == (b"a\nb\n", 1)
    assert "ignored" in warnings[0]


def test_truncated_and_damaged_gzip_keep_what_came(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(200_000))
    data, warnings = _bytes(_file(tmp_path, packed[:150_000]))
    assert len(data) > 100_000 and len(warnings) == 1 and "ends early" in warnings[0]
    broken = bytearray(gzip.compress(_DATA * 50))
    broken[len(broken) // 2] ^= 0xFF
    data, warnings = _bytes(_file(tmp_path, bytes(broken)))
    assert (_DATA * 50).startswith(data[:1000]) and len(warnings) == 1


def test_truncated_zstd_keeps_what_came(tmp_path: Path) -> None:
    packed = pa.compress(os.urandom(3_000_000), "zstd", asbytes=True)
    data, warnings = _bytes(_file(tmp_path, packed[:2_500_000]))
    assert len(data) > 1_000_000 and len(warnings) <= 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_with_a_mark_is_read_as_utf8(tmp_path: Path, encoding: str) -> None:
    text = '{"a":"日志 é 😀"}\n'
    assert _bytes(_file(tmp_path, ("\ufeff" + text).encode(encoding)))[0].decode() == text


def test_a_path_that_exists_is_no_glob(tmp_path: Path) -> None:
    for name in ("a[1].log", "a1.log", "semi;colon & $(echo x).log", "été.log"):
        _file(tmp_path, b"x\n", name)
    assert [o.name for o in resolve(str(tmp_path / "a[1].log"))] == [str(tmp_path / "a[1].log")]
    assert [Path(o.name).name for o in resolve(str(tmp_path / "a*.log"))] == ["a1.log", "a[1].log"]
    assert len(resolve(tmp_path)) == 4


def test_folders_are_walked_sorted_without_hidden_and_binary_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.log", "a.log", ".hidden", "z.bin"):
        _file(tmp_path, b"\0" * 100 if name == "z.bin" else b"x\n", name)
    origins = resolve(tmp_path)
    assert [str(Path(o.name).relative_to(tmp_path)) for o in origins] == ["a.log", "b/2.log", "z.bin"]
    warnings: list[str] = []
    with opened(origins[2], warnings.append) as chunks:
        assert b"".join(chunks) == b""
    assert len(warnings) == 1


def test_names_that_are_no_utf8_are_spelled_out(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a\xff.log"
    try:
        Path(os.fsdecode(path)).write_bytes(b"x\n")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (origin,) = resolve(os.fsdecode(path))
    assert origin.name.endswith("a\\xff.log")


@pytest.mark.parametrize("name", ["missing.log", "missing*.log"])
def test_what_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        resolve(str(tmp_path / name))


def test_wrong_kinds_of_input_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="binary mode"):
        resolve(io.StringIO("x"))
    with pytest.raises(InputError, match="Parquet"):
        _bytes(_file(tmp_path, b"PAR1" + b"\0" * 20))


def _taken(data: bytes, size: int) -> Taken:
    return Taken(iter([data[i : i + size] for i in range(0, len(data), size)]))


@given(st.binary(max_size=400), st.integers(1, 60), st.lists(st.integers(0, 400), min_size=2, max_size=2))
def test_going_back_gives_the_same_bytes_and_digests(data: bytes, size: int, places: list[int]) -> None:
    kept_from, digested = sorted(min(place, len(data)) for place in places)
    taken = _taken(data, size)
    assert taken.reaches(kept_from)
    taken.digest(kept_from)
    taken.keep()
    assert taken.kept_from == kept_from and taken.reaches(digested)
    taken.digest(digested)
    assert b"".join(taken.kept(digested)) == data[digested : taken.offset]
    taken.go_back(digested)
    assert taken.skip(digested) + b"".join(taken) == data[digested:]
    assert taken.digest(len(data)) == blake2b(data).hexdigest()
    assert taken.head() == data[:4096] and taken.offset == len(data)


def test_going_back_before_what_is_kept_begins_anew() -> None:
    data = b"a\nb\nc"
    taken = Taken(iter([data]), restart=lambda: iter([data]))
    taken.reaches(4)
    taken.digest(4)
    taken.keep()
    taken.go_back(2)
    assert taken.skip(2) == b"b\nc"
    assert taken.digest(6) == blake2b(data).hexdigest() and taken.line_start == 4


class _Names:
    """A ledger that only knows names, and counts how often it is asked."""

    def __init__(self, names: set[str]) -> None:
        self.names, self.n_asked = names, 0

    def position(self, fingerprint: str) -> Position | None:
        self.n_asked += 1
        return Position(fingerprint, "a", 0, 0, "") if fingerprint in self.names else None


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 1000, 4095])
def test_the_next_free_name_is_found_in_few_steps(n: int) -> None:
    wanted = fingerprint(b"a\n")
    known = _Names({f"{wanted}-{i}" if i else wanted for i in range(n)})
    assert free_fingerprint(known, b"a\nb") == (f"{wanted}-{n}" if n else wanted)
    assert known.n_asked <= 30


def test_the_running_digest_is_that_of_the_prefix() -> None:
    taken = Taken(iter([b"abc", b"defg", b"h"]))
    assert next(iter(taken)) == b"abc"
    assert taken.digest(2) == blake2b(b"ab").hexdigest()
    assert taken.skip(5) == b"fg"
    assert taken.digest(5) == blake2b(b"abcde").hexdigest()
    assert b"".join(taken) == b"h"
    assert taken.digest(8) == blake2b(b"abcdefgh").hexdigest()
    assert taken.head(4) == b"abcd"


def test_anchors_are_whole_lines_longest_first() -> None:
    assert anchors(b"ab\ncd\nef") == [b"ab\ncd\nef", b"ab\ncd\n", b"ab\n", b"ab"]
    assert anchors(b"") == []
