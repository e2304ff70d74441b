"""Of a damaged segment a salvage keeps all but what stood in the damaged blocks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.storage.account import check_account, pending_of, salvaged, told
from tests.storage.whole_store import (
    LIES,
    LIVE,
    Row,
    cut,
    embed,
    file_of,
    flip,
    open_store,
    records,
    rows_in,
    stored_rows,
    told_otherwise,
)


@pytest.fixture(scope="module")
def long_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one segment of 30,000 events, whose columns lie over many blocks."""
    path = tmp_path_factory.mktemp("long") / "ring"
    with open_store(path) as ring:
        ring.append(records(range(30_000)))
        ring.flush()
        embed(ring)
        ring.compact()
    return path


@pytest.fixture
def long_store(long_base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(long_base, tmp_path / "ring"))


@pytest.fixture(scope="module")
def long_before(long_base: Path) -> dict[int, Row]:
    return stored_rows(long_base)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        *(("hot", share) for share in (0.001, 0.2, 0.5, 0.8, 0.999)),
        *(("text", share) for share in (0.001, 0.4, 0.8, 0.999)),
        *(("vec", share) for share in (0.001, 0.5, 0.999)),
        *(("parts", share) for share in (0.001, 0.5, 0.999)),
    ],
)
def test_a_flipped_bit_costs_the_values_of_its_block_only(
    long_store: Path, long_before: dict[int, Row], kind: str, share: float
) -> None:
    (path,) = long_store.glob(f"seg/*/{kind}.arrow")
    flip(path, share)
    report = salvaged(long_store)
    after = check_account(long_store, report, long_before)
    if kind != "hot":
        assert len(after) == 30_000
    # The first block has heads and dictionaries, without which nothing can be read.
    if kind == "hot" and share > 0.01:
        assert len(after) >= 30_000 - 2049
    with open_store(long_store, "r") as ring:
        assert pending_of(ring) == told(
            [one for one in report.losses if "treering embed" in one.what], "vectors"
        )


@pytest.mark.parametrize("share", [0.3, 0.97])
def test_of_a_cut_file_is_kept_what_stands_before_the_cut(
    long_store: Path, long_before: dict[int, Row], share: float
) -> None:
    (path,) = long_store.glob("seg/*/text.arrow")
    cut(path, share)
    after = check_account(long_store, salvaged(long_store), long_before)
    kept = sum(row["record"] is not None for row in after.values())
    assert 30_000 * (share - 0.15) < kept < 30_000 * (share + 0.05)


def test_events_without_times_are_kept_as_rejects(store: Path, before: dict[int, Row]) -> None:
    file_of(store, "hot").unlink()
    report = salvaged(store)
    after = check_account(store, report, before)
    lost = before.keys() - after.keys()
    assert len(lost) == 1499
    with open_store(store, "r") as ring:
        kept = [one for one in ring.rejects() if "salvage" in one.reason]
    assert sorted(one.record for one in kept) == sorted(before[seq]["record"] for seq in lost)


def test_deleted_events_are_not_among_those_rejects(store: Path) -> None:
    for path in store.glob("seg/20-1-*/hot.arrow"):
        path.unlink()
    salvaged(store)
    with open_store(store, "r") as ring:
        kept = [one.record for one in ring.rejects() if "salvage" in one.reason]
    assert len(kept) == 499 and not any(b'"n":1700,' in record for record in kept)


def test_without_checksums_of_blocks_a_damaged_file_is_lost_as_a_whole(
    store: Path, before: dict[int, Row]
) -> None:
    flip(file_of(store, "segment.json"))
    flip(file_of(store, "text"), 0.9)
    report = salvaged(store)
    after = check_account(store, report, before)
    assert sum(row["record"] is None for row in after.values()) == 1499


def test_texts_are_embedded_again_as_they_were(store: Path) -> None:
    with open_store(store, "r") as ring, ring.snapshot() as snapshot:
        before = sorted(key.tobytes() for part in snapshot.parts for key in part.parts().key)
    flip(file_of(store, "parts"))
    flip(file_of(store, "vec"))
    report = salvaged(store)
    assert report.is_clean and told(report.losses, "vectors") > 0
    with open_store(store) as ring:
        with ring.snapshot() as snapshot:
            assert sorted(key.tobytes() for part in snapshot.parts for key in part.parts().key) == before
        embed(ring)
        assert pending_of(ring) == 0
        assert ring.check(deep=True).is_clean


def test_lost_signals_are_computed_again(store: Path, before: dict[int, Row]) -> None:
    flip(file_of(store, "late"))
    salvaged(store)
    with open_store(store) as ring:
        embed(ring)
        ring.fold()
        assert all(rows_in(ring)[seq]["score"] == seq / 1000 for seq in range(2000, 2400))


@pytest.mark.parametrize("what", ["other times", "of column n#i"])
def test_a_segment_that_the_manifest_misdescribes_is_written_anew(
    store: Path, before: dict[int, Row], what: str
) -> None:
    told_otherwise(store, LIES[what])
    report = salvaged(store)
    assert check_account(store, report, before).keys() == LIVE and not report.losses
