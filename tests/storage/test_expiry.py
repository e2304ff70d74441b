"""By age and by size exactly what is old goes, whole segments without a look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.users import embedded_ring, metas, ring_of_users
from tests.storage.words import ACT, stored, vector_events, words
from treering.storage.cut import cut_older, cut_to_size
from treering.storage.errors import DamageError
from treering.storage.ring import Ring


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return ring_of_users(tmp_path / "ring")


@pytest.fixture
def embedded(tmp_path: Path) -> Ring:
    return embedded_ring(tmp_path / "ring")


def test_by_age_everything_older_goes_and_nothing_else(ring: Ring) -> None:
    before = stored(ring)
    for second in (9, 15, 16, 40, 55, 1000):
        ring.erase(lambda state, t=second: cut_older(state, t * 10**9), ACT)  # type: ignore[misc]
        assert stored(ring) == [row for row in before if row[1] >= second]
    assert list((ring.path / "seg").iterdir()) == []


def test_by_age_old_segments_go_without_a_look_at_their_events(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.flush()
    (old,) = (meta for meta in metas(ring) if meta.t_max <= 40 * 10**9)
    hot = ring.path / "seg" / old.id / "hot.arrow"
    hot.write_bytes(b"x")
    with pytest.raises(DamageError):
        ring.erase(lambda state: cut_older(state, 40 * 10**9), ACT)
    erased = ring.erase(lambda state: cut_older(state, 41 * 10**9), ACT)
    assert (erased.n_dropped, erased.cut.n_events, dict(erased.rewritten)) == (1, 5, {})
    assert [row[2] for row in stored(ring)] == ["login zqalice", "login dave"]


def test_by_age_vectors_of_expired_events_stay_while_others_use_them(embedded: Ring) -> None:
    embedded.erase(lambda state: cut_older(state, 41 * 10**9), ACT)
    assert vector_events(embedded) == {"login": 0}
    assert not embedded.unfinished()


def test_by_age_reject_files_written_before_go(ring: Ring) -> None:
    ring.flush()
    files = ring._view.catalog.rejects.entries.values()
    first, second = sorted(file.written_ns or 0 for file in files)
    ring.erase(lambda state: cut_older(state, first + 1), ACT)
    assert [one.record for one in ring.rejects()] == [b"{late zqalice"]
    ring.erase(lambda state: cut_older(state, second), ACT)
    assert [one.record for one in ring.rejects()] == [b"{late zqalice"]


def test_by_size_the_oldest_segments_go_until_the_rest_fits(ring: Ring) -> None:
    for n in range(4):
        ring.append(words([(1000 * (n + 1), f"login user{n}")]))
        ring.flush()
    sizes = {meta.id: (meta.t_max, meta.n_bytes) for meta in metas(ring)}
    order = [n_bytes for _, n_bytes in sorted(sizes.values())]
    left = sum(order)
    for n_bytes in order:
        ring.erase(lambda state, most=left: cut_to_size(state, most), ACT)  # type: ignore[misc]
        assert sum(meta.n_bytes for meta in metas(ring)) == left
        ring.erase(lambda state, most=left - 1: cut_to_size(state, most), ACT)  # type: ignore[misc]
        left -= n_bytes
        assert sum(meta.n_bytes for meta in metas(ring)) == left
    assert stored(ring) == []
