"""What the manifest says of a segment: enough to skip it or open it without touching its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import orjson

from .part import FieldStats, Slice
from .stored_file import Json, StoredFile, expect_members


class FieldTable(Mapping[str, FieldStats]):
    """Statistics by column, made when asked for: a store has a hundred columns a segment."""

    __slots__ = ("_packed", "_rows")

    def __init__(self, rows: Json) -> None:
        """Take JSON, name -> [n, minimum, maximum]."""
        self._rows: Json | None = rows
        self._packed: tuple[Sequence[str], str] = ((), "")

    @classmethod
    def of(cls, fields: Mapping[str, FieldStats]) -> FieldTable:
        """Make a table of statistics."""
        if isinstance(fields, FieldTable):
            return fields
        return cls(
            {n: [s.n, _bound_to_json(s.minimum), _bound_to_json(s.maximum)] for n, s in fields.items()}
        )

    @classmethod
    def packed(cls, names: Sequence[str], text: str) -> FieldTable:
        """Take the JSON text of four arrays: places in `names`, n, minima, maxima."""
        table = cls({})
        table._rows, table._packed = None, (names, text)
        return table

    def to_json(self) -> Json:
        """Give the JSON object that `__init__` takes."""
        if self._rows is None:
            names, text = self._packed
            ids, *columns = orjson.loads(text)
            values = zip(*columns, strict=True)
            self._rows = {names[i]: list(row) for i, row in zip(ids, values, strict=True)}
        return self._rows

    def __getitem__(self, name: str) -> FieldStats:
        n, low, high = self.to_json()[name]
        return FieldStats(n, _bound_from_json(low), _bound_from_json(high))

    def __contains__(self, name: object) -> bool:
        return name in self.to_json()

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_json())

    def __len__(self) -> int:
        return len(self.to_json())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FieldTable):
            return self.to_json() == other.to_json()
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]


class FileTable(Sequence[StoredFile]):
    """Files of a segment, made when asked for."""

    __slots__ = ("_files", "_rows")

    def __init__(self, rows: Sequence[Any]) -> None:
        """Take JSON: [name, bytes, crc32c] of each file, or its object."""
        self._rows = rows
        self._files: tuple[StoredFile, ...] | None = None
        if rows and isinstance(rows[0], dict):
            self._files = tuple(StoredFile.from_json(row) for row in rows)

    def _made(self) -> tuple[StoredFile, ...]:
        if self._files is None:
            self._files = tuple(StoredFile(*row) for row in self._rows)
        return self._files

    @overload
    def __getitem__(self, place: int) -> StoredFile: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[StoredFile]: ...

    def __getitem__(self, place: int | slice) -> StoredFile | Sequence[StoredFile]:
        return self._made()[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._made() == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Deletion:
    """What of a segment is gone, though still in its files: events, and vectors made of texts of such events.

    file: below the segment's directory (`docs/format/del.md`). n_rows: events. n_vectors: vectors to forget.
    """

    file: StoredFile
    n_rows: int
    n_vectors: int

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {"file": self.file.to_json(), "n_rows": self.n_rows, "n_vectors": self.n_vectors}

    @classmethod
    def from_json(cls, obj: Json) -> Deletion:
        """Read what `to_json` gave."""
        expect_members(obj, ("file", "n_rows", "n_vectors"), "deletion")
        return cls(StoredFile.from_json(obj["file"]), obj["n_rows"], obj["n_vectors"])


@dataclass(frozen=True, slots=True)
class LateFile:
    """A sidecar of a segment: vectors or signals that came after it was written.

    n_vectors: vectors it holds. fields: statistics of the signal columns it holds, also of those without a
    value; of two late files that hold the same column, the later one counts.
    """

    file: StoredFile
    n_vectors: int
    fields: Mapping[str, FieldStats]

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        fields = FieldTable.of(self.fields).to_json()
        return {"file": self.file.to_json(), "n_vectors": self.n_vectors, "fields": fields}

    @classmethod
    def from_json(cls, obj: Json) -> LateFile:
        """Read what `to_json` gave."""
        expect_members(obj, ("file", "n_vectors", "fields"), "late file")
        return cls(StoredFile.from_json(obj["file"]), obj["n_vectors"], FieldTable(obj["fields"]))


@dataclass(frozen=True, slots=True)
class SegmentMeta:
    """A segment as the manifest names it.

    id: the part's id and the name of the segment's own directory below `seg/`. level, cell: its dyadic
    cell; event times lie in [cell << (20 + level), (cell + 1) << (20 + level)). t_min, t_max, seq_min,
    seq_max: inclusive. fields: statistics of the segment's own columns, without late ones. files: of the
    segment's directory, without late ones. pending: distinct vectors still to come after all of `late`.
    signals_pending: whether signals that need vectors are still to come. generation: how often its rows
    were folded; 0 is young: one slice in (ts, seq) order, no shard. deleted: what of n_rows is gone.
    partitions: the values of each partition column, ascending; None: too many to list, absent: not known.
    """

    id: str
    level: int
    cell: int
    n_rows: int
    t_min: int
    t_max: int
    seq_min: int
    seq_max: int
    fields: Mapping[str, FieldStats]
    slices: tuple[Slice, ...]
    files: Sequence[StoredFile]
    pending: int
    signals_pending: bool
    late: tuple[LateFile, ...] = ()
    generation: int = 0
    deleted: Deletion | None = None
    partitions: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    @property
    def n_live(self) -> int:
        """Events that are not deleted."""
        return self.n_rows - (self.deleted.n_rows if self.deleted else 0)

    @property
    def is_finished(self) -> bool:
        """Whether neither vectors nor signals are still to come."""
        return self.pending == 0 and not self.signals_pending

    @property
    def n_bytes(self) -> int:
        """Size of all its files, late ones and deletions included."""
        return sum(file.n_bytes for file in self.all_files())

    def all_files(self) -> list[StoredFile]:
        """Give every file that it counts on."""
        late = [late.file for late in self.late]
        return [*self.files, *late, *([self.deleted.file] if self.deleted else [])]

    def has_field(self, name: str) -> bool:
        """Whether a column, late ones included, holds a value."""
        latest = next((late.fields[name] for late in reversed(self.late) if name in late.fields), None)
        return name in self.fields if latest is None else latest.n > 0

    def all_fields(self) -> Mapping[str, FieldStats]:
        """Give the statistics of all columns that hold a value, late ones included."""
        if not self.late:
            return self.fields
        merged = dict(self.fields)
        for late in self.late:
            merged.update(late.fields)
        return {name: stats for name, stats in merged.items() if stats.n}

    def with_late(self, late: LateFile, *, pending: int, signals_pending: bool) -> SegmentMeta:
        """Give this meta with one more sidecar and what is still to come after it."""
        return replace(self, late=(*self.late, late), pending=pending, signals_pending=signals_pending)

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "id": self.id,
            "level": self.level,
            "cell": self.cell,
            "n_rows": self.n_rows,
            "t": [self.t_min, self.t_max],
            "seq": [self.seq_min, self.seq_max],
            "fields": FieldTable.of(self.fields).to_json(),
            "slices": [[s.shard, s.lo, s.hi] for s in self.slices],
            "files": [f.to_json() for f in self.files],
            "pending": self.pending,
            "signals_pending": self.signals_pending,
            "late": [f.to_json() for f in self.late],
            "generation": self.generation,
            "deleted": self.deleted.to_json() if self.deleted else None,
            "partitions": {n: None if v is None else list(v) for n, v in self.partitions.items()},
        }

    @classmethod
    def from_json(cls, obj: Json) -> SegmentMeta:
        """Read what `to_json` gave. Raises StoreError for what a later version of treering may have added."""
        expect_members(obj, _MEMBERS, "segment")
        return cls(
            id=obj["id"],
            level=obj["level"],
            cell=obj["cell"],
            n_rows=obj["n_rows"],
            t_min=obj["t"][0],
            t_max=obj["t"][1],
            seq_min=obj["seq"][0],
            seq_max=obj["seq"][1],
            fields=obj["fields"] if isinstance(obj["fields"], FieldTable) else FieldTable(obj["fields"]),
            slices=tuple([Slice(*s) for s in obj["slices"]]),
            files=FileTable(obj["files"]),
            pending=obj["pending"],
            signals_pending=obj["signals_pending"],
            late=tuple([LateFile.from_json(f) for f in obj["late"]]),
            generation=obj["generation"],
            deleted=Deletion.from_json(obj["deleted"]) if obj["deleted"] else None,
            partitions={n: None if v is None else tuple(v) for n, v in obj["partitions"].items()},
        )


_MEMBERS = frozenset(
    (
        *("id", "level", "cell", "n_rows", "t", "seq", "fields", "slices", "files", "pending"),
        *("signals_pending", "late", "generation", "deleted", "partitions"),
    )
)


def _bound_to_json(bound: float | int | None) -> float | int | str | None:
    # JSON has no infinity; a float keeps its point, so that 5.0 comes back as a float.
    return repr(bound) if isinstance(bound, float) and bound in (float("inf"), float("-inf")) else bound


def _bound_from_json(bound: float | int | str | None) -> float | int | None:
    return float(bound) if isinstance(bound, str) else bound
