"""One value as text: for a terminal, where foreign control characters must not act, and for JSON."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, date, datetime
from typing import Any

from treering.indexer.whole_numbers import digits_of, is_whole, json_text

HIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that never reach a terminal as they are: controls, half characters, line separators."""

BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of writing and so make a line read as what it is not."""


def visible(text: str) -> str:
    r"""Give `text` with control characters escaped (ESC as `\x1b`): a log line must not move the cursor."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) for c in text)


def _escaped(char: str) -> str:
    if char not in BIDI and unicodedata.category(char) not in HIDDEN:
        return char
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short:
        return short
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cell(value: Any) -> str:
    """Give a value as a person reads it: nothing for missing, short floats, lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return visible(value)
    return digits_of(value) if is_whole(value) else visible(dumps(value))


def plain(value: Any) -> str | None:
    """Give a value as a field of CSV or TSV: full precision, None for missing (NaN and infinity included)."""
    value = jsonable(value)
    if value is None or isinstance(value, str):
        return value
    return dumps(value)


def dumps(value: Any) -> str:
    """Give strict JSON on one line in raw UTF-8: NaN and infinity are null, all whole numbers stay exact."""
    import orjson

    try:
        return orjson.dumps(value, default=_with_digits).decode()
    except (TypeError, ValueError):
        # Integers beyond 64 bits and half surrogates are valid JSON in ASCII spelling; orjson refuses both.
        value = jsonable(value)
        try:
            text = json_text(value)
            text.encode()
        except UnicodeEncodeError:
            return json_text(value, ascii_only=True)
        return text


def _with_digits(value: Any) -> Any:
    import orjson

    return orjson.Fragment(digits_of(value)) if is_whole(value) else jsonable(value)


def jsonable(value: Any) -> Any:
    """Give `value` in types that JSON has, whole numbers of any size among them."""
    if value is None or isinstance(value, bool | str) or is_whole(value):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(one) for one in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    for method in ("tolist", "as_py", "isoformat"):  # numpy, Arrow, times of day
        if hasattr(value, method):
            return jsonable(getattr(value, method)())
    return str(value)


def rfc3339(moment: datetime) -> str:
    """Give a moment with nine digits and `Z` for UTC; a naive one is UTC; a pandas Timestamp keeps its ns."""
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = moment.microsecond * 1000 + getattr(moment, "nanosecond", 0)
    offset = moment.strftime("%z")
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
    return f"{text}.{fraction:09d}{zone}"
