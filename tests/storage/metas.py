"""A segment as a manifest describes it."""

from __future__ import annotations

from treering.storage.meta import SegmentMeta
from treering.storage.part import FieldStats, Slice
from treering.storage.stored_file import StoredFile


def meta(number: int, n_fields: int = 3) -> SegmentMeta:
    """A segment as a real store names it; its numbers depend on `number`."""
    return SegmentMeta(
        id=f"22-{number}-{number:016x}",
        level=22,
        cell=number - 5,
        n_rows=number + 1,
        t_min=-number,
        t_max=number << 42,
        seq_min=number,
        seq_max=2 * number,
        fields={f"field.{i}#f": FieldStats(number, 0.1 * number, 5.0) for i in range(n_fields)},
        slices=(Slice(0, 0, 3), Slice(65535, 3, number + 4)),
        files=tuple(
            StoredFile(f"{name}.arrow", 1000 + number, 0xFFFFFFFF) for name in ("hot", "text", "vec")
        ),
        pending=number % 3,
        signals_pending=number % 2 == 0,
    )
