"""Whether an error means that memory ran out, whichever library says so, and what to do then."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ShortageError, TreeringError

ADVICE = (
    "end other programs, or raise the limit that this one has (`ulimit -v`, its container's), and do it again"
)
"""What helps."""

_OUT_OF_MEMORY = re.compile(
    r"out of memory|(?:can't|cannot|could not|failed to) (?:allocate|map)|bad_alloc|allocation failure",
    re.IGNORECASE,
)
_LIBRARIES = frozenset(("duckdb", "_duckdb", "torch"))


def is_shortage(error: BaseException) -> bool:
    """Whether memory ran out: as Python and Arrow say it, DuckDB, torch, or the loader of shared libraries."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, TreeringError):
        return False
    is_of_library = type(error).__module__.partition(".")[0] in _LIBRARIES
    if not is_of_library and not isinstance(error, ImportError | RuntimeError):
        return False
    return _OUT_OF_MEMORY.search(str(error)) is not None


@contextmanager
def shortage_told(doing: str) -> Iterator[None]:
    """Raise ShortageError, which names what was being done (`while ...`), where memory runs out in the body."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TreeringError) or not is_shortage(error):
            raise
        raise ShortageError(f"memory ran out {doing}: {ADVICE}") from error
