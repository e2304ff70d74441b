"""Console-log records as columns: severity, logger, process and the message, whole batches at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from .ansi import last_redraw, strip_escapes
from .levels import code_of_word
from .lineheads import BY_NAME, FORMATS, ROLES, LineFormat

_EXTRA_ROLES = frozenset({"host", "node", "label", "stream"})
_TELLING = re.compile(
    rb"(?:(?P<warn>(?:\S+:\d+: )?\w*(?:Warning|WARNING|warning): )"
    rb"|(?P<error>Traceback \(most recent call last\)|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b"
    rb"|(?:Error|ERROR|error): ))"
)
_PREFIX = BY_NAME["prefix"]


@dataclass(slots=True)
class _Heads:
    """What the heads of a batch say: `said` by code, the code and body of each record."""

    codes: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    said: list[dict[str, bytes]] = field(default_factory=list)
    seen: dict[tuple[object, ...], int] = field(default_factory=dict)

    def code(self, fmt: LineFormat, values: tuple[bytes | None, ...]) -> int:
        """Give the code of what one head says."""
        key = (fmt.name, *values)
        code = self.seen.get(key)
        if code is None:
            code = self.seen[key] = len(self.said)
            self.said.append(fmt.said(values))
        return code


def text_columns(records: Sequence[bytes], format_names: Sequence[str]) -> dict[str, pa.Array]:
    """Give `body` and what the heads say (severity, level, logger, process and such) by column.

    A message is what follows the head, without escape sequences and, where a line was redrawn, only its last
    state; of an event of several lines each line without the head they repeat. Bytes that are no UTF-8 become
    U+FFFD. Roles without a canonical field (`host`, `node`, `label`, `stream`) are original columns,
    `host#s`. A record without a severity is `warn` or `error` if its text begins as a warning, an exception
    or a traceback does.

    Parameters
    ----------
    records : the bytes of each event.
    format_names : the heads that the reader tried, in its order.
    """
    formats = tuple(BY_NAME[name] for name in format_names if name in BY_NAME) or FORMATS
    heads = _read_heads(records, formats)
    codes = np.array(heads.codes, np.int32)
    columns = {"body": _strings(heads.bodies)}
    for role in ROLES:
        array = _role_column(role, heads.said, codes)
        if array is not None:
            columns[f"{role}#s" if role in _EXTRA_ROLES else role] = array
    levels = _levels(heads, codes)
    if levels is not None:
        columns["level"] = levels
    return columns


def _read_heads(records: Sequence[bytes], formats: tuple[LineFormat, ...]) -> _Heads:
    heads = _Heads()
    first = formats[0]
    match, roles, seen, name = first.pattern.match, first.roles, heads.seen, first.name
    none = heads.code(first, (None,) * len(roles))
    add_code, add_body = heads.codes.append, heads.bodies.append
    for record in records:
        is_plain = b"\n" not in record and b"\x1b" not in record and b"\r" not in record
        head = match(record) if is_plain else None
        if head is None:
            code, body = _read_odd(record, formats, heads, none)
            add_code(code)
            add_body(body)
            continue
        values = head.group(*roles)
        code = seen.get((name, *values), -1)
        add_code(heads.code(first, values) if code < 0 else code)
        add_body(record if first.whole else record[head.end() :])
    return heads


def _read_odd(record: bytes, formats: tuple[LineFormat, ...], heads: _Heads, none: int) -> tuple[int, bytes]:
    """Read a record that the commonest head does not settle: other heads, escapes, redraws, several lines."""
    lines = [strip_escapes(line.removesuffix(b"\r")).lstrip(b"\r") for line in record.split(b"\n")]
    for fmt in formats:
        head = fmt.pattern.match(lines[0])
        if head is not None:
            break
    else:
        return none, b"\n".join(map(last_redraw, lines)).rstrip(b"\n")
    shown = [_message(fmt, line) for line in lines]
    return heads.code(fmt, head.group(*fmt.roles)), b"\n".join(shown).strip(b"\n")


def _message(fmt: LineFormat, line: bytes) -> bytes:
    head = fmt.pattern.match(line) or _PREFIX.pattern.match(line)
    if head is None or fmt.whole:
        return last_redraw(line)
    return last_redraw(line[head.end() :])


def _strings(texts: list[bytes]) -> pa.Array:
    """Give UTF-8 texts as an Arrow array without a Python string for each."""
    data = b"".join(texts)
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    if not _is_utf8(data, ends):
        return _strings([text.decode("utf-8", "replace").encode() for text in texts])
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.StringArray.from_buffers(len(texts), offsets, pa.py_buffer(data))


def _is_utf8(data: bytes, ends: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    """Whether each text is UTF-8: the whole is, and no text begins within a character."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    starts = ends[:-1][ends[:-1] < len(data)]
    return not bool(((np.frombuffer(data, np.uint8)[starts] & 0xC0) == 0x80).any())


def _role_column(
    role: str, said: list[dict[str, bytes]], codes: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> pa.Array | None:
    values = [one.get(role) for one in said]
    if not any(values):
        return None
    if role == "pid":
        numbers = pa.array([int(v) if v and len(v) < 19 else None for v in values], pa.int64())
        return numbers.take(pa.array(codes))
    texts = [v.decode("utf-8", "replace") if v else None for v in values]
    if role == "logger":
        texts = [text.rstrip(":") if text else None for text in texts]
    dictionary = pa.array(texts, pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(dictionary.indices.take(pa.array(codes)), dictionary.dictionary)


def _levels(heads: _Heads, codes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.Array | None:
    table = np.array(
        [code_of_word(one.get("severity", b"").decode("latin-1")) for one in heads.said], np.uint8
    )
    levels = table[codes]
    for row in np.flatnonzero(levels == 0):
        told = _TELLING.match(heads.bodies[row])
        if told:
            levels[row] = 4 if told["warn"] else 5
    if not levels.any():
        return None
    return pa.array(levels, pa.uint8(), mask=levels == 0)
