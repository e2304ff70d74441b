"""A segment of which events were deleted, but whose files were not rewritten yet, and one of these is damaged.

What does not need the damaged file answers as it would without the deletion; a deleted event is never seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from tests.storage.whole_store import cut, flip, lose
from treering.query.store import Store
from treering.storage.cleaner import Cleaner

FIRST_S = 1_777_593_600
GONE = {*range(10, 20), *range(350, 355)}
OF_FIRST = set(range(300))
ALL = set(range(500))
SECRET = "onlyhere"
"""A word, and a field, that only deleted events have."""


def row(n: int) -> dict[str, Any]:
    found = {
        "n": n,
        "ts": FIRST_S + n * 600,
        "message": f"text {n % 7} word{n}" + (f" {SECRET}" if n in GONE else ""),
        "level": ["info", "error"][n % 2],
        "model": SECRET if n in GONE else "abc"[n % 3],
        "prompt": f"p{n % 5} and more{n}",
        "x": n / 3,
        "some": n if n % 3 else None,
        "request_id": f"req-{n:06d}",
        "s": [n, n + 1],
    }
    return found | ({SECRET: n} if n in GONE else {})


def vector(n: int) -> list[float]:
    rng = np.random.default_rng(n % 40)
    return [float(v) for v in rng.normal(size=16)]


def table(first: int, end: int) -> pa.Table:
    rows = [row(n) | {"vector": vector(n)} for n in range(first, end)]
    return pa.Table.from_pylist(rows, schema=pa.Table.from_pylist([row(10) | {"vector": vector(0)}]).schema)


def begin(path: Path, numbers: Callable[[int], bool]) -> None:
    with tr.open(path, compacts=False) as store:
        for first, end in ((0, 300), (300, 400), (400, 500)):
            whole = table(first, end)
            store.append(whole.filter(pa.array([numbers(n) for n in range(first, end)])))
            if end == 300:
                store.compact()
            store.flush()


@dataclass(frozen=True)
class Stores:
    """plain: as it was before the deletion. open: with a deletion that waits. without: never had the events."""

    plain: Path
    open: Path
    without: Path


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    place = tmp_path_factory.mktemp("bases")
    stores = Stores(place / "plain", place / "open", place / "without")
    begin(stores.plain, lambda n: True)
    begin(stores.without, lambda n: n not in GONE)
    shutil.copytree(stores.plain, stores.open)
    with tr.open(stores.open, compacts=False) as store, patch.object(Cleaner, "clean", lambda self: ({}, ())):
        store.delete(f'"{SECRET}"')
    return stores


def first_segment(path: Path) -> Path:
    """The directory of the segment with the numbers 0 to 299, the only folded one."""
    with tr.open(path, "r") as store, store._ring.snapshot() as snapshot:
        (found,) = [part.id for part in snapshot.parts if part.n_rows >= 285]
    return path / "seg" / found


QUERIES = (
    "*",
    "x > 20",
    '"word65"',
    'prompt has "p3"',
    "level = error",
    'model = "b" fields n, request_id',
    "top 20 by n",
    "bottom 5 by x",
    "sort by message limit 30",
    "count",
    "n >= 0 count",
    "some exists count",
    "some exists and x < 50 fields n, some",
    "count by model",
    "avg(x) by level",
    "distinct(model), max(n), count(some)",
    "fields n",
    "n = 55",
    "n = 450",
    "n = 15",
    f'"{SECRET}"',
    f'model = "{SECRET}" count',
    'request_id = "req-000014"',
    "ts < '2026-05-01T03:00:00Z' fields n",
    "count every 1d",
    "~ $v top 15",
    "~ $v > 0.4 fields n",
    "level = info ~ $v top 7 fields n, message",
)
PARAMS = {"v": np.array(vector(3), np.float32)}


def answer(store: Store, query: str, **options: Any) -> Any:
    result = store.query(query, params=PARAMS if "$v" in query else None, **options)
    return result.to_list(), result.meta.get("unreachable")


def asking(query: str) -> Callable[[Store], Any]:
    return lambda store: answer(store, query)[0]


def told(look: Callable[[Store], Any], store: Store) -> Any:
    """What a look gives, or the damage that it meets."""
    try:
        return look(store)
    except tr.DamageError as error:
        return error


LOOKS: dict[str, Callable[[Store], Any]] = {
    **{query: asking(query) for query in QUERIES},
    "sql": lambda store: store.sql("select sum(n) as n, count(*) as c, min(x) as x from events").to_pylist(),
    "fields()": lambda store: [(one.name, one.n, one.types, one.fill) for one in store.fields()],
    "stats()": lambda store: {
        name: value
        for name, value in store.stats().items()
        if name in ("rows", "t_min_ns", "t_max_ns", "segments", "pending", "largest_shard_share")
    },
    "events": lambda store: store.query("*").to_arrow().num_rows,
}


@pytest.fixture(scope="module")
def truth(bases: Stores) -> dict[str, Any]:
    with tr.open(bases.without, "r") as store:
        return {name: look(store) for name, look in LOOKS.items()}


def flipping(share: float) -> Callable[[Path], None]:
    return lambda path: flip(path, share)


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{f"flip {share}": flipping(share) for share in (0.1, 0.35, 0.6, 0.85)},
    "cut": cut,
    "missing": lose,
}
KINDS = ("hot", "text", "vec", "parts", "post", "segment.json", "del-0000")


def damaged(base: Path, place: Path, kind: str, damage: str, segment: str) -> Path:
    path = Path(shutil.copytree(base, place))
    name = kind if "." in kind else f"{kind}.arrow"
    DAMAGES[damage](path / "seg" / segment / name)
    return path


def numbers_of(rows: list[dict[str, Any]]) -> set[int]:
    return {row["n"] for row in rows}


def test_without_damage_all_answers_are_those_of_a_store_that_never_had_the_events(
    bases: Stores, truth: dict[str, Any]
) -> None:
    with tr.open(bases.open, "r") as store:
        assert {name: look(store) for name, look in LOOKS.items()} == truth
    assert len(list((bases.open / "seg").glob("*/del-0000.arrow"))) == 2


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_need_the_damaged_file_answers_and_the_rest_names_it(
    bases: Stores, truth: dict[str, Any], tmp_path: Path, kind: str, damage: str
) -> None:
    segment = first_segment(bases.open).name
    path = damaged(bases.open, tmp_path / "open", kind, damage, segment)
    is_deletion = kind.startswith("del-")
    plain: dict[str, Any] = {}
    if not is_deletion:
        with tr.open(damaged(bases.plain, tmp_path / "plain", kind, damage, segment), "r") as store:
            plain = {name: told(look, store) for name, look in LOOKS.items()}
    n_answers = 0
    with tr.open(path, "r") as store:
        for name, look in LOOKS.items():
            found = told(look, store)
            if isinstance(found, tr.DamageError):
                assert is_deletion or isinstance(plain[name], tr.DamageError), name
                assert found.segment_id == segment and f"290 events of segment {segment}" in str(found)
                assert found.path is not None and found.path.name.startswith(kind.partition(".")[0])
            else:
                n_answers += 1
                assert found == truth[name], name
    assert n_answers >= {"del-0000": 2, "hot": 4}.get(kind, 8)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_skipping_leaves_out_just_that_segment_and_says_its_events(
    bases: Stores, tmp_path: Path, kind: str, damage: str
) -> None:
    segment = first_segment(bases.open).name
    path = damaged(bases.open, tmp_path / "open", kind, damage, segment)
    with tr.open(path, "r") as store, tr.open(bases.without, "r") as without:
        for query in ("*", "x > 20", '"word65"', 'prompt has "p3"', "level = error", f'"{SECRET}"'):
            rows, lost = answer(store, query, damaged="skip")
            expected, _ = answer(without, query)
            if lost:
                (one,) = lost
                assert (one.segment, one.n_rows) == (segment, 290)
                assert one.t_min <= (FIRST_S + 0) * 10**9 and one.t_max >= (FIRST_S + 299 * 600) * 10**9
                expected = [row for row in expected if row["n"] not in OF_FIRST]
            assert rows == expected, query
            assert not numbers_of(rows) & GONE
        rows, lost = answer(store, "~ $v top 15", damaged="skip")
        assert len(rows) == 15 and not numbers_of(rows) & GONE
        assert not lost or not numbers_of(rows) & OF_FIRST


@pytest.mark.parametrize("kind", ["hot", "text", "vec", "parts", "del-0000"])
@pytest.mark.parametrize("damage", ["flip 0.6", "missing"])
def test_the_writer_goes_on_with_the_other_segments(
    bases: Stores, tmp_path: Path, kind: str, damage: str
) -> None:
    segment = first_segment(bases.open).name
    path = damaged(bases.open, tmp_path / "open", kind, damage, segment)
    with tr.open(path, compacts=False) as store:
        # The other one was rewritten by the opening.
        assert [file.parent.name for file in (path / "seg").glob("*/del-0000.arrow")] in ([segment], [])
        receipt = store.delete("n >= 440 and n < 450")
        assert receipt.events == 10 and not receipt.erased
        assert any(segment in line for line in receipt.damaged)
        assert not list((path / "seg").glob("*/del-0001.arrow"))
        store.append(table(500, 510))
        assert store.embed().texts == 0
        with pytest.raises(tr.DamageError, match=segment):
            store.compact()
        left = ALL - GONE - set(range(440, 450)) | set(range(500, 510))
        result = store.query("fields n", damaged="skip")
        assert numbers_of(result.to_list()) in (left, left - OF_FIRST)
        assert store.query("count").to_list() == [{"count": len(left)}]
        if kind in ("hot", "text"):
            assert store.stats()["rows"] == len(left)
    with tr.open(path, compacts=False) as again:
        assert again.query("n >= 300 count").to_list() == [{"count": len(left - OF_FIRST)}]


def test_a_deletion_in_a_damaged_segment_leaves_it_readable(tmp_path: Path, bases: Stores) -> None:
    path = Path(shutil.copytree(bases.plain, tmp_path / "ring"))
    segment = first_segment(path)
    flip(segment / "text.arrow", 0.6)
    with tr.open(path, compacts=False) as store:
        assert store.query("count by model").to_list()
        receipt = store.delete("n = 5")
        assert receipt.events == 1 and not receipt.erased and len(receipt.damaged) == 1
        assert str(segment / "text.arrow") in receipt.damaged[0]
        assert store.query("count").to_list() == [{"count": 499}]
        assert numbers_of(store.query("fields n").to_list()) == ALL - {5}
        assert numbers_of(store.query("*", damaged="skip").to_list()) == ALL - OF_FIRST
        assert store.delete("n = 6").events == 1
        assert store.delete("n = 470").events == 1
        assert numbers_of(store.query("fields n").to_list()) == ALL - {5, 6, 470}
    shutil.copy(bases.plain / "seg" / segment.name / "text.arrow", segment / "text.arrow")
    with tr.open(path, compacts=False) as store:
        assert numbers_of(store.query("*").to_list()) == ALL - {5, 6, 470}
        assert not list((path / "seg").glob("*/del-*.arrow"))
    assert tr.check(path, deep=True).is_clean


def test_a_condition_that_cannot_be_looked_for_in_a_damaged_segment_deletes_nothing(
    tmp_path: Path, bases: Stores
) -> None:
    segment = first_segment(bases.open).name
    path = damaged(bases.open, tmp_path / "ring", "del-0000", "flip 0.6", segment)
    with tr.open(path, compacts=False) as store:
        with pytest.raises(tr.DamageError, match=segment):
            store.delete('"word450"')
        assert numbers_of(store.query("n >= 400 fields n").to_list()) == set(range(400, 500))


def test_a_vector_of_a_deleted_text_that_cannot_be_looked_for_is_told(tmp_path: Path, bases: Stores) -> None:
    """The damaged segment may hold a vector that was made of the text of an event in another one."""
    path = Path(shutil.copytree(bases.plain, tmp_path / "ring"))
    segment = first_segment(path)
    flip(segment / "vec.arrow", 0.1)
    with tr.open(path, compacts=False) as store:
        receipt = store.delete("n = 470")
        assert receipt.events == 1 and not receipt.erased
        assert [str(segment / "vec.arrow") in line for line in receipt.damaged] == [True]
        assert store.query("count").to_list() == [{"count": 499}]


def test_a_segment_whose_deletion_cannot_be_read_may_go_as_a_whole(tmp_path: Path, bases: Stores) -> None:
    segment = first_segment(bases.open).name
    path = damaged(bases.open, tmp_path / "ring", "del-0000", "missing", segment)
    with tr.open(path, compacts=False) as store:
        receipt = store.expire(older_than="1h", now=f"{10**9 * (FIRST_S + 300 * 600 + 3600)}")
        assert receipt.segments_dropped == 1 and receipt.events == 290
        assert numbers_of(store.query("*").to_list()) == set(range(300, 500)) - GONE
    assert tr.check(path, deep=True).is_clean
