"""What a terminal would show of a line: escape sequences gone, redraws replaced by their last state."""

from __future__ import annotations

import re

ESCAPE = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    rb"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, hyperlinks
    rb"|[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC strings
    rb"|[ -/]+[0-~]|[0-Z\\^-~]?)"  # two-byte and character-set sequences, a stray ESC
)
"""One terminal escape sequence."""


def strip_escapes(line: bytes) -> bytes:
    """Give `line` without its terminal escape sequences."""
    return ESCAPE.sub(b"", line) if b"\x1b" in line else line


def last_redraw(line: bytes) -> bytes:
    """Give what a line of carriage-return redraws shows in the end: the text after its last one."""
    if b"\r" not in line:
        return line
    for piece in reversed(line.split(b"\r")):
        if piece.strip():
            return piece
    return b""
