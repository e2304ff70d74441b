"""How values and names are spelt: quotes, escapes, numbers, regular expressions, backticks."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite

from treering.indexer.whole_numbers import digits_of, is_whole
from treering.storage.errors import QueryError

from .ast import Name, Param, Scalar, Value

RESERVED = frozenset(
    ["and", "or", "not", "in", "exists", "missing", "has", "contains", "by", "asc", "desc", "as", "every"]
)
"""Words that are names only in backticks, because elsewhere they would continue what stands before."""

SOFT = frozenset(
    [
        "last",
        "today",
        "yesterday",
        "since",
        "until",
        "between",
        "on",
        "tz",
        "where",
        "like",
        "top",
        "bottom",
        "top-k",
        "top_k",
        "sort",
        "limit",
        "offset",
        "fields",
        "count",
        "exact",
    ]
)
"""Words that start a clause, and are names where what follows leaves no doubt: `last > 5`."""

JSON_WORDS = frozenset(("near", "phrase"))
"""Words of the JSON form's filters; plain names in text."""

MAX_DIGITS = 1000
"""Digits of a whole number that a query may hold; the numbers that it is compared with may have any number of them."""

_BEYOND = 10**MAX_DIGITS

_MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u109f\u1780-\u17d3"
_PLAIN = re.compile(rf"[^\W\d](?:[\w.\-{_MARKS}]*[\w{_MARKS}])?")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/"}
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')
_SPELT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_PAIR = re.compile(r"\\(.)", re.DOTALL)
_PATTERN_PIECE = re.compile(r"\\.|/", re.DOTALL)


def make_name(text: str, *, position: int | None = None) -> Name:
    """Give a name as if written plainly; one that cannot stand plainly counts as written in backticks."""
    if not text:
        raise QueryError("a field name is empty: the empty name is written ``", position=position)
    return Name(text, not is_plain(text) or is_keyword(text), position)


def is_plain(text: str) -> bool:
    """Whether a name needs no backticks for its letters."""
    return _PLAIN.fullmatch(text) is not None


def is_keyword(text: str) -> bool:
    """Whether a name is also a word of the language; such a name is looked up exactly as it stands."""
    folded = text.lower()
    return folded in RESERVED or folded in SOFT or folded in JSON_WORDS


def read_backticks(text: str, *, position: int | None = None) -> Name:
    """Read a name in backticks, where two backticks stand for one."""
    return Name(text[1:-1].replace("``", "`"), True, position)


def write_name(name: Name, *, before_tilde: bool = False) -> str:
    """Spell a name so that it reads back as the same name."""
    text = name.text
    if is_plain(text):
        word = text.lower()
        if not name.quoted or word in JSON_WORDS or (word in SOFT and not before_tilde):
            return text
    return "`" + text.replace("`", "``") + "`"


def read_string(token: str, *, position: int | None = None) -> str:
    r"""Read a text in quotes; escapes are `\n \t \r \" \' \\ \/ \uXXXX`. Raises QueryError for others."""
    body = token[1:-1]
    if "\\" not in body:
        return body

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            at = None if position is None else position + 1 + match.start()
            raise QueryError(f"unknown escape \\{code}: write \\\\ for a backslash", position=at)
        return _ESCAPES[code]

    return _join_surrogates(_ESCAPE.sub(plain, body), position)


def _join_surrogates(text: str, position: int | None) -> str:
    r"""Put together what was written as two `\u` halves, as JSON does."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise QueryError(
            "half of a surrogate pair: write both \\u halves, or the character", position=position
        ) from None


def write_string(text: str) -> str:
    """Spell a text in double quotes."""
    return '"' + _UNSAFE.sub(lambda m: _SPELT.get(m[0]) or f"\\u{ord(m[0]):04x}", text) + '"'


def read_number(token: str, *, position: int | None = None) -> int | float:
    """Read a number: whole ones of any size stay exact. Raises QueryError beyond the range of float64."""
    if token.lstrip("+-").isdigit():
        n_digits = len(token.lstrip("+-"))
        if n_digits > MAX_DIGITS:
            raise QueryError(f"a number of {n_digits} digits, {MAX_DIGITS} are allowed", position=position)
        return int(Decimal(token))
    value = float(token)
    if not isfinite(value):
        raise QueryError(f"{token} is beyond the range of numbers", position=position)
    return value


def read_count(token: str, what: str, *, position: int | None = None) -> int:
    """Read the N of `top N`, `limit N`, `offset N`: a whole number from 0 up."""
    value = read_number(token, position=position)
    return check_count(value, what, position=position)


def check_count(value: object, what: str, *, position: int | None = None) -> int:
    """Give the value as a count. Raises QueryError for what is negative, fractional or no number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise QueryError(f"{what} takes a whole number, not {value}", position=position)
    if value < 0:
        raise QueryError(f"{what} cannot be negative: {value}", position=position)
    if value > 2**62:
        raise QueryError(f"{what} {value} is too large", position=position)
    return value


def write_value(value: Value) -> str:
    """Spell a literal or parameter."""
    if isinstance(value, Param):
        return f"${value.name}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return write_string(value) if isinstance(value, str) else write_number(value)


def write_number(value: int | float) -> str:
    """Spell a number so that it reads back as the same type and value."""
    return digits_of(value) if isinstance(value, int) else repr(value)


def check_scalar(value: object, *, position: int | None = None) -> Scalar:
    """Give the value if it is a literal of the language. Raises QueryError otherwise."""
    if isinstance(value, float) and not isfinite(value):
        raise QueryError(f"{value} cannot be compared: no ordering holds for it", position=position)
    if is_whole(value):
        return check_whole(value, position=position)
    if isinstance(value, (str, bool, float)):
        return value
    raise QueryError(
        f"a value must be text, a number, true or false, not {type(value).__name__}", position=position
    )


def check_whole(value: int | Decimal, what: str = "a number", *, position: int | None = None) -> int:
    """Give a whole number as a literal. Raises QueryError for one of more than MAX_DIGITS digits."""
    if not -_BEYOND < value < _BEYOND:
        raise QueryError(f"{what} of more than {MAX_DIGITS} digits: no more are allowed", position=position)
    return int(value)


def read_pattern(token: str) -> str:
    r"""Read `/pattern/`, where `\/` stands for a slash."""
    return normal_pattern(token[1:-1])


def normal_pattern(pattern: str) -> str:
    r"""Give the one spelling of a pattern that all forms share: a slash is a slash, never `\/`."""
    return _PAIR.sub(lambda m: "/" if m[1] == "/" else m[0], pattern)


def write_pattern(pattern: str) -> str:
    """Spell a regular expression between slashes."""
    return "/" + _PATTERN_PIECE.sub(lambda m: "\\/" if m[0] == "/" else m[0], pattern) + "/"


def check_pattern(pattern: str, *, position: int | None = None) -> str:
    """Give the pattern in its shared spelling. Raises QueryError for one that no linear-time engine takes."""
    import re2

    if not pattern:
        raise QueryError("the pattern is empty: use `exists` to ask for any value", position=position)
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        told = error.args[0]
        reason = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
        raise QueryError(
            f"the pattern is not understood ({reason}); look-around and back-references are not available, "
            "so that every pattern runs in linear time",
            position=position,
        ) from None
    return normal_pattern(pattern)
