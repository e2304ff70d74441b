"""Parts are ruled out by what is told of their texts: never wrongly, and without reading what is not needed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.naive.execute import Naive
from tests.query.parts import DIM, Event, arrow_type
from treering.query import bound as b
from treering.query.execute import execute
from treering.query.prune import Evidence, part_answer
from treering.query.rows import Choice
from treering.query.scan import matching
from treering.query.survey import survey
from treering.query.text_evidence import ALL, CANNOT, MANY, MAY
from treering.storage.batch import KEY, ColumnBatch, RawBatch, TextParts
from treering.storage.deletion import Gone
from treering.storage.files import OS_FILES, OsFiles
from treering.storage.memory import MemoryPart, build, merge
from treering.storage.part import Part
from treering.storage.ring import Ring
from treering.storage.schema import split_physical
from treering.storage.segment import Segment, write
from treering.storage.survivors import Survivors

NO_VECTORS = np.empty((0, DIM), np.float32)
TENANTS = st.sampled_from(["", "a", "b", "c", "ab", "租户", "é", "error"])
IDS = st.integers(0, 30).map(lambda i: f"request-{i:04}")

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tenant_id": TENANTS,
    "tenant_id#s": TENANTS,
    "tenant_id#i": st.integers(0, 3),
    "tenant#s": TENANTS,
    "model_version": st.sampled_from(["v1", "v2"]),
    "request_id": IDS,
    "id#s": IDS,
    "id#z": st.integers(2**63, 2**63 + 2),
    "severity": TENANTS,
    "level#s": TENANTS,
    "level": st.integers(1, 6),
    "n#i": st.integers(0, 3),
}
COLUMNS = {
    b.Column("tenant_id", ("tenant_id#i", "tenant_id#s", "tenant_id"), "mixed"): TENANTS,
    b.Column("tenant", ("tenant#s", "tenant_id"), "text"): TENANTS,
    b.Column("model_version", ("model_version",), "text"): st.sampled_from(["v1", "v2", "v3"]),
    b.Column("id", ("id#z", "id#s", "request_id"), "mixed"): IDS,
    b.Column("request_id", ("request_id",), "text"): IDS,
    b.Column("level", ("level", "level#s", "severity"), "level"): TENANTS,
    b.Column("none", ("absent",), "none"): TENANTS,
}
OTHER = st.one_of(st.integers(0, 3), st.booleans(), st.just(2**63), st.just("zz"))
PATTERNS = st.sampled_from(["a", "^a$", "^$", "[a-c]", "v[12]", "租", "request-000[1-5]"])


@st.composite
def atoms(draw: st.DrawFn) -> b.BCond:
    column = draw(st.sampled_from(list(COLUMNS)))
    values = st.one_of(COLUMNS[column], COLUMNS[column], COLUMNS[column], OTHER)
    kind = draw(st.sampled_from(["=", "=", "order", "in", "in", "has", "=~", "exists"]))
    if kind == "order":
        # Binding turns the words of a severity into ranks where it compares by order.
        bound = draw(values if column.type != "level" else st.integers(0, 7))
        return b.BCompare(column, draw(st.sampled_from([">", ">=", "<", "<="])), bound)
    if kind == "in":
        return b.BIn(column, tuple(draw(st.lists(values, max_size=4))))
    if kind == "has":
        return b.BHas(column, draw(TENANTS))
    if kind == "=~":
        return b.BMatches(column, draw(PATTERNS))
    return b.BExists(column.physical) if kind == "exists" else b.BCompare(column, "=", draw(values))


def conditions(depth: int = 2) -> st.SearchStrategy[b.BCond]:
    if not depth:
        return atoms()
    inner = conditions(depth - 1)
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(atoms(), st.builds(b.BNot, inner), st.builds(b.BAnd, several), st.builds(b.BOr, several))


@st.composite
def groups_of_events(draw: st.DrawFn) -> list[list[Event]]:
    """Events of up to three segments; in some, columns are filled in each row."""
    groups = []
    for i in range(draw(st.integers(1, 3))):
        always = draw(st.sets(st.sampled_from(["tenant_id", "tenant#s", "model_version", "request_id"])))
        one_tenant = draw(st.booleans())
        events = []
        for j in range(draw(st.integers(1, 7))):
            names = always | draw(st.sets(st.sampled_from(list(VALUES)), max_size=4))
            names -= {"id#z"} if "id#s" in names else set()
            values = {name: draw(VALUES[name]) for name in sorted(names)}
            if one_tenant:
                values |= dict.fromkeys(names & {"tenant_id", "tenant#s"}, "a")
            events.append(Event(draw(st.integers(0, 40)), 100 * i + j, values))
        groups.append(events)
    return groups


def part_of(events: Sequence[Event], name: str = "p", *, equal: Sequence[tuple[str, str]] = ()) -> MemoryPart:
    """A part of some events. equal: columns that are one and the same as another."""
    n = len(events)
    columns: dict[str, pa.Array] = {
        "ts": pa.array([e.ts for e in events], pa.int64()),
        "seq": pa.array([e.seq for e in events], pa.int64()),
    }
    for column in sorted({column for e in events for column in e.values}):
        values = [e.values.get(column) for e in events]
        if split_physical(column)[1] == "z":
            values = [None if v is None else str(v) for v in values]
        columns[column] = pa.array(values, arrow_type(column))
    columns |= {column: columns[owner] for column, owner in equal}
    batch = ColumnBatch(n, columns, TextParts.empty(), np.zeros(n, KEY))
    return build([batch], None, dim=None, part_id=name)


def on_disk(part: MemoryPart, directory: Path) -> Segment:
    meta = write(OS_FILES, directory / part.id, part, level=44, cell=0)
    return Segment.open(OS_FILES, directory / part.id, meta)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(groups_of_events(), conditions(), st.sampled_from([1, 2, 64]), st.data())
def test_no_answer_is_wrong_in_memory_on_disk_merged_or_without_lists(
    groups: list[list[Event]], where: b.BCond, most: int, data: st.DataObject
) -> None:
    start, end = data.draw(st.none() | st.integers(-1, 41)), data.draw(st.none() | st.integers(-1, 41))
    with tempfile.TemporaryDirectory() as name, mock.patch("treering.storage.partitions.MAX_VALUES", most):
        memory = [part_of(events, f"p{i}") for i, events in enumerate(groups)]
        merged = merge(memory, "m")
        segments = [on_disk(part, Path(name)) for part in memory]
        old = [
            Segment.open(OS_FILES, s.directory, replace(s.meta, partitions={})) for s in segments
        ]  # as format 1
        everything = [event for events in groups for event in events]
        for parts in (memory, segments, old, [merged], [on_disk(merged, Path(name))]):
            check(parts, where, start, end, everything)
        gone = [sorted(data.draw(st.sets(st.integers(0, s.n_rows - 1)))) for s in segments]
        deleted = {seq for s, rows in zip(segments, gone, strict=True) for seq in s.seq[rows].tolist()}
        left = [without(s, rows) for s, rows in zip(segments, gone, strict=True)]
        check(left, where, start, end, [event for event in everything if event.seq not in deleted])


def without(segment: Segment, rows: list[int]) -> Survivors:
    gone = Gone(np.array(rows, np.int32), np.empty(0, np.int32))
    return Survivors(segment, len(rows), lambda: gone, None)


def check(
    parts: Sequence[Part], where: b.BCond, start: int | None, end: int | None, events: Sequence[Event]
) -> None:
    naive = Naive(events, NO_VECTORS)
    hits = {e.seq for e in naive.matching(b.BoundQuery(where=where))}
    for part in parts:
        n_hits = len(hits & set(part.seq.tolist()))
        told = [int(part_answer(where, part, evidence)) for evidence in Evidence]
        for answer in told:
            assert answer != CANNOT or n_hits == 0
            assert answer != ALL or n_hits == part.n_rows
        for less, more in pairwise(told):
            assert less in (MAY, more)
    found = survey(parts, where, start, end)
    seqs: set[int] = set()
    for one in found.kept:
        kept = one.choice if one.is_certain else one.choice.where(matching(where, one.choice))
        seqs |= set(kept.of_rows(kept.part.seq).tolist())
    assert seqs == {e.seq for e in naive.matching(b.BoundQuery(where=where, start_ns=start, end_ns=end))}
    assert len(found.kept) + found.skipped.total() == len(parts)


TENANT = b.Column("tenant", ("tenant#s", "tenant_id"), "text")
OWN = b.Column("tenant_id", ("tenant_id",), "text")
REQUEST = b.Column("request_id", ("request_id",), "text")


def listed(*tenants: str | None) -> MemoryPart:
    events = [Event(i, i, {} if t is None else {"tenant_id": t}) for i, t in enumerate(tenants)]
    return part_of(events, equal=[("tenant#s", "tenant_id")])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (b.BCompare(TENANT, "=", "c"), CANNOT),
        (b.BCompare(TENANT, "=", "a"), MAY),
        (b.BCompare(TENANT, "=", 5), CANNOT),
        (b.BIn(TENANT, ("c", "d")), CANNOT),
        (b.BIn(TENANT, ("c", "a")), MAY),
        (b.BIn(TENANT, ("b", "a")), ALL),
        (b.BIn(TENANT, ()), CANNOT),
        (b.BCompare(TENANT, ">", "b"), CANNOT),
        (b.BCompare(TENANT, ">=", "b"), MAY),
        (b.BCompare(TENANT, "<", "c"), ALL),
        (b.BHas(TENANT, "x"), CANNOT),
        (b.BHas(TENANT, ""), ALL),
        (b.BMatches(TENANT, "^c"), CANNOT),
        (b.BMatches(TENANT, "^[ab]$"), ALL),
        (b.BNot(b.BCompare(TENANT, "=", "c")), ALL),
        (b.BNot(b.BIn(TENANT, ("a", "b"))), CANNOT),
        (b.BAnd((b.BCompare(TENANT, "=", "a"), b.BCompare(TENANT, "=", "c"))), CANNOT),
        (b.BOr((b.BCompare(TENANT, "=", "d"), b.BCompare(TENANT, "=", "c"))), CANNOT),
    ],
)
def test_listed_values_decide(where: b.BCond, expected: int) -> None:
    part = listed("a", "b", "a")
    assert int(part_answer(where, part, Evidence.PARTITIONS)) == expected
    assert int(part_answer(where, part, Evidence.STATISTICS)) in (MAY, expected)


def test_a_row_without_a_value_keeps_a_list_from_saying_all() -> None:
    part = listed("a", None)
    assert int(part_answer(b.BCompare(OWN, "=", "a"), part)) == MAY
    assert int(part_answer(b.BNot(b.BCompare(OWN, "=", "b")), part)) == ALL


def test_words_of_a_severity_are_listed_but_do_not_stand_for_their_order() -> None:
    events = [Event(i, i, {"tenant_id": "error", "level#s": "error"}) for i in range(3)]
    part = part_of(events)
    assert part.partitions["level#s"] == ("error",)
    severity = b.Column("level", ("level", "level#s", "severity"), "level")
    where = b.BCompare(severity, ">=", "debug")
    assert not matching(where, Choice(part, slice(0, 3))).any()
    assert int(part_answer(where, part)) == MAY


def test_a_filter_rules_out_and_its_opposite_needs_no_look(tmp_path: Path) -> None:
    events = [Event(i, i, {"request_id": f"request-{i:04}"}) for i in range(50)]
    segment = on_disk(part_of(events), tmp_path)
    absent, present = b.BCompare(REQUEST, "=", "request-0777"), b.BCompare(REQUEST, "=", "request-0007")
    assert int(part_answer(absent, segment, Evidence.PARTITIONS)) == MAY
    assert int(part_answer(absent, segment)) == CANNOT
    assert int(part_answer(b.BNot(absent), segment)) == ALL
    assert int(part_answer(present, segment)) == MAY
    assert int(part_answer(b.BIn(REQUEST, ("request-0777", "request-0778")), segment)) == CANNOT
    assert int(part_answer(b.BIn(REQUEST, ("request-0777", "request-0007")), segment)) == MAY


def test_a_long_list_of_values_is_not_held_against_a_filter(tmp_path: Path) -> None:
    segment = on_disk(part_of([Event(0, 0, {"request_id": "request-0001"})]), tmp_path)
    absent = [f"request-{i:05}" for i in range(10, 12 + MANY)]
    asked: list[str] = []

    def may_hold(self: Segment, name: str, value: str) -> bool:
        asked.append(value)
        return False

    with mock.patch.object(Segment, "may_hold", may_hold):
        assert int(part_answer(b.BIn(REQUEST, tuple(absent)), segment)) == MAY
        assert not asked
        assert int(part_answer(b.BIn(REQUEST, tuple(absent[:MANY])), segment)) == CANNOT
        assert asked == absent[:MANY]


def test_parts_count_where_they_were_settled(tmp_path: Path) -> None:
    def one(name: str, ts: int, tenant: str, request: str, n: int) -> Segment:
        values = {"tenant_id": tenant, "request_id": request, "n#i": n}
        return on_disk(part_of([Event(ts, ts, values), Event(ts + 2, ts + 2, values)], name), tmp_path)

    parts = [
        one("kept", 10, "a", "request-0001", 1),
        one("early", 0, "a", "request-0001", 1),
        one("gap", 9, "a", "request-0001", 1),
        one("bounds", 12, "a", "request-0001", 7),
        one("tenant", 13, "b", "request-0001", 1),
        one("filter", 14, "a", "request-0002", 1),
    ]
    number = b.BCompare(b.Column("n", ("n#i",), "number"), "=", 1)
    where = b.BAnd((number, b.BCompare(OWN, "=", "a"), b.BCompare(REQUEST, "=", "request-0001")))
    found = survey(parts, where, 10, 11)
    assert [one.choice.part.id for one in found.kept] == ["kept"]
    assert +found.skipped == {"time": 5}
    found = survey(parts, where, 3, 20)
    assert [one.choice.part.id for one in found.kept] == ["kept", "gap"]
    assert +found.skipped == {"time": 1, "statistics": 1, "partition": 1, "bloom": 1}


class CountingFiles(OsFiles):
    """Files that note which ones of a segment are touched."""

    def __init__(self) -> None:
        self.touched: set[tuple[str, str]] = set()

    def size(self, path: Path) -> int:
        self._note(path)
        return super().size(path)

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        self._note(path)
        return super().read(path, start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        self._note(path)
        return super().map(path)

    def _note(self, path: Path) -> None:
        if path.parent.parent.name == "seg":
            self.touched.add((path.parent.name, path.name))


def test_only_what_the_answer_needs_is_touched(tmp_path: Path) -> None:
    with Ring.open(tmp_path / "store", decoder=no_decoder) as ring:
        for i, tenant in enumerate("abc"):
            ids = pa.array([f"request-{i}-{j:04}" for j in range(200)])
            columns = {
                "ts": pa.array(np.arange(200)),
                "seq": pa.array(np.arange(200)),
                "tenant_id": pa.array([tenant] * 200),
                "request_id": ids,
            }
            ring.append_columns(ColumnBatch(200, columns, TextParts.empty(), np.zeros(200, KEY)))
            ring.flush()
    files = CountingFiles()
    with Ring.open(tmp_path / "store", "r", decoder=no_decoder, files=files) as ring:

        def touched(where: b.BCond) -> tuple[set[str], set[str], dict[str, int]]:
            """Names of files that are touched in two segments or more, and in one, and what was skipped."""
            files.touched.clear()
            with ring.snapshot() as snapshot:
                for part in snapshot.parts:
                    assert isinstance(part, Segment)
                    part.close()
                result = execute(snapshot, b.BoundQuery(where=where))
                assert result.meta["n_returned"] == result.plan.rows_matched
            names = [name for _, name in files.touched]
            return (
                {name for name in names if names.count(name) > 1},
                {name for name in names if names.count(name) == 1},
                result.plan.skipped,
            )

        assert touched(b.BCompare(OWN, "=", "z")) == (set(), set(), {"partition": 3})
        assert touched(b.BCompare(REQUEST, "=", "request-9-0001")) == (
            {"segment.json", "post.arrow"},
            set(),
            {"bloom": 3},
        )
        shared, own, skipped = touched(b.BCompare(REQUEST, "=", "request-1-0001"))
        assert (shared, skipped) == ({"segment.json", "post.arrow"}, {"bloom": 2})
        assert "hot.arrow" in own
        both = b.BAnd((b.BCompare(OWN, "=", "b"), b.BCompare(REQUEST, "=", "request-9-0001")))
        shared, own, skipped = touched(both)
        assert (shared, own) == (set(), {"segment.json", "post.arrow"})
        assert skipped == {"partition": 2, "bloom": 1}


def no_decoder(raw: RawBatch, first_seq: int) -> ColumnBatch:
    raise AssertionError("nothing is decoded here")
