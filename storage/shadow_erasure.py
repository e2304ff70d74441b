"""An erasure in the shadow of a store: what was taken out of the store goes out of its shadow in the same call.

The shadow counts only while it says the audit head of the store. The erasure in it writes the new head in the
version in which the events go, so that a crash in between leaves a shadow that does not count, and is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .batch import Int64s
from .catalog import Change
from .cut import Cut, Plan, State, cut_chosen
from .errors import StoreError
from .part import Part
from .rejects import Reject
from .rows import RowIndex
from .shadow import SHADOW_ACT, close_shadow, drop_shadow, has_shadow, head_details, open_shadow, read_shadow
from .writer import Writer

Bools = npt.NDArray[np.bool_]

Erase = Callable[[Writer, Plan], bool | None]
"""Erases in this store; gives whether the bytes are gone, None where there was nothing to erase."""


def erase_in_shadow(writer: Writer, erase: Erase, *, head_before: str, forgets: bool) -> bool:
    """Take out of the shadow what the store has no more; give whether all of it had to be dropped instead.

    The caller holds `changing`. head_before: audit head of the store before its own erasure. forgets: whether
    vectors made of these events go too. Raises StoreError where the shadow could not be removed.
    """
    if not has_shadow(writer.files, writer.layout):
        return False
    found = read_shadow(writer.files, writer.layout)
    if found is None or found.audit_head != head_before or not _is_followed(writer, erase, forgets=forgets):
        with writer.mutex, writer.guard("removing the shadow"):
            return drop_shadow(writer)
    return False


def is_in(wanted: Int64s, ascending: Int64s) -> Bools:
    """Whether each number is one of these, bool (n)."""
    if not len(ascending):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    found: Bools = ascending[places] == wanted
    return found


def _is_followed(writer: Writer, erase: Erase, *, forgets: bool) -> bool:
    """Whether the shadow is in step with the store again."""
    was_open = writer.shadow is not None
    try:
        shadow = writer.shadow or open_shadow(writer)
        return _follow(writer, shadow, erase, forgets=forgets)
    except (StoreError, OSError):
        # It is made of the store, and can be made again.
        return False
    finally:
        if not was_open:
            close_shadow(writer)


def _follow(writer: Writer, shadow: Writer, erase: Erase, *, forgets: bool) -> bool:
    with writer.mutex:
        parts = writer.view.live_parts()
    kept = _Others(np.sort(np.concatenate([np.empty(0, np.int64), *(part.seq for part in parts)])))

    def plan(state: State) -> Cut:
        return replace(cut_chosen(state, kept), forgets=forgets)

    is_erased = erase(shadow, plan)
    if is_erased is None:
        with shadow.mutex:
            shadow.commit(Change(acts=[(SHADOW_ACT, head_details(writer))]))
        return True
    return is_erased


@dataclass(frozen=True, slots=True)
class _Others:
    """Chooses the events that have none of these numbers, which ascend."""

    seqs: Int64s

    def rows(self, parts: Sequence[Part]) -> list[RowIndex]:
        """Give their rows in each part."""
        return [np.flatnonzero(~is_in(part.seq, self.seqs)) for part in parts]

    def rejects(self, rejects: Sequence[Reject]) -> Bools:
        """Give which rejects go: a shadow has none."""
        return np.zeros(len(rejects), np.bool_)
