import json
import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.indexer.recorder import Recorder
from treering.indexer.decode import Decoder
from treering.indexer.ingest import ingest_rows
from treering.indexer.jsonl import load
from treering.indexer.rows_in import BLOCK_BYTES, encode_row, encode_value, is_rows, row_blocks
from treering.indexer.whole_numbers import BigInt
from treering.storage.errors import InputError


def _back(value: Any) -> Any:
    return load(encode_row({"v": value}, 0))["v"]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
@examples(80)
def test_json_values_come_back_exactly(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert _back(value) == value


class _Colour(Enum):
    RED = "red"


@dataclass
class _Point:
    x: int
    at: datetime


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**64, 2**64),
        (-(10**30), -(10**30)),
        (math.inf, math.inf),
        (datetime(2026, 5, 1, 8, tzinfo=timezone(timedelta(hours=2))), "2026-05-01T08:00:00+02:00"),
        (datetime(2026, 5, 1, 8, 0, 0, 7), "2026-05-01T08:00:00.000007"),
        (datetime(1890, 1, 1, tzinfo=timezone(timedelta(seconds=1172))), "1889-12-31T23:40:28+00:00"),
        (date(2026, 5, 1), "2026-05-01"),
        (timedelta(milliseconds=1500), 1.5),
        (pd.Timestamp("2026-05-01T00:00:00.000000001Z"), "2026-05-01T00:00:00.000000001+00:00"),
        (pd.NaT, None),
        (pd.NA, None),
        (np.datetime64("2026-05-01T00:00:00.000000001", "ns"), "2026-05-01T00:00:00.000000001"),
        (np.datetime64("NaT"), None),
        (np.timedelta64(1500, "ms"), 1.5),
        (np.int64(7), 7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["2026-05-01", "NaT"], "M8[D]"), ["2026-05-01", None]),
        (b"ab\xff", "ab\ufffd"),
        (bytearray(b"ab"), "ab"),
        (Decimal("0.1"), 0.1),
        (Decimal("2.00"), 2.0),
        (Decimal(10**20), 10**20),
        (Decimal("1E+30"), 10**30),
        (10**700, BigInt("1" + "0" * 700)),
        (Decimal("7" * 5000), BigInt("7" * 5000)),
        ([{"n": -(10**5000), "x": 0.5}], [{"n": BigInt("-1" + "0" * 5000), "x": 0.5}]),
        (Decimal("1E+999999999"), "1E+999999999"),
        (Decimal("0.12345678901234567890123"), "0.12345678901234567890123"),
        ({1: "a", None: "b", False: "c", (1, 2): 4}, {"1": "a", "null": "b", "false": "c", "(1, 2)": 4}),
        ({datetime(2026, 5, 1): {2: 3}}, {"2026-05-01T00:00:00": {"2": 3}}),
        ({3}, [3]),
        (deque([1, 2]), [1, 2]),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (_Colour.RED, "red"),
        (_Point(1, datetime(2026, 5, 1)), {"x": 1, "at": "2026-05-01T00:00:00"}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("half \ud83d", "half \ufffd"),
        ({"half \ud83d": 1}, {"half \ufffd": 1}),
    ],
)
def test_python_values_as_json(value: Any, expected: Any) -> None:
    found = _back(value)
    assert found == expected and type(found) is type(expected)


def test_a_number_that_python_will_not_write_stays_as_text() -> None:
    assert _back(10**5000) == "1" + "0" * 5000
    assert _back([10**5000, 1]) == ["1" + "0" * 5000, 1]


def test_nan_is_a_token_and_not_null() -> None:
    assert encode_value({"a": math.nan, "b": np.float64("nan"), "c": -math.inf}) == (
        b'{"a":NaN,"b":NaN,"c":-Infinity}'
    )
    raw = Recorder()
    ingest_rows(raw, [{"x": math.nan}])
    values = Decoder()(raw.batches[0], 0).columns["x#f"].to_pylist()
    assert len(values) == 1 and math.isnan(values[0])


@pytest.mark.parametrize("row", [None, 5, "a.log", ["a"], ("a", 1)])
def test_what_is_no_mapping_is_refused_with_its_position(row: Any) -> None:
    ring = Recorder()
    with pytest.raises(InputError, match=r"^row 2 is .*expected a mapping"):
        ingest_rows(ring, [{"n": 0}, {"n": 1}, row, {"n": 3}])
    assert ring.records == [b'{"n":0}', b'{"n":1}']


def test_a_row_that_holds_itself_is_refused() -> None:
    row: dict[str, Any] = {}
    row["me"] = [row]
    with pytest.raises(InputError, match="row 0 cannot be written"):
        encode_row(row, 0)


def test_rows_are_durable_while_the_stream_goes_on() -> None:
    ring = Recorder()
    seen: list[int] = []

    def stream() -> Iterator[dict[str, Any]]:
        for n in range(40):
            seen.append(len(ring.records))
            yield {"n": n, "text": "x" * (BLOCK_BYTES // 8)}

    assert ingest_rows(ring, stream()).accepted == 40
    assert max(n - stored for n, stored in enumerate(seen)) <= 9
    assert len(ring.records) == 40 and not ring.positions()


def test_what_came_before_a_streams_own_error_is_kept() -> None:
    def stream() -> Iterator[dict[str, Any]]:
        yield {"n": 0}
        raise OSError("the sender went away")

    ring = Recorder()
    with pytest.raises(OSError, match="sender"):
        ingest_rows(ring, stream())
    assert ring.records == [b'{"n":0}']


def test_blocks_hold_whole_lines_and_a_mapping_is_one_row() -> None:
    rows = [{"n": n, "text": "line\nfeed " * 5000} for n in range(50)]
    blocks = list(row_blocks(rows))
    assert len(blocks) > 1 and all(block.endswith(b"\n") for block in blocks)
    assert [load(line) for line in b"".join(blocks).splitlines()] == rows
    assert list(row_blocks({"n": 1})) == [b'{"n":1}\n']
    assert list(row_blocks([])) == []


def test_what_counts_as_rows() -> None:
    assert is_rows([]) and is_rows({"a": 1}) and is_rows(iter([{}]))
    assert not any(map(is_rows, ("a.log", b"a", 5, None, open)))


def test_utc_stays_utc() -> None:
    assert _back(datetime(2026, 5, 1, tzinfo=UTC)) == "2026-05-01T00:00:00+00:00"
