"""What an error of the operating system means to a user: what failed, on which file, and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS})
"""Errors of flock where the file system has no locks."""

_ADVICE = {
    errno.ENOSPC: "free some space there and do it again",
    errno.EDQUOT: "free some space or have the quota raised, and do it again",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`) and do it again",
    errno.EROFS: "mount it writable, or open the store to read",
    errno.EACCES: "run as the user that owns it, or give yours the rights",
    errno.EPERM: "run as the user that owns it, or give yours the rights",
    errno.EMFILE: "this process may open no more: raise its limit (`ulimit -n`) and do it again",
    errno.ENFILE: "the machine may open no more: end other programs or raise fs.file-max, and do it again",
    errno.ENOMEM: "free some memory, or raise vm.max_map_count, and do it again",
    errno.EIO: "the disk fails: see the system's log, and take a copy while it can be read",
    errno.ENODEV: "the device is gone: bring it back, mount it again and do it again",
    errno.ENXIO: "the device is gone: bring it back, mount it again and do it again",
    errno.ESTALE: "the network file system lost it: mount it again and do it again",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "its symbolic links run in a circle: give another path",
    errno.ENOLCK: "put the store on a file system that has locks (flock)",
    errno.ENOTSUP: "put the store on a file system that has what is missing",
}


def explained(error: OSError) -> str:
    """Give an error in one line: what failed, the file where it is known, what to do where there is advice."""
    what = error.strerror or str(error) or type(error).__name__
    place = f" ({error.filename})" if error.filename else ""
    advice = _ADVICE.get(error.errno or 0)
    return f"{what}{place}" + (f"; {advice}" if advice else "")


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Give the file's name to an error of the system that lacks it, as those of open files do."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
