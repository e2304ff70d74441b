"""What a process keeps of its segments: the files that it opened last, and decoded columns up to a budget."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import pyarrow as pa

T = TypeVar("T")

KEPT_BYTES = 256 << 20
"""Decoded columns that a view keeps: a scan that needs more decodes again, at about the price of the scan."""

OPEN_SEGMENTS = 2000
"""Segments whose files stay mapped: a process has 65,530 maps by default (vm.max_map_count)."""


class Closable(Protocol):
    """Something that is opened again when it is next used."""

    def close(self) -> None:
        """Let go of what is open; arrays that somebody holds stay good."""
        ...


class Holder:
    """Where decoded values lie; they go with it."""

    def __init__(self) -> None:
        self.values: dict[Hashable, Any] = {}


class Kept:
    """Decoded values and open segments of a view, the least recently used out first; shared by its threads.

    It holds neither: what nobody uses any more is gone at once, and what somebody uses stays good.
    """

    def __init__(self, max_bytes: int = KEPT_BYTES, max_open: int = OPEN_SEGMENTS) -> None:
        self._max_bytes, self._max_open = max_bytes, max_open
        self._mutex = threading.Lock()
        self._values: OrderedDict[tuple[weakref.ref[Holder], Hashable], int] = OrderedDict()
        self._open: OrderedDict[weakref.ref[Closable], None] = OrderedDict()
        self.n_bytes = 0

    @property
    def n_open(self) -> int:
        """Number of segments that are open, or were until nobody used them."""
        return len(self._open)

    def use(self, one: Closable) -> None:
        """Say that something is used now; what was not used for longest is closed where too many are open."""
        reference = weakref.ref(one)
        closed = None
        with self._mutex:
            self._open[reference] = None
            self._open.move_to_end(reference)
            if len(self._open) > self._max_open:
                closed = self._open.popitem(last=False)[0]()
        if closed is not None:
            closed.close()

    def value(self, holder: Holder, key: Hashable, make: Callable[[], T], n_bytes: Callable[[T], int]) -> T:
        """Give a value of the holder, made if it is not there (any more)."""
        place = (weakref.ref(holder), key)
        with self._mutex:
            if key in holder.values:
                self._values.move_to_end(place)
                found: T = holder.values[key]
                return found
        made = make()
        with self._mutex:
            if key not in holder.values:
                holder.values[key] = made
                self._values[place] = n_bytes(made)
                self.n_bytes += self._values[place]
            self._shrink()
        return made

    def keeper(self, holder: Holder) -> Callable[[Hashable, Callable[[], pa.Array]], pa.Array]:
        """Give what keeps arrays for a holder, without keeping the holder itself."""
        reference = weakref.ref(holder)

        def keep(key: Hashable, make: Callable[[], pa.Array]) -> pa.Array:
            alive = reference()
            return make() if alive is None else self.value(alive, key, make, lambda array: int(array.nbytes))

        return keep

    def _shrink(self) -> None:
        while self.n_bytes > self._max_bytes and len(self._values) > 1:
            (reference, key), n_bytes = self._values.popitem(last=False)
            self.n_bytes -= n_bytes
            holder = reference()
            if holder is not None:
                holder.values.pop(key, None)
