"""The errors of treering: few classes, each by what the caller can do about it."""

from __future__ import annotations

from pathlib import Path


class TreeringError(Exception):
    """Base of every error that treering raises on purpose; its text is meant for the user.

    done: what a call that takes events in had taken before it failed, which stays: what it would have returned, as
    far as it came. None where there is nothing to tell.
    """

    done: object = None


class QueryError(TreeringError, ValueError):
    """The query cannot be understood or does not fit the stored fields.

    Parameters
    ----------
    message : one line: what is wrong and how to mend it.
    text : the query as written, when it came as text.
    position : 0-based character offset of the fault in `text`.
    """

    def __init__(self, message: str, *, text: str | None = None, position: int | None = None) -> None:
        self.message = message
        self.text = text
        self.position = position
        super().__init__(message)

    def __str__(self) -> str:
        """Give the message, and below it the query line with a caret under the fault."""
        if self.text is None or self.position is None:
            return self.message
        head = self.text[: self.position]
        line_no, column = head.count("\n") + 1, self.position - (head.rfind("\n") + 1) + 1
        line = self.text.split("\n")[line_no - 1]
        return f"{line_no}:{column}: {self.message}\n  {line}\n  {' ' * (column - 1)}^"


class ConfigError(TreeringError, ValueError):
    """A setting, path or option does not make sense."""


class StaleError(ConfigError):
    """What was asked for was replaced meanwhile: an erasure made another segment of it, say. Look again."""


class InputError(TreeringError):
    """A source of records cannot be read at all (single bad records are counted, not raised)."""


class StoreError(TreeringError, OSError):
    """The store cannot do what was asked: I/O failed, the lock is held, the directory is no store."""


class DamageError(StoreError):
    """A file of the store is torn, altered or missing; the message names it and says how to go on.

    path: the file, segment_id: the segment that it belongs to, what: what is wrong with it, without the rest of
    the message; each where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        segment_id: str | None = None,
        what: str | None = None,
    ) -> None:
        self.path = path
        self.segment_id = segment_id
        self.what = what
        super().__init__(message)


class ShortageError(TreeringError, MemoryError):
    """Memory ran out. Nothing that was acknowledged is lost; the same call with more memory does it."""


class ModelError(TreeringError):
    """No embedding model can be had, or it is not the one this store was built with."""
