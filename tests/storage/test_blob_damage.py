"""Damaged payloads: who needs them is told, a salvage keeps all else, and a check finds those that are wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.any_records import (
    blob_files,
    chat,
    decode,
    head_of,
    held,
    open_any,
    picture,
    put,
    segments_of,
)
from treering.storage.batch import KEY, TextParts
from treering.storage.blob_file import BlobFile
from treering.storage.columns import Placed
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.findings import CheckReport
from treering.storage.layout import Layout
from treering.storage.payloads import NO_PAYLOADS, Payloads
from treering.storage.record_cuts import cut_out
from treering.storage.salvage import salvage


def damaged_store(path: Path) -> list[bytes]:
    """Make a store of one segment; of 24 events every third has no picture, and each picture is in two."""
    records = [b"no picture" if n % 3 == 2 else chat(n, picture(n // 3, 300_000)) for n in range(24)]
    with open_any(path) as ring:
        put(ring, records)
    return records


def flip(path: Path, place: int) -> None:
    whole = bytearray(path.read_bytes())
    whole[place] ^= 1
    path.write_bytes(whole)


def flip_without_sums(path: Path) -> None:
    flip(path, path.stat().st_size // 2)
    (path.parent / "segment.json").unlink()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5000]),
    "flipped": lambda path: flip(path, path.stat().st_size // 2),
    "flipped without checksums of blocks": flip_without_sums,
    "flipped at the end": lambda path: flip(path, path.stat().st_size - 200),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_costs_the_records_with_payloads_only(tmp_path: Path, damage: str) -> None:
    records = damaged_store(tmp_path / "ring")
    (file,) = blob_files(tmp_path / "ring")
    DAMAGES[damage](file)
    with open_any(tmp_path / "ring", "r") as ring, ring.snapshot() as snapshot:
        (part,) = snapshot.parts
        assert part.column("body").to_pylist() == [head_of(one) for one in records]
        assert part.column("record", np.array([2, 23])).to_pylist() == [b"no picture"] * 2
        errors = []
        for row in range(24):
            try:
                assert part.column("record", np.array([row])).to_pylist() == [records[row]]
            except DamageError as error:
                errors.append((row, error))
        assert errors
        for row, one in errors:
            assert one.path == file and one.segment_id == part.id
            assert "blobs.arrow is damaged" in str(one)
            assert f"asked for were the records of its rows {row}" in str(one)
            assert "records with payloads of the 24 events" in str(one)
        if damage == "flipped":
            assert len(errors) < 16
        with pytest.raises(DamageError, match=r"rows \d+") as raised:
            part.column("record")
        shown = str(raised.value).rpartition("rows ")[2].partition(" and ")[0].split(", ")
        assert [int(row) for row in shown] == [row for row, _ in errors][:10]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_salvage_keeps_all_but_the_records_whose_payloads_are_lost(tmp_path: Path, damage: str) -> None:
    records = damaged_store(tmp_path / "ring")
    (file,) = blob_files(tmp_path / "ring")
    DAMAGES[damage](file)
    report = salvaged(tmp_path / "ring")
    assert report.is_clean
    with open_any(tmp_path / "ring") as ring:
        with ring.snapshot() as snapshot:
            (part,) = snapshot.parts
            kept = dict(zip(part.seq.tolist(), part.column("record").to_pylist(), strict=True))
            bodies = part.column("body").to_pylist()
        assert bodies == [head_of(one) for one in records]
        lost = [seq for seq, one in kept.items() if one is None]
        assert kept == {seq: None if seq in lost else one for seq, one in enumerate(records)}
        assert all(records[seq] != b"no picture" for seq in lost)
        (column,) = (one for one in report.losses if one.kind == "column")
        assert (column.name, column.n) == ("record", len(lost))
        (payloads,) = (one for one in report.losses if one.kind == "payloads")
        assert payloads.file.endswith("blobs.arrow")
        assert [seq for first, end in payloads.seqs for seq in range(first, end)] == lost
        ring.compact()
        assert ring.check(deep=True).is_clean
    if damage in ("flipped", "cut"):
        assert len(lost) < 16


def salvaged(path: Path) -> CheckReport:
    def no_texts(columns: Any, n_rows: int, model: Any) -> tuple[TextParts, Any]:
        return TextParts.empty(), np.zeros(n_rows, KEY)

    return salvage(OS_FILES, Layout(path), decode, no_texts)


def test_records_of_lost_events_are_kept_whole_among_the_rejects(tmp_path: Path) -> None:
    records = damaged_store(tmp_path / "ring")
    (tmp_path / "ring").joinpath(*blob_files(tmp_path / "ring")[0].parts[-3:-1], "hot.arrow").unlink()
    report = salvaged(tmp_path / "ring")
    assert report.is_clean
    with open_any(tmp_path / "ring", "r") as ring:
        assert sorted(one.record for one in ring.rejects()) == sorted(records)


def test_a_fold_leaves_a_segment_whose_payloads_are_damaged(tmp_path: Path) -> None:
    with open_any(tmp_path / "ring") as ring:
        for first in (0, 10, 20):
            put(ring, [chat(n, picture(first)) for n in range(first, first + 10)])
        before = held(ring)
        file = blob_files(ring.path)[0]
        flip(file, file.stat().st_size // 2)
        with pytest.raises(DamageError, match=r"blobs\.arrow"):
            ring.compact()
        with ring.snapshot() as snapshot:
            assert len(snapshot.parts) == 2
        flip(file, file.stat().st_size // 2)
        assert held(ring) == before


# -- contents that are wrong although every checksum is right -------------------------------------------------------


def written_wrong(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Placed, Payloads], tuple[Placed, Payloads]]
) -> Iterator[str]:
    """Give what a deep check finds in a segment that was written with something wrong in it."""
    monkeypatch.setattr("treering.storage.segment_writer.cut_out", lambda *given: change(*cut_out(*given)))
    with open_any(path) as ring:
        put(ring, [chat(n, picture(n % 3)) for n in range(10)])
        for finding in ring.check(deep=True).findings:
            yield f"{Path(finding.file).name}: {finding.what}"


class Wrong(Payloads):
    """Payloads under hashes of others."""

    def __init__(self, others: Payloads, hashes: Any, more: int = 0) -> None:
        self._others, self._hashes, self._more = others, hashes, more

    @property
    def hashes(self) -> Any:
        return self._hashes

    @property
    def n_bytes(self) -> Any:
        return self._others.n_bytes

    def read(self, numbers: Any) -> Iterator[pa.Buffer]:
        return self._others.read(numbers)


WRONGS: dict[str, Callable[[Placed, Payloads], tuple[Placed, Payloads]]] = {
    "blobs.arrow: its hashes do not ascend": lambda placed, held_: (placed, Wrong(held_, held_.hashes[::-1])),
    "blobs.arrow: a payload of batch 0 is not that of its hash": lambda placed, held_: (
        placed,
        Wrong(held_, np.sort(np.roll(held_.hashes.view("S16"), 1)).view("S32")),
    ),
    "text.arrow: batch 0 names payloads beyond the 3 there are": lambda placed, held_: (
        replace(placed, cuts=pa.array([[0, 3]] * 10, pa.list_(pa.int64()))),
        held_,
    ),
    "text.arrow: a payload of batch 0 was cut out where its record is not": lambda placed, held_: (
        replace(placed, cuts=pa.array([[10_000, n % 3] for n in range(10)], pa.list_(pa.int64()))),
        held_,
    ),
    "blobs.arrow: no record uses 2 of its payloads": lambda placed, held_: (
        replace(placed, cuts=pa.array([[0, 1]] * 10, pa.list_(pa.int64()))),
        held_,
    ),
    "text.arrow: payloads were cut out of its records, and no file has them": lambda placed, _: (
        placed,
        NO_PAYLOADS,
    ),
    "blobs.arrow: no record uses its payloads": lambda placed, held_: (replace(placed, cuts=None), held_),
}


@pytest.mark.parametrize("what", WRONGS)
def test_a_deep_check_finds_payloads_that_are_not_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert what in list(written_wrong(tmp_path / "ring", monkeypatch, WRONGS[what]))


def test_a_file_with_fewer_batches_than_it_says_is_named(tmp_path: Path) -> None:
    (segment,) = segments_of(tmp_path, 1, lambda _: [chat(0, picture(0))])
    file = segment._files.of("blobs")
    file.facts["firsts"] = [0, 1]
    with pytest.raises(DamageError, match="it has 1 batches, expected 2"):
        BlobFile(file)


def test_random_bytes_of_segments_without_the_manifest_are_found_again(tmp_path: Path) -> None:
    records = [chat(n, picture(n % 3)) for n in range(12)]
    with open_any(tmp_path / "ring") as ring:
        put(ring, records)
    for path in (tmp_path / "ring" / "_manifest").iterdir():
        path.write_bytes(random.Random(1).randbytes(300))
    assert salvaged(tmp_path / "ring").is_clean
    with open_any(tmp_path / "ring", "r") as ring:
        assert held(ring) == dict(enumerate(records))
