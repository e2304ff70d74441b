"""JSON records: lines of objects, documents of objects; what is no object is rejected with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

import orjson

from treering.storage.batch import Source
from treering.storage.rejects import Reject

from .canonical import record_time
from .lines import Batch, Lines, RawRows
from .whole_numbers import read_int

MAX_NESTING = 400
"""Levels of objects and arrays in a record; well below what the interpreter can walk."""

_INT64_DIGITS = 19
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_DIGITS = (b"0" * (_INT64_DIGITS + 1), b"-" + b"0" * _INT64_DIGITS)
_SURROGATE = re.compile("[\ud800-\udfff]")


class RecordError(ValueError):
    """A record that is no JSON object; `column` is 1-based, 0 where there is no place."""

    def __init__(self, reason: str, column: int = 0) -> None:
        super().__init__(f"column {column}: {reason}" if column else reason)


def load(line: bytes, *, is_plain: bool = False) -> dict[str, Any]:
    """Give the JSON object that `line` holds. Raises RecordError for anything else.

    is_plain: that it holds no number past 64 bits is known already.

    NaN, Infinity, lone surrogates (U+FFFD in the result), bytes that are no UTF-8 (U+FFFD) and integers of
    any size (exact) are read; of a repeated key the last value counts.
    """
    value = _load_fast(line) if is_plain or not _has_long_digits(line) else _load_exactly(line)
    if type(value) is not dict:
        raise RecordError(f"a JSON {_KINDS.get(type(value), 'value')}, not an object")
    if line.count(b"{") + line.count(b"[") > MAX_NESTING and _depth(value) > MAX_NESTING:
        raise RecordError(f"nested too deeply: more than {MAX_NESTING} levels")
    return value


def has_repeated_key(line: bytes, record: dict[str, Any]) -> bool:
    """Whether an object in `line` names a key twice; `record` is what `load` made of it.

    Looks closer only where more quoted names stand in the line than keys in the record.
    """
    if line.count(b'":') - line.count(b'\\":') <= _count_keys(record):
        return False
    repeated = False

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(pairs)
        repeated = repeated or len(found) < len(pairs)
        return found

    json.loads(line.decode("utf-8", "replace"), object_pairs_hook=note, parse_int=read_int)
    return repeated


@dataclass(slots=True)
class _Clock:
    """How records without their own time are dated."""

    tz: tzinfo = UTC
    now_ns: int = 0
    path: str | None = None


class JsonLinesReader:
    """Reads one object a line. Blank lines are no error; a last line without a line feed counts if it parses.

    Such a line that does not parse is rejected, and the batch's offset stays before it: a later load takes it
    whole.

    Parameters
    ----------
    source : what the batches say they are from.
    now_ns : time of records without a usable one (origin `ingest`).
    tz : zone of times that name none. ts_path : where the time stands, if the user says so.
    offset, line : where the bytes to come begin, and how many lines lie before.
    """

    def __init__(
        self,
        source: Source,
        *,
        now_ns: int,
        tz: tzinfo = UTC,
        ts_path: str | None = None,
        offset: int = 0,
        line: int = 0,
    ) -> None:
        self.source = source
        self._clock = _Clock(tz, now_ns, ts_path)
        self._lines = Lines(offset, line + 1)

    def feed(self, chunk: bytes) -> Batch:
        """Take the bytes that follow and give the records that they complete."""
        return self._read(self._lines.feed(chunk))

    def finish(self) -> Batch:
        """Take the unfinished last line."""
        rest = self._lines.rest()
        start, number = self._lines.offset, self._lines.number
        batch = self._read([rest] if rest else [])
        if rest:
            torn = bool(batch.rejects)
            batch.offset, batch.line = (start if torn else start + len(rest)), number - 1
        return batch

    def _read(self, lines: list[bytes]) -> Batch:
        rows, rejects, repeated = RawRows(), [], 0
        clock, at = self._clock, self._lines
        is_plain = not _has_long_digits(b"\n".join(lines))
        for line in lines:
            offset, number = at.offset, at.number
            at.offset, at.number = offset + len(line) + 1, number + 1
            line = line.rstrip(b"\r")
            if not line.strip():
                continue
            try:
                record = load(line, is_plain=is_plain)
            except RecordError as exc:
                rejects.append(Reject(self.source.name, number, offset, str(exc), line))
                continue
            repeated += has_repeated_key(line, record)
            ts_ns, origin = record_time(record, clock.now_ns, tz=clock.tz, path=clock.path)
            rows.add(line, ts_ns, origin, offset, number)
        raw = rows.to_raw(self.source)
        return Batch(raw, at.offset, at.number - 1, rejects, n_lines=len(lines), repeated_keys=repeated)


class JsonDocumentReader:
    """Reads a pretty-printed file: objects one after the other, or an array of them; each is an event.

    The file is held in memory. What cannot be parsed is rejected, up to the end of the file.
    """

    def __init__(
        self,
        source: Source,
        *,
        now_ns: int,
        tz: tzinfo = UTC,
        ts_path: str | None = None,
        offset: int = 0,
        line: int = 0,
    ) -> None:
        self.source = source
        self._clock = _Clock(tz, now_ns, ts_path)
        self._offset = offset
        self._line = line
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> Batch:
        """Take the bytes that follow; records come at the end."""
        self._chunks.append(chunk)
        return Batch(RawRows().to_raw(self.source), self._offset, self._line)

    def finish(self) -> Batch:
        """Give all records."""
        data = b"".join(self._chunks)
        self._chunks.clear()
        rows, rejects = RawRows(), []
        line, counted = self._line + 1, 0
        for start, end, reason in _values(data):
            line, counted = line + data.count(b"\n", counted, start), start
            record = data[start:end]
            try:
                if reason:
                    raise RecordError(reason)
                ts_ns, origin = record_time(
                    load(record), self._clock.now_ns, tz=self._clock.tz, path=self._clock.path
                )
            except RecordError as exc:
                rejects.append(Reject(self.source.name, line, self._offset + start, str(exc), record))
                continue
            rows.add(record, ts_ns, origin, self._offset + start, line)
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        n_joined = n_lines - len(rows.records) - len(rejects)
        raw, end = rows.to_raw(self.source), self._offset + len(data)
        end_line = self._line + data.count(b"\n")
        return Batch(raw, end, end_line, rejects, n_lines=n_lines, n_joined=max(n_joined, 0))


def is_document(sample: bytes) -> bool:
    """Whether a file that begins with `sample` is a JSON document rather than JSON lines."""
    stripped = sample.lstrip(b"\xef\xbb\xbf \t\r\n")
    if stripped[:1] == b"[":
        return stripped[1:].lstrip()[:1] in (b"{", b"]")
    first, line_feed, rest = stripped.partition(b"\n")
    if first[:1] != b"{" or not line_feed or _is_object(first):
        return False
    return first.strip() == b"{" or not any(_is_object(line) for line in rest.split(b"\n")[:50])


def is_json_lines(sample: bytes) -> bool:
    """Whether a file that begins with `sample` holds JSON objects by the line: its first line, or most."""
    lines = [line for line in sample.split(b"\n")[:200] if line.strip(b"\xef\xbb\xbf \t\r")]
    if not lines or not any(line.lstrip(b"\xef\xbb\xbf \t")[:1] == b"{" for line in lines):
        return False
    good = sum(_is_object(line) for line in lines)
    return good * 2 >= len(lines) or _is_object(lines[0]) or (len(lines) == 1 and lines[0].startswith(b'{"'))


def _is_object(line: bytes) -> bool:
    if line.strip(b"\xef\xbb\xbf \t\r")[:1] != b"{":
        return False
    try:
        load(line)
    except RecordError:
        return False
    return True


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _has_long_digits(line: bytes) -> bool:
    """Whether a number may lie outside 64 bits, where the fast parser gives floats."""
    if len(line) <= _INT64_DIGITS:
        return False
    zeros = line.translate(_DIGITS_TO_ZERO)
    return _LONG_DIGITS[0] in zeros or _LONG_DIGITS[1] in zeros


def _load_fast(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _load_exactly(line)


def _load_exactly(line: bytes) -> Any:
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_int=read_int)
    except json.JSONDecodeError as exc:
        raise RecordError(f"invalid JSON: {exc.msg.lower()}", exc.pos + 1) from exc
    except RecursionError as exc:
        raise RecordError("invalid JSON: nested too deeply") from exc
    return _without_surrogates(value) if "\\u" in text else value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value) if _SURROGATE.search(value) else value
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        nested = [list(v.values()) if type(v) is dict else v for v in level]
        level = [item for items in nested for item in items if type(item) in (dict, list)]
    return depth


def _count_keys(value: Any) -> int:
    if type(value) is dict:
        n = len(value)
        for item in value.values():
            if type(item) in (dict, list):
                n += _count_keys(item)
        return n
    return sum(_count_keys(item) for item in value if type(item) in (dict, list))


def _values(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Give the byte spans of the values of a document (of arrays: the members), and why one is none."""
    text = data.decode("utf-8", "surrogateescape")
    decoder = json.JSONDecoder(parse_int=read_int)
    at, at_byte = 0, 0
    while True:
        start = _skip(text, at)
        at_byte += _width(text[at:start])
        if start == len(text):
            return
        try:
            _, end = decoder.raw_decode(text, start)
            reason = ""
        except (json.JSONDecodeError, RecursionError) as exc:
            place = (
                f"line {exc.lineno} column {exc.colno}: {exc.msg.lower()}"
                if isinstance(exc, json.JSONDecodeError)
                else "nested too deeply"
            )
            end, reason = len(text), f"invalid JSON document: {place}"
        width = _width(text[start:end])
        yield at_byte, at_byte + width, reason
        at, at_byte = end, at_byte + width


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in "\ufeff \t\r\n,[]":
        at += 1
    return at


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
