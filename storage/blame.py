"""Whether an error of the system says something of a file, or of who asks for it: decided here and nowhere else.

A file is damaged if its bytes are out of reach for everybody and however often they are asked for. Missing rights,
memory, descriptors or room say nothing of them: such an error ends what was being done, and nothing is given up.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from .errors import DamageError

MEND = "restore the file from a copy"
"""What to do about a damaged file that belongs to no segment."""

_OF_FILES = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),
        # What disks and file systems say of bytes that are gone, or fail a checksum of theirs.
        *(errno.EIO, errno.ENODATA, errno.EILSEQ, errno.EBADMSG, errno.EUCLEAN),
    }
)

_ODD = (pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class OddFileError(OSError):
    """Where a file should be lies a named pipe, a socket or a device: reading it might wait for ever."""


def is_damage(error: OSError) -> bool:
    """Whether an error says of a file that it is missing, no file at all, or that its bytes cannot be had."""
    return isinstance(error, DamageError | OddFileError) or error.errno in _OF_FILES


def is_no_file(error: OSError) -> bool:
    """Whether an error says that no file lies at a path: nothing, a link to nothing, or something else."""
    is_other = isinstance(error, FileNotFoundError | IsADirectoryError | OddFileError)
    return is_other or error.errno == errno.ELOOP


def told(error: OSError, path: Path) -> str:
    """Give what is wrong with the file at `path`, without its name and the advice.

    Raises the error itself where it says nothing of the file.
    """
    if not is_damage(error):
        raise error
    if isinstance(error, DamageError):
        return error.what or str(error).removeprefix(f"{path}: ").partition("; ")[0]
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "it is missing"
    if isinstance(error, IsADirectoryError):
        return "it is a directory and no file"
    if isinstance(error, OddFileError):
        return f"it {error.strerror}"
    return f"it cannot be read: {error.strerror or error}"


@contextmanager
def past_damage() -> Iterator[None]:
    """Leave the body, and go on behind it, where its error is damage of a file; any other is raised."""
    try:
        yield
    except OSError as error:
        if not is_damage(error):
            raise


@contextmanager
def past_odd() -> Iterator[None]:
    """As `past_damage`, and where a file holds something else than it should, so that it cannot be taken apart."""
    try:
        with past_damage():
            yield
    except MemoryError:
        # Arrow's is an ArrowException as well.
        raise
    except _ODD:
        return


@contextmanager
def as_damage(path: Path) -> Iterator[None]:
    """Raise what an error of the body says of the file at `path` as DamageError; that it is missing stays as it is."""
    try:
        yield
    except (DamageError, FileNotFoundError):
        raise
    except OSError as error:
        what = told(error, path)
        raise DamageError(f"{path}: {what}; {MEND}", path=path, what=what) from error
