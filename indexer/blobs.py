"""Base64 payloads inside texts (pictures, files), replaced by short markers that can be read and found."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from hashlib import sha256

MIN_LENGTH = 256
"""Characters from which a bare run of base64 letters counts as a payload."""

_BLOB = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(?P<uri>[A-Za-z0-9+/_-]{32,}={0,2})"
    rf"|(?<![A-Za-z0-9+/_=-])(?P<bare>[A-Za-z0-9+/_-]{{{MIN_LENGTH},}}={{0,2}})"
)
_BLANK = re.compile(r"\s")
_MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "audio/wav"),
    (b"%PDF", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)


def mark_blobs(text: str) -> str:
    """Give `text` with each base64 payload as a marker such as ``<image/png 58.6 KiB sha256:ab12cd34ef56>``.

    Payloads are data URIs, and bare runs of at least `MIN_LENGTH` base64 letters that mix upper case, lower
    case and digits.
    """
    if "base64," not in text and not _may_hold_run(text):
        return text
    return _BLOB.sub(_marker, text)


def _may_hold_run(text: str) -> bool:
    """Whether half a payload's length may be without a blank: a run of `MIN_LENGTH` covers such a window whole."""
    half = MIN_LENGTH // 2
    windows = range(0, len(text) - half + 1, half) if len(text) >= MIN_LENGTH else ()
    return any(_BLANK.search(text, at, at + half) is None for at in windows)


def _marker(match: re.Match[str]) -> str:
    encoded = match["uri"] or match["bare"]
    if match["bare"] and not _is_mixed(encoded):
        return match.group()
    payload = _decode(encoded)
    mime = match["mime"] or next((mime for magic, mime in _MAGIC if payload.startswith(magic)), "base64")
    return f"<{mime} {_size(len(payload))} sha256:{sha256(payload).hexdigest()[:12]}>"


def _is_mixed(run: str) -> bool:
    return any(c.isupper() for c in run) and any(c.islower() for c in run) and any(c.isdigit() for c in run)


def _decode(encoded: str) -> bytes:
    letters = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]  # a cut payload still has its whole bytes
    try:
        return b64decode(letters + "=" * (-len(letters) % 4))
    except binascii.Error:
        return encoded.encode()


def _size(n_bytes: int) -> str:
    if n_bytes < 1024:
        return f"{n_bytes} B"
    size = n_bytes / 1024
    return f"{size:.1f} KiB" if size < 1024 else f"{size / 1024:.1f} MiB"
