"""Erasure: events out of sight at once, in one version, then their bytes out of the files.

1. What only the log holds goes into segments. 2. A cut is planned, while others append and look. 3. One commit:
segments that go whole are no longer named, others get a deletion file, reject files are written anew, and the
audit record stands in the same version. From here on nobody sees what is gone. 4. Segments with a deletion are
rewritten without it: texts, dictionaries, vectors that nothing uses any more, postings, trees, statistics.
5. Old files go as soon as no reader holds an older version. After a crash between 3 and 4 the deletions are
honoured, and opening the store to write, the next erasure or the next fold goes on with 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from .cleaner import Cleaner
from .cut import Plan, State
from .errors import StoreError
from .excision import Act, ChangedError, Erased, Excision, open_current
from .locking import AT_ONCE, Patience
from .shadow import SHADOW_ACT, drop_void_shadow, head_details
from .shadow_erasure import erase_in_shadow
from .writer import Writer

PATIENT_TRIES = 3
"""So often a cut is planned while others write; if the segments changed each time, they wait for the next one."""

SHADOW_WAIT_S = 10.0
"""So long an erasure waits for one who looks how far a move is; then the shadow is removed as a whole."""


class Eraser:
    """Takes events out of the segments of one writer's store."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._cleaner = Cleaner(writer)

    def erase(self, plan: Plan, act: Act, patience: Patience = AT_ONCE) -> Erased:
        """Take out what `plan` says; nobody sees it from then on, and its bytes are gone if the answer says so.

        Other threads append and look meanwhile. patience: how long to wait for readers of older versions.
        Raises StoreError where nothing was changed, or where files could not be rewritten, which it says.
        """
        with self._writer.changing:
            self._cleaner.clean()
            head_before = self._writer.view.catalog.root.audit_head
            erased = self._cut_out(plan, act)
            with _told(erased):
                is_dropped = self._erase_in_shadow(erased, act, head_before)
                made, damaged = self._cleaner.clean()
                known = {error.segment_id for error in damaged}
                damaged += tuple(one for one in erased.damaged if one.segment_id not in known)
        with _told(erased):
            n_waiting = self._wait(patience)
        return replace(
            erased, rewritten=made, damaged=damaged, n_waiting=n_waiting, is_shadow_dropped=is_dropped
        )

    def _cut_out(self, plan: Plan, act: Act) -> Erased:
        """Take events out of sight."""
        for is_patient in [*[True] * PATIENT_TRIES, False]:
            with ExitStack() as stack:
                if not is_patient:
                    stack.enter_context(self._writer.mutex)
                try:
                    erased = self._try(plan, act)
                except ChangedError:
                    continue
                if erased is not None:
                    return erased
        raise StoreError(
            f"{self._writer.layout.path}: its segments changed while nobody could write; do it again"
        )

    def _try(self, plan: Plan, act: Act) -> Erased | None:
        """Plan and commit; None where the segments changed in between."""
        self._writer.check_going()
        cut = plan(self._state())
        if cut.is_empty:
            return Erased(cut, self._writer.view.catalog.root.version, None)
        excision = Excision(self._writer, cut, act)
        excision.write()
        with self._writer.mutex:
            return excision.commit()

    def _state(self) -> State:
        """Give the newest state, in which the log holds nothing."""
        writer = self._writer
        with writer.mutex:
            writer.flush()
            return replace(writer.view.state(), open=lambda meta: open_current(writer, meta))

    def _erase_in_shadow(self, erased: Erased, act: Act, head_before: str) -> bool:
        """Bring the shadow in step; give whether it went as a whole."""
        if erased.record is None:
            return drop_void_shadow(self._writer)
        told = Act(SHADOW_ACT, head_details(self._writer), act.derived)

        def erase(shadow: Writer, plan: Plan) -> bool | None:
            done = Eraser(shadow).erase(plan, told, Patience(SHADOW_WAIT_S))
            return None if done.record is None else done.is_erased

        return erase_in_shadow(self._writer, erase, head_before=head_before, forgets=erased.cut.forgets)

    def _wait(self, patience: Patience) -> int:
        """Give how many files readers of older versions keep from going, after as much time as there is."""
        n = self._writer.collect(patience)
        if not n:
            self._writer.sync_removals()
        return n


@contextmanager
def _told(erased: Erased) -> Iterator[None]:
    """Say, in an error of what comes behind the commit, that the events are deleted."""
    try:
        yield
    except StoreError as error:
        if erased.record is None:
            raise
        raise StoreError(
            f"{erased.cut.n_events:,} events are deleted and nobody sees them any more, but files could not be "
            f"rewritten without them: {error}; the next deletion, fold or opening of the store goes on with it"
        ) from error


__all__ = ["Act", "Erased", "Eraser"]
