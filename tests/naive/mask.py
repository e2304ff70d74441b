"""The masker's rule with regular expressions over Latin-1 text: slow, and written on its own."""

from __future__ import annotations

import re

_MARK = "#"
_BLANK = re.compile(r"[ \t\n\r\v\f]+")
_PIECE = re.compile(r"[A-Za-z0-9]+")
_JOIN = re.compile(r"[_.-]{1,2}(?=[A-Za-z0-9])")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![A-Za-z0-9])")
_ADDRESS = re.compile(r"[0-9a-fA-F:]+(?![A-Za-z0-9_])")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][+-]?\d+(?![A-Za-z0-9]))?")
_HEX_ID = re.compile(r"0[xX][0-9a-fA-F]+|(?=.*\d)(?=.*[a-fA-F])[0-9a-fA-F]{8,}")
_MIXED_ID = re.compile(r"(?=.*\d.*\d)(?=.*[A-Za-z])[A-Za-z0-9]{16,}")
_BAR = re.compile(r"%(?: (?:Completed )?)?\|[^\[]{0,598}\[(?=[^\]]{0,94}\])[^\]<]*<[^\]]*\]", re.S)
_BLOCK = re.compile("\xe2\x96[\x80-\x9f]")


def naive_masked(text: str) -> str:
    s = text.encode("utf-8", "replace").decode("latin-1")
    out, i = "", 0
    while i < len(s):
        if m := _BLANK.match(s, i):
            out, i = (out if not out or out.endswith(" ") else out + " "), m.end()
        elif _PIECE.match(s, i):
            out, i = _field(s, i, out)
            if out.endswith(_MARK) and (m := _BAR.match(s, i)):
                out, i = out + "%", m.end()
        elif s.startswith("::", i) and (end := _address(s, i)):
            out, i = _put_mark(out), end
        elif m := _BLOCK.match(s, i):
            i = m.end()
        else:
            if not (s[i] in "=#-*.>~" and out.endswith(s[i])):
                out += s[i]
            i += 1
    return out.removesuffix(" ").encode("latin-1").decode("utf-8", "replace")


def _field(s: str, i: int, out: str) -> tuple[str, int]:
    is_name, is_first = s[i].isalpha(), True
    while True:
        piece = _PIECE.match(s, i)
        assert piece is not None
        word, end = piece.group(), piece.end()
        is_hex = re.fullmatch("[0-9a-fA-F]+", word) is not None
        if is_first and is_hex and s[end : end + 1] == ":" and (stop := _address(s, i)):
            return _put_mark(out), stop
        if m := _UUID.match(s, i):
            out, i = _put_mark(out), m.end()
        elif _HEX_ID.fullmatch(word) or _MIXED_ID.fullmatch(word):
            out, i = _put_mark(out), end
        elif is_name:
            for run in re.findall(r"\d+|[A-Za-z]+", word):
                long = 3 if run == word else 5
                out = _put_mark(out) if run.isdigit() and len(run) >= long else out + run
            i = end
        else:
            while i < end:
                m = _NUMBER.match(s, i)
                out, i = (_put_mark(out), m.end()) if m else (out + s[i], i + 1)
        joined = _JOIN.match(s, i)
        if joined is None:
            return out, i
        out, i, is_first = out + joined.group(), joined.end(), False


def _address(s: str, i: int) -> int:
    m = re.compile("[0-9a-fA-F:]+").match(s, i)
    assert m is not None
    run = m.group()
    if re.match("[A-Za-z0-9_]", s[m.end() : m.end() + 1]):
        return 0
    has_pair = "::" in run
    if run.endswith(":") and not run.endswith("::"):
        run = run[:-1]
    is_one = any(c.isdigit() for c in run) and (run.count(":") >= 3 or has_pair)
    return i + len(run) if is_one else 0


def _put_mark(out: str) -> str:
    if out[-1:] in ("-", "+") and not re.match("[A-Za-z0-9#]", out[-2:-1]):
        out = out[:-1]
    if out.endswith(_MARK + ","):
        return out[:-1]
    if out.endswith(_MARK + ", "):
        return out[:-2]
    return out + _MARK
