"""What a command's exit code means, and which code an error gets."""

from __future__ import annotations

from enum import IntEnum

from treering.storage.errors import ConfigError, QueryError


class Exit(IntEnum):
    """Exit codes of every verb; scripts rely on them."""

    DONE = 0
    """Done, also when nothing was found."""
    NOTHING = 1
    """Nothing was found and `--fail-empty` was given; a check of `demo` failed."""
    USAGE = 2
    """The command line or the query cannot be understood."""
    REJECTED = 3
    """Done, but some records were rejected (they are kept, see `rejects`)."""
    FAILED = 4
    """The store, a file or the model cannot be used."""
    INTERRUPTED = 130
    """Ctrl-C."""


def exit_of(error: BaseException) -> Exit:
    """Give the exit code for an error that ends a command."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return Exit.USAGE if isinstance(error, QueryError | ConfigError) else Exit.FAILED
