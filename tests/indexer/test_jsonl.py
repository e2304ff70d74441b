import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from treering.indexer.jsonl import (
    JsonDocumentReader,
    JsonLinesReader,
    RecordError,
    has_repeated_key,
    is_document,
    is_json_lines,
    load,
)
from treering.indexer.lines import Batch
from treering.indexer.whole_numbers import BigInt
from treering.storage.batch import Source
from treering.storage.rejects import Reject

_SUITE = Path(__file__).parents[2].parent / "shared" / "data" / "nasty" / "jsontestsuite"


def _read(data: bytes, step: int = 1 << 20) -> tuple[list[bytes], list[Reject], Batch]:
    reader = JsonLinesReader(Source("x.jsonl", "jsonl"), now_ns=7)
    batches = [reader.feed(data[i : i + step]) for i in range(0, len(data), step)] + [reader.finish()]
    records = [b.raw.record(i) for b in batches for i in range(b.raw.n_rows)]
    return records, [r for b in batches for r in b.rejects], batches[-1]


def test_only_line_feeds_end_records() -> None:
    text = '{"a":"x\u2028y\u2029z\u0085w"}\n\n{"b":1}\r\n'.encode()
    records, rejects, last = _read(text)
    assert records == ['{"a":"x\u2028y\u2029z\u0085w"}'.encode(), b'{"b":1}']
    assert (rejects, last.offset, last.line) == ([], len(text), 3)


def test_what_python_writes_is_read() -> None:
    record = load(b'{"a":NaN,"b":-Infinity,"c":-1e999,"d":"\\ud83d x","e":"\\ud83d\\ude00","\\udc9dk":1}')
    assert math.isnan(record["a"]) and record["b"] == record["c"] == -math.inf
    assert (record["d"], record["e"], record["\ufffdk"]) == ("\ufffd x", "😀", 1)


@given(st.integers(-(10**40), 10**40))
def test_integers_are_exact_at_any_size(value: int) -> None:
    assert load(b'{"v":%d,"w":[%d]}' % (value, -value)) == {"v": value, "w": [-value]}


def test_integers_past_what_python_converts_are_kept_as_text() -> None:
    digits = "9" * 5000
    value = load(b'{"v":%s}' % digits.encode())["v"]
    assert type(value) is BigInt and value == digits


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id":2', "column 8"),
        (b'{"a":1} x', "column 9"),
        (b"[1,2]", "a JSON array, not an object"),
        (b'"text"', "a JSON string, not an object"),
        (b"null", "a JSON null, not an object"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested too deeply"),
    ],
)
def test_rejects_say_where_and_why(line: bytes, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        load(line)


def test_bad_lines_stand_with_line_and_offset() -> None:
    data = b'{"a":1}\n{"b":\n\n[1]\n{"c":3}\n'
    records, rejects, _ = _read(data)
    assert records == [b'{"a":1}', b'{"c":3}']
    assert [(r.line, r.offset, r.record) for r in rejects] == [(2, 8, b'{"b":'), (4, 15, b"[1]")]


def test_a_torn_last_line_is_rejected_and_left_for_later() -> None:
    _, rejects, last = _read(b'{"a":1}\n{"b":')
    assert [(r.line, r.record) for r in rejects] == [(2, b'{"b":')]
    assert (last.offset, last.line) == (8, 1)


def test_a_last_line_without_line_feed_counts() -> None:
    records, rejects, last = _read(b'{"a":1}\n{"b":2}')
    assert (len(records), rejects, last.offset, last.line) == (2, [], 15, 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"a":1,"a":2}', True),
        (b'{"m":{"k":1,"k":2}}', True),
        (b'{"m":[{"k":1},{"k":2}]}', False),
        (b'{"a":"x\\":y"}', False),
        (b'{"a":"\\"b\\":","c":{"d":1}}', False),
    ],
)
def test_repeated_keys_are_noticed(line: bytes, expected: bool) -> None:
    assert has_repeated_key(line, load(line)) is expected
    assert load(b'{"a":1,"a":2}') == {"a": 2}


def test_bytes_that_are_no_utf8_do_not_lose_the_record() -> None:
    assert load(b'{"a":"x\xff"}') == {"a": "x\ufffd"}


_LINE = st.one_of(
    st.sampled_from([b"", b"{", b"[1]", b"  ", b"{}x"]),
    st.dictionaries(st.text(), st.text()).map(lambda obj: json.dumps(obj).encode()),
)


@given(st.lists(_LINE, max_size=12), st.integers(1, 30))
@examples(60)
def test_chunks_do_not_change_what_is_read(lines: list[bytes], step: int) -> None:
    data = b"\n".join(lines)
    whole, parts = _read(data), _read(data, step)
    assert whole[:2] == parts[:2]
    assert (whole[2].offset, whole[2].line) == (parts[2].offset, parts[2].line)


def test_documents_give_each_object() -> None:
    for data in (b'[\n {"a": 1},\n {"a": "\xc3\xa9"},\n 5\n]\n', b'{\n "a": 1\n}\n{\n "a": "\xc3\xa9"\n}\n5'):
        reader = JsonDocumentReader(Source("x.json", "json"), now_ns=7)
        reader.feed(data[:9])
        reader.feed(data[9:])
        batch = reader.finish()
        assert [json.loads(batch.raw.record(i)) for i in range(2)] == [{"a": 1}, {"a": "é"}]
        assert all(data[o:].startswith(batch.raw.record(i)) for i, o in enumerate(batch.raw.offset))
        assert [r.reason for r in batch.rejects] == ["a JSON number, not an object"]
        assert batch.offset == len(data)


def test_a_broken_document_is_reported() -> None:
    reader = JsonDocumentReader(Source("x.json", "json"), now_ns=7)
    reader.feed(b'[{"a": 1},\n {"a": ]')
    batch = reader.finish()
    assert batch.raw.n_rows == 1
    assert [(r.line, r.offset) for r in batch.rejects] == [(2, 12)]
    assert "line 2 column 8" in batch.rejects[0].reason


@pytest.mark.parametrize(
    ("sample", "lines", "document"),
    [
        (b'{"a":1}\n{"b":2}\n', True, False),
        (b'{"a":1}\nnot json\nnor this\n', True, False),
        (b'{"id":1,"ts":"20', True, False),
        (b'{\n  "a": 1\n}\n', False, True),
        (b'[{"a":1},{"b":2}]', False, True),
        (b"[\n  {", False, True),
        (b"[2026-08-01 23:43:46] hi\n", False, False),
        (b'INFO 1\n{"cmdline":{}}\nINFO 2\n', False, False),
        (b"", False, False),
    ],
)
def test_json_files_are_told_by_content(sample: bytes, lines: bool, document: bool) -> None:
    assert (is_document(sample), is_document(sample) or is_json_lines(sample)) == (
        document,
        document or lines,
    )


def test_hostile_files_are_read_or_rejected_never_fatal() -> None:
    if not _SUITE.is_dir():
        pytest.skip("no conformance files here")
    paths = sorted(p for p in _SUITE.iterdir() if p.is_file())
    assert len(paths) > 100
    for path in paths:
        data = path.read_bytes()
        records, rejects, _ = _read(data)
        assert len(records) + len(rejects) <= data.count(b"\n") + 1


def test_the_lines_of_a_long_document_are_counted_on_from_record_to_record() -> None:
    n = 20_000  # counted from the start each time, this takes a minute
    data = b"[\n" + b",\n\n".join(b'{\n  "n": %d\n}' % i for i in range(n)) + b"\n]\n"
    reader = JsonDocumentReader(Source("x", "json"), now_ns=0)
    reader.feed(data)
    batch = reader.finish()
    assert batch.raw.line.tolist() == list(range(2, 2 + 4 * n, 4))
    assert [data.count(b"\n", 0, at) + 1 for at in batch.raw.offset[-3:].tolist()] == batch.raw.line[
        -3:
    ].tolist()
