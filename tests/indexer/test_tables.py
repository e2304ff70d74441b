"""A table gives the events that its rows would give as records."""

from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import examples
from tests.indexer.read_tables import assert_same, from_dicts, from_table
from treering.indexer.tables import table_batches, to_table
from treering.indexer.times import zone
from treering.storage.errors import InputError

_TEXTS = st.one_of(
    st.sampled_from(
        ["disk full", "", " ", "INFO", "error", "2026-05-01T00:00:00Z", "1777593600", "[1, 2]", "1.5s"]
    ),
    st.sampled_from(['[{"role": "user", "content": "why?"}]', "word " * 400, "A1b" + "Ab1" * 100]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)


_KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1_777_593_600, 1_777_593_600_000]),
    pa.uint8(): st.integers(0, 255),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats() | st.sampled_from([1_777_593_600.5, 3.0, 0.5]),
    pa.bool_(): st.booleans(),
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.dictionary(pa.int32(), pa.string()): _TEXTS,
    pa.list_(pa.int64()): st.lists(st.integers(-5, 5) | st.none(), max_size=3),
    pa.large_list(pa.float64()): st.lists(st.floats(-1, 0), max_size=3),
    pa.list_(pa.float64(), 2): st.lists(st.floats(allow_nan=False), min_size=2, max_size=2),
    pa.list_(pa.bool_()): st.lists(st.booleans(), max_size=2),
    pa.list_(pa.string()): st.lists(_TEXTS | st.none(), max_size=2),
    pa.list_(pa.list_(pa.float64())): st.lists(st.lists(st.floats(0, 1), max_size=2), max_size=2),
    pa.struct({"x": pa.int64(), "y": pa.struct({"z": pa.string()})}): st.fixed_dictionaries(
        {"x": st.none() | st.integers(-9, 9), "y": st.none() | st.fixed_dictionaries({"z": st.none() | _TEXTS})}
    ),
    pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})): st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": _TEXTS}), max_size=3
    ),
    pa.null(): st.none(),
}  # fmt: skip


_NAMES = (
    "ts", "timestamp", "observed_time", "time_ms", "seq", "source", "reader", "record", "ts_origin", "level",
    "severity", "message", "prompt", "response", "context", "messages", "choices", "attention_entropy",
    "token_logprobs", "duration_ms", "hallucination_score", "trace_id", "n", "a.x", "a", "usage",
    "input_tokens", "model", "x#i", "",
)  # fmt: skip


@st.composite
def _tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    n_rows = draw(st.integers(1, 5))
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=5, unique=True))
    columns = {}
    for name in names:
        kind = draw(st.sampled_from(list(_KINDS)))
        columns[name] = (kind, draw(st.lists(st.none() | _KINDS[kind], min_size=n_rows, max_size=n_rows)))
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    return table, table.to_pylist()


@given(_tables())
@example((pa.table({"a": [{"x": 1}], "a.x": ["s"]}), [{"a": {"x": 1}, "a.x": "s"}]))
@examples(150)
def test_a_table_gives_what_its_rows_give_as_dicts(given: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, rows = given
    assert_same(from_table(table), from_dicts(rows))


_FRAME = st.fixed_dictionaries(
    {},
    optional={
        "ts": st.integers(1_700_000_000, 1_800_000_000),
        "message": _TEXTS,
        "n": st.integers(-9, 9),
        "x": st.floats(-2, 2),
        "ok": st.booleans(),
        "tags": st.lists(_TEXTS, min_size=1, max_size=2),
    },
)


@given(st.lists(_FRAME, min_size=1, max_size=4))
@examples(40)
def test_frames_give_what_their_rows_give_as_dicts(rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    full = [{name: row.get(name) for name in names} for row in rows]
    if names:
        schema = {"ts": pl.Int64, "message": pl.String, "n": pl.Int64, "x": pl.Float64, "ok": pl.Boolean}
        kinds = {name: schema.get(name, pl.List(pl.String)) for name in names}
        assert_same(from_table(pl.DataFrame(full, schema=kinds)), from_dicts(full))
        frame = pd.DataFrame({n: pd.Series([row[n] for row in full], dtype=object) for n in names})
        assert_same(from_table(frame), from_dicts(full))


def test_texts_of_a_table_are_embedded_and_keyed_as_those_of_records() -> None:
    rows = [{"ts": "2026-05-01T00:00:00Z", "msg": "took 5 ms", "prompt": "why?", "response": "no. " * 500}]
    batch = from_table(pa.Table.from_pylist(rows))
    assert len(batch.parts) > 3 and batch.parts.primary.sum() == 1
    assert_same(batch, from_dicts(rows))
    assert "response_repetition_ratio" in batch.columns


def test_messages_in_a_table_are_read_as_in_records() -> None:
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "hello"}], "choices": [{"message": {"content": "hi"}}]},
        {"messages": [{"role": "user", "content": "and?"}], "choices": None},
    ]
    batch = from_table(pa.Table.from_pylist(rows))
    assert batch.columns["prompt"].to_pylist() == ["hello", "and?"]
    assert batch.columns["response"].to_pylist() == ["hi", None]
    assert_same(batch, from_dicts(rows))


def test_time_columns_of_any_spelling_give_event_times() -> None:
    instant = datetime(2026, 5, 1, 8, 0, 0, 123000, tzinfo=UTC)
    ns = 1_777_622_400_123_000_000
    spellings: list[pa.Array] = [
        pa.array([instant], pa.timestamp("ns", "UTC")),
        pa.array([instant], pa.timestamp("ms", "Europe/Berlin")),
        pa.array([instant.replace(tzinfo=None)], pa.timestamp("us")),
        pa.array(["2026-05-01T10:00:00.123+02:00"]),
        pa.array(["2026-05-01 08:00:00,123"], pa.large_string()),
        pa.array([ns]),
        pa.array([ns // 1_000_000]),
        pa.array([1_777_622_400.123]),
        pa.array(["1777622400.123"]).dictionary_encode(),
    ]
    for array in spellings:
        for name in ("ts", "timestamp", "created_at"):
            batch = from_table(pa.table({name: array, "n": [1]}))
            assert (batch.ts_ns[0], batch.columns["ts_origin"][0].as_py()) == (ns, 0), (array.type, name)


def test_naive_times_of_a_table_are_read_in_the_zone_told() -> None:
    naive = datetime(2026, 5, 1, 10)
    for table in (
        pa.table({"when": pa.array([naive], pa.timestamp("us"))}),
        pa.table({"when": [naive.isoformat()]}),
    ):
        batch = from_table(table, tz=zone("Europe/Berlin"), map={"ts": "when"})
        assert batch.ts_ns[0] == 1_777_622_400_000_000_000
    nested = pa.table({"meta": [{"when": "2026-05-01T08:00:00Z"}]})
    assert from_table(nested, map={"ts": "meta.when"}).ts_ns[0] == 1_777_622_400_000_000_000


def test_rows_without_a_usable_time_are_dated_at_the_load_and_counted() -> None:
    table = pa.table({"ts": ["2026-05-01T00:00:00Z", "soon", None, "2999-01-01", "2200-01-01"]})
    (one,) = table_batches(table)
    assert one.batch.columns["ts_origin"].to_pylist() == [0, 3, 3, 3, 0]
    assert (one.n_undated, one.n_future) == (3, 1)
    far = pa.table({"ts": pa.array([10**12, 1], pa.timestamp("s"))})
    (one,) = table_batches(far)
    assert (one.n_undated, one.batch.ts_ns[1]) == (1, 10**9)
    assert "ts#s" in one.batch.columns


def test_timestamps_are_kept_exactly_as_rfc_3339() -> None:
    ns = pa.array([1_777_622_400_123_456_789, 1_777_622_400_000_000_000, None], pa.int64())
    berlin = ZoneInfo("Europe/Berlin")
    table = pa.table(
        {
            "ns": ns.cast(pa.timestamp("ns")),
            "us": pa.array([datetime(2026, 5, 1, 8, 0, 0, 5), datetime(2026, 5, 1), None]),
            "there": pa.array(
                [datetime(2026, 5, 1, 8, tzinfo=berlin)] * 3, pa.timestamp("ms", "Europe/Berlin")
            ),
            "nowhere": pa.array([0, 1, None], pa.timestamp("s", "Mars/Olympus")),
        }
    )
    columns = from_table(table).columns
    assert columns["ns#s"].to_pylist() == ["2026-05-01T08:00:00.123456789", "2026-05-01T08:00:00", None]
    assert columns["us#s"].to_pylist() == ["2026-05-01T08:00:00.000005", "2026-05-01T00:00:00", None]
    assert columns["there#s"].to_pylist() == ["2026-05-01T08:00:00+02:00"] * 3
    assert columns["nowhere#s"].to_pylist() == [
        "1970-01-01T00:00:00+00:00",
        "1970-01-01T00:00:01+00:00",
        None,
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([b"ab\xff", None]), {"s": ["ab\ufffd", None]}),
        (pa.array([b"ab", None], pa.large_binary()), {"s": ["ab", None]}),
        (pa.array([b"ab", None], pa.binary(2)), {"s": ["ab", None]}),
        (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), {"f": [1.5, None]}),
        (pa.array([Decimal(10**30), None], pa.decimal256(40, 0)), {"z": [str(10**30), None]}),
        (pa.array([Decimal("0.12345678901234567890123"), None]), {"s": ["0.12345678901234567890123", None]}),
        (pa.array([timedelta(milliseconds=1500), None], pa.duration("us")), {"f": [1.5, None]}),
        (pa.array([date(2026, 5, 1), None]), {"s": ["2026-05-01", None]}),
        (pa.array([time_of_day(8, 30), None]), {"s": ["08:30:00.000000", None]}),
        (pa.array([1, None], pa.dictionary(pa.int8(), pa.int32())), {"i": [1, None]}),
        (pa.array(["a", None], pa.string_view()), {"s": ["a", None]}),
        (pa.array([[1], None], pa.list_view(pa.int8())), {"[i]": [[1], None]}),
        (pa.array([[1.5, None], None], pa.large_list(pa.float16())), {"[f]": [[1.5, None], None]}),
        (pa.array([[2**64 - 1], None], pa.list_(pa.uint64())), {"[z]": [[str(2**64 - 1)], None]}),
        (pa.array([1.5, None], pa.float16()), {"f": [1.5, None]}),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), {}),
        (pa.array([{}, None], pa.struct([])), {"o": [True, None]}),
        (pa.array([None, None], pa.null()), {}),
        (pa.RunEndEncodedArray.from_arrays([2], ["a"]), {"s": ["a", "a"]}),
        (pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
         {"i": [1, None], "s": [None, "b"]}),
        (pa.array([(1, 15, 0), None], pa.month_day_nano_interval()), {"[i]": [[1, 15, 0], None]}),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_types_that_json_has_not_are_kept(array: pa.Array, expected: dict[str, list[Any]]) -> None:
    columns = from_table(pa.table({"v": array})).columns
    found = {n.removeprefix("v#"): a.to_pylist() for n, a in columns.items() if n.startswith("v#")}
    assert found == expected
    if pa.types.is_map(array.type):
        assert columns["v.k#i"].to_pylist() == [1, None]


def test_what_cannot_be_read_is_told_with_its_column() -> None:
    far = pa.array([[2**62]], pa.list_(pa.timestamp("s")))
    with pytest.raises(InputError, match="column 'far'"):
        from_table(pa.table({"far": far}))


def test_a_users_own_system_names_are_kept_beside() -> None:
    rows = [{"seq": 7, "source": "mine", "reader": 1.5, "source_line": 3, "ts_origin": "x", "record": "r"}]
    columns = from_table(pa.Table.from_pylist(rows)).columns
    assert [columns[n].to_pylist() for n in ("seq#i", "source#s", "reader#f", "source_line#i", "record#s")] == [
        [7], ["mine"], [1.5], [3], ["r"],
    ]  # fmt: skip
    assert columns["source"].to_pylist() == ["table"] and columns["source_line"].to_pylist() == [1]


def test_canonical_columns_of_fitting_types_are_those_fields() -> None:
    table = pa.table(
        {
            "input_tokens": pa.array([5], pa.int32()),
            "duration_s": pa.array([1.5], pa.float32()),
            "safety_filter_triggered": [True],
            "request_model": pa.array(["m"]).dictionary_encode(),
            "context": [["c1", "c2"]],
            "token_logprobs": pa.array([[-0.5, -1.0]], pa.list_(pa.float32())),
            "level": pa.array(["warn"], pa.large_string()),
        }
    )
    columns = from_table(table).columns
    found = [columns[name].to_pylist()[0] for name in (*table.column_names, "severity")]
    assert found == [5, 1.5, True, "m", ["c1", "c2"], [-0.5, -1.0], 4, "warn"]


def test_a_frames_mixed_column_keeps_each_value_as_it_is() -> None:
    values = [1, "a", None, 2.5, {"x": 1}, [1, "b"], float("nan"), 2**70]
    for frame in (
        pd.DataFrame({"n": range(8), "v": pd.Series(values, dtype=object)}),
        pl.DataFrame({"n": range(8), "v": pl.Series(values, dtype=pl.Object)}),
    ):
        columns = from_table(frame).columns
        assert columns["v#i"].to_pylist() == [1, *[None] * 7]
        assert columns["v#s"].to_pylist()[1] == "a" and columns["v#f"].to_pylist()[3] == 2.5
        assert columns["v.x#i"].to_pylist()[4] == 1 and columns["v#[s]"].to_pylist()[5] == [None, "b"]
        assert columns["v#[i]"].to_pylist()[5] == [1, None]
        assert columns["v#z"].to_pylist()[7] == str(2**70)
        assert all(columns[n][6].as_py() is None for n in columns if n.startswith("v"))


def test_polars_types_are_taken() -> None:
    frame = pl.DataFrame(
        {
            "ts": [datetime(2026, 5, 1, 8)],
            "c": pl.Series(["x"], dtype=pl.Categorical),
            "e": pl.Series(["y"], dtype=pl.Enum(["y"])),
            "d": pl.Series([Decimal("1.5")]),
            "t": [timedelta(seconds=2)],
            "s": [{"a": 1}],
            "l": [[{"a": 1}, {"a": 2}]],
            "arr": pl.Series([[1.0, 2.0]], dtype=pl.Array(pl.Float32, 2)),
            "b": [b"raw"],
            "big": pl.Series([2**100], dtype=pl.Int128),
            "nil": [None],
        }
    )
    for data in (frame, frame.lazy()):
        batch = from_table(data)
        assert batch.ts_ns[0] == 1_777_622_400_000_000_000
        told = {n: a[0].as_py() for n, a in batch.columns.items() if "#" in n}
        assert told == {
            "c#s": "x", "e#s": "y", "d#f": 1.5, "t#f": 2.0, "s.a#i": 1, "l.a#[i]": [1, 2], "arr#[f]": [1.0, 2.0],
            "b#s": "raw", "big#z": str(2**100),
        }  # fmt: skip


def test_two_columns_of_one_name_are_refused() -> None:
    for data in (
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ):
        with pytest.raises(InputError, match="two columns are called 'a'"):
            to_table(data)


@pytest.mark.parametrize("data", [pd.Series([1]), pl.Series([1]), pa.array([1]), object(), 5])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="cannot append"):
        to_table(data)


def test_a_reader_of_batches_is_a_table() -> None:
    table = pa.table({"n": [1, 2]})
    assert to_table(table.to_reader()).equals(table)
    assert to_table(table.to_batches()[0]).equals(table)
