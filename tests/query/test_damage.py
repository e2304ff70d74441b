"""A damaged segment costs the queries that need it, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr
from treering.query.store import Store
from treering.storage.errors import ConfigError, DamageError

DAYS = ("2026-03-01", "2026-07-01")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two segments, a day each; in the first one a byte of the texts is another."""
    path = tmp_path / "ring"
    with tr.open(path) as store:
        for day in DAYS:
            rows = [
                {"timestamp": f"{day}T10:00:{s:02d}Z", "n": s, "message": f"{day} event {s}"}
                for s in range(60)
            ]
            store.ingest(rows, embed=False)
            store.flush()
    [first] = [p for p in (path / "seg").iterdir() if b"2026-03-01" in segment_bytes(p)]
    text = first / "text.arrow"
    data = bytearray(text.read_bytes())
    data[len(data) // 2] ^= 0x10
    text.write_bytes(data)
    return path


def segment_bytes(directory: Path) -> bytes:
    with tr.open(directory.parents[1], mode="r") as store, store._ring.snapshot() as snapshot:
        [part] = [part for part in snapshot.parts if part.id == directory.name]
        return b"\n".join(record.as_py() for record in part.column("record"))


def days(store: Store, query: str, **options: str) -> set[str]:
    return {row["timestamp"][:10] for row in store.query(query, **options).to_list()}  # type: ignore[arg-type]


def test_a_query_that_needs_a_damaged_segment_fails_and_names_file_and_events(path: Path) -> None:
    with tr.open(path, mode="r") as store:
        with pytest.raises(DamageError, match=r"text\.arrow") as raised:
            store.query("n >= 0").to_list()
        assert raised.value.segment_id is not None
        for told in (raised.value.segment_id, "60", "2026-03-01"):
            assert told in str(raised.value)


def test_a_query_that_does_not_need_it_answers(path: Path) -> None:
    with tr.open(path, mode="r") as store:
        assert days(store, "ts > '2026-06-01'") == {DAYS[1]}
        assert store.query("count").to_list()[0]["count"] == 120
        assert store.query("n < 10 count").to_list()[0]["count"] == 20


def test_what_is_left_is_answered_for_who_asks_for_that(path: Path) -> None:
    with tr.open(path, mode="r") as store:
        result = store.query("n >= 0", damaged="skip")
        assert {row["timestamp"][:10] for row in result} == {DAYS[1]}
        assert result.meta["complete"] is False
        [lost] = result.meta["unreachable"]
        assert lost.n_rows == 60
        assert "60 events from 2026-03-01T10:00:00Z to 2026-03-01T10:00:59Z are out of reach" in str(lost)
        assert "text.arrow" in str(lost)
        whole = store.query("ts > '2026-06-01'", damaged="skip")
        assert whole.meta["unreachable"] == [] and len(whole) == 60


def test_another_word_for_it_is_refused(path: Path) -> None:
    with tr.open(path, mode="r") as store, pytest.raises(ConfigError, match="'fail' or 'skip'"):
        store.query("n > 0", damaged="ignore")  # type: ignore[arg-type]
