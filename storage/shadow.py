"""The shadow of a store: a second store inside it, with the same events, which another model embeds.

It lies in `reembed/` and is nobody's but the one who moves the store: no query looks at it and no backup copies
it. It counts only while the audit record of the store ends as it did when the shadow was begun: whatever takes
events out of the store, and the move itself, makes the shadow void, also where it could not be removed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from .batch import ColumnBatch, ModelInfo, RawBatch
from .catalog import Catalog, Change
from .errors import DamageError, StoreError
from .files import Files
from .layout import Layout
from .opening import NOTHING
from .remote import is_remote
from .view import View
from .writer import Writer

SHADOW_ACT = "shadow"
"""Action of the audit records of a shadow; the last one says at which audit head of the store it stands."""


@dataclass(frozen=True, slots=True)
class ShadowState:
    """How far a move is. n_rows: events in the shadow. pending: distinct texts of its segments without a vector.

    audit_head: of the store, whose events it has and no others.
    """

    model: ModelInfo
    audit_head: str
    n_rows: int
    pending: int


def shadow_layout(layout: Layout) -> Layout:
    """Give where the shadow of a store lies."""
    return Layout(layout.reembed)


def has_shadow(files: Files, layout: Layout) -> bool:
    """Whether something lies where the shadow of a store does."""
    # A store elsewhere has none, and asking would cost a request.
    return not is_remote(files) and layout.reembed.name in files.listdir(layout.path)


def read_shadow(files: Files, layout: Layout) -> ShadowState | None:
    """Give the state of a store's shadow, None where there is none that could be gone on with."""
    if not has_shadow(files, layout):
        return None
    view = View(files, shadow_layout(layout), _no_records, NOTHING)
    try:
        view.follow().release()
    except (StoreError, FileNotFoundError):
        # One that was not begun to the end, or not removed to the end; or it goes at this moment.
        return None
    return _state_of(view.catalog)


def begin_shadow(writer: Writer, model: ModelInfo) -> Writer:
    """Begin the shadow of a store, which has none."""
    shadow = open_shadow(writer)
    try:
        with shadow.mutex:
            shadow.commit(Change(model=model, acts=[(SHADOW_ACT, head_details(writer))]))
    except BaseException:
        close_shadow(writer)
        raise
    return shadow


def head_details(writer: Writer) -> dict[str, str]:
    """Give what a shadow says of the store that it is of."""
    return {"audit_head": writer.view.catalog.root.audit_head}


def open_shadow(writer: Writer) -> Writer:
    """Open the shadow of a store to write; it is closed with the store."""
    shadow = Writer.open(writer.files, shadow_layout(writer.layout), _no_records)
    with writer.mutex:
        if writer.is_closed:
            shadow.close()
            writer.check_going()
        writer.shadow = shadow
    return shadow


def close_shadow(writer: Writer) -> None:
    """Let go of the shadow of a store, which stays."""
    with writer.mutex:
        shadow, writer.shadow = writer.shadow, None
    if shadow is not None:
        shadow.close()


def drop_shadow(writer: Writer) -> bool:
    """Remove the shadow of a store, whoever works on it; give whether there was one. Raises OSError."""
    with writer.mutex:
        if writer.shadow is not None:
            writer.shadow.close()
            writer.shadow = None
        if not has_shadow(writer.files, writer.layout):
            return False
        writer.files.rmtree(writer.layout.reembed)
        writer.files.fsync_dir(writer.layout.path)
    return True


def sweep_shadow(writer: Writer) -> None:
    """Remove a shadow that does not count any more, and from another what its versions no longer name.

    Never fails: it is tried again, and a shadow is never read.
    """
    with suppress(OSError, StoreError):
        if not drop_void_shadow(writer) and has_shadow(writer.files, writer.layout):
            open_shadow(writer)
            close_shadow(writer)


def drop_void_shadow(writer: Writer) -> bool:
    """Remove a shadow that does not count any more; give whether there was one. Raises StoreError."""
    with writer.mutex:
        if not has_shadow(writer.files, writer.layout) or current_shadow(writer) is not None:
            return False
        with writer.guard("removing the shadow"):
            return drop_shadow(writer)


def current_shadow(writer: Writer) -> ShadowState | None:
    """Give the shadow of a store if it counts."""
    found = read_shadow(writer.files, writer.layout)
    head = writer.view.catalog.root.audit_head
    return found if found is not None and found.audit_head == head else None


def _state_of(catalog: Catalog) -> ShadowState | None:
    said = [record for record in catalog.audit_records if record.action == SHADOW_ACT]
    metas = catalog.segments.entries.values()
    # An erasure in it that was not done to the end makes it of no use, too: its files hold what is gone.
    if not said or catalog.model is None or any(meta.deleted is not None for meta in metas):
        return None
    return ShadowState(
        catalog.model,
        said[-1].details["audit_head"],
        sum(meta.n_live for meta in metas),
        sum(meta.pending for meta in metas),
    )


def _no_records(raw: RawBatch, first_seq: int) -> ColumnBatch:
    raise DamageError(
        f"the shadow of a store has no log, yet there are {raw.n_rows} records in it; remove it"
    )
