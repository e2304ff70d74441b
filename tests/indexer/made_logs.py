"""Logs of numbered lines in a few manners, loaded as bytes, and what came of them."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from treering.indexer.ingest import ingest
from treering.storage.ring import Ring

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def json_line(n: int, run: str = "a") -> bytes:
    return b'{"ts":%d,"run":"%s","n":%d,"text":"%s"}\n' % (
        1_777_593_600_000 + n,
        run.encode(),
        n,
        b"x" * (n % 50),
    )


def text_line(n: int, run: str = "a") -> bytes:
    second = b"2026-05-01 %02d:%02d:%02d" % (n // 3600 % 24, n // 60 % 60, n % 60)
    return b"%s INFO %s request %d done%s\n" % (second, run.encode(), n, b"\n  more" * (n % 3))


def untimed_line(n: int, run: str = "a") -> bytes:
    return b'{"run":"%s","n":%d}\n' % (run.encode(), n)


LINE_KINDS = {"json": json_line, "text": text_line, "untimed": untimed_line}


TIMED_KINDS = [json_line, text_line]


def log_of(make: Callable[..., bytes], stop: int, start: int = 0, run: str = "a") -> bytes:
    return b"".join(make(n, run) for n in range(start, stop))


def records_of(ring: Ring) -> list[bytes]:
    return [one.record for one in ring.acknowledged(0, ring.next_seq)]


def loaded(ring: Ring, data: bytes, name: str = "") -> list[bytes]:
    """Load bytes and give the records that came of it."""
    before, file = ring.next_seq, io.BytesIO(data)
    if name:
        file.name = name
    ingest(ring, file)
    return [one.record for one in ring.acknowledged(before, ring.next_seq)]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def split_log(data: bytes, make: Callable[..., bytes]) -> list[bytes]:
    """The records that a log is, by plain splitting."""
    if make is not text_line:
        return data.splitlines()
    return data.rstrip(b"\n").replace(b"\n2026", b"\0" + b"2026").split(b"\0") if data else []
