"""Names as written to stored columns: exact ones first, then folded ones, then aliases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property

from treering.indexer.signals import SIGNALS
from treering.storage.errors import QueryError
from treering.storage.part import FieldStats, Part
from treering.storage.schema import FIELDS, PATH_TYPES, SYSTEM, split_physical

from .aliases import ALIASES, FEEDS, fold_name
from .ast import Name
from .bound import Column
from .levels import fold, is_ordered_level

__all__ = ["Catalog", "fold_name"]

_TYPE_OF_CODE = {"i": "number", "f": "number", "z": "number", "b": "bool", "s": "text", "o": "none"}
_TYPE_OF_FIELD = {
    "int": "number",
    "float": "number",
    "bool": "bool",
    "text": "text",
    "level": "level",
    "ts": "ts",
    "texts": "list",
    "floats": "list",
}
_SYSTEM_NAMES = frozenset(field.name for field in SYSTEM)
_SAME_UNIT = ("", "tokens")
"""Units in which fields of several names can stand for one another."""

_EPOCH = 1e9
"""Numbers from here on can be times in seconds since 1970 (September 2001 and later)."""

MAX_NEAR = 3
"""How many near names an error offers."""


class Catalog:
    """What is stored: physical columns with their statistics, number of events, first and last event time."""

    def __init__(
        self,
        fields: Mapping[str, FieldStats],
        n_rows: int,
        t_min: int | None = None,
        t_max: int | None = None,
    ) -> None:
        self.fields = fields
        self.n_rows = n_rows
        self.t_min = t_min
        self.t_max = t_max

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Catalog:
        """Give the catalog of a snapshot's parts, without reading them."""
        held = [part for part in parts if part.n_rows]
        return cls(
            _PartFields([part.fields for part in held]),
            sum(part.n_rows for part in held),
            min((part.t_min for part in held), default=None),
            max((part.t_max for part in held), default=None),
        )

    def resolve(self, name: Name) -> Column:
        """Give the columns that a name means, best first. Raises QueryError with the nearest names.

        An exact stored path wins, with the canonical field that it feeds behind it (a path with a dot is that path
        alone: `service.name` is not what other sources call a service); then a path that differs
        in case, `-` or `_` alone; then canonical fields, signals and aliases, known even when nothing is
        stored of them.
        """
        if name.quoted:
            return self._quoted(name)
        if is_ordered_level(name.text):
            return self._level(name)
        if fold_name(name.text) == "ts" and not self._is_plain_number(name.text):
            return Column("ts", ("ts",), "ts")
        path = name.text if self._columns_of(name.text) else self._folded(name)
        if path is None:
            return self._known(name)
        canonical = FEEDS.get(path.removeprefix("attributes."))
        # The body of an event that logged none is joined from its other texts: no value of a field called message.
        is_plain = "." not in path and canonical != "body"
        behind = (canonical,) if canonical in self.fields and is_plain else ()
        return _column(path, tuple(dict.fromkeys((*self._columns_of(path), *behind))))

    def below(self, column: Column) -> tuple[str, ...]:
        """Physical columns of the paths below this one: `service.name` is below `service`."""
        prefix = column.name + "."
        return tuple(c for path, columns in self._paths.items() if path.startswith(prefix) for c in columns)

    def _quoted(self, name: Name) -> Column:
        """The field exactly so called: the original one, else what the index itself calls so."""
        if columns := self._originals(name.text) or self._columns_of(name.text):
            return _column(name.text, columns)
        if name.text in FIELDS or name.text in SIGNALS or self.below(Column(name.text, (), "none")):
            return Column(name.text, (), "none")
        raise self._unknown(name)

    def _level(self, name: Name) -> Column:
        path = self._folded(name) or name.text
        words = (*self._originals(path), *self._originals("level"), *self._originals("severity"), "severity")
        stored = tuple(dict.fromkeys(c for c in ("level", *words) if c in self.fields))
        return Column(
            "level" if fold_name(name.text) == "level" else path, stored, "level" if stored else "none"
        )

    def _is_plain_number(self, name: str) -> bool:
        """Whether a stored field called like a time holds numbers that are none: `time` as a duration."""
        if fold(name) == "ts":
            return False
        stats = [self.fields[column] for column in self._originals(name)]
        return bool(stats) and all(s.maximum is not None and s.maximum < _EPOCH for s in stats)

    def _known(self, name: Name) -> Column:
        target = fold_name(name.text)
        written = name.text.replace("-", "_")
        if columns := self._columns_of(target) or self._siblings(target):
            return _column(written, columns)
        if (
            target in FIELDS
            or target in SIGNALS
            or self.below(Column(name.text, (), "none"))
            or not self.n_rows
        ):
            return Column(written, (), "none")
        raise self._unknown(name)

    def _columns_of(self, path: str) -> tuple[str, ...]:
        """Stored columns of a path: original ones, then the system or canonical field or signal so called."""
        own = (path,) if path in self.fields or path in _SYSTEM_NAMES else ()
        return (*self._originals(path), *own)

    def _originals(self, path: str) -> tuple[str, ...]:
        names = (f"{path}#{code}" for code in PATH_TYPES)
        return tuple(n for n in names if n in self.fields)

    def _siblings(self, target: str) -> tuple[str, ...]:
        """Columns of stored paths that are other names of the same thing, in the same unit."""
        if target in FIELDS and FIELDS[target].unit not in _SAME_UNIT:
            return ()
        paths = (
            path for folded, held in self._by_fold.items() if ALIASES.get(folded) == target for path in held
        )
        return tuple(column for path in paths for column in self._paths[path])

    def _folded(self, name: Name) -> str | None:
        """The stored path that differs in case, `-` or `_` alone."""
        paths = self._by_fold.get(fold(name.text), [])
        if len(paths) <= 1:
            return paths[0] if paths else None
        same = [path for path in paths if path.replace("-", "_") == name.text.replace("-", "_")]
        if name.text in paths:
            return name.text
        if len(same) == 1:
            return same[0]
        spelt = " or ".join(f"`{path}`" for path in sorted(paths))
        raise QueryError(f"{name.text} may mean {spelt}: write the one you mean", position=name.position)

    def _unknown(self, name: Name) -> QueryError:
        candidates = {fold(n): n for n in (*ALIASES, *FIELDS, *SIGNALS, *self._paths)}
        folded = fold(name.text)
        inner = [path for path in self._paths if path.endswith("." + name.text)]
        near = [candidates[n] for n in get_close_matches(folded, candidates, MAX_NEAR, 0.6)]
        offers = list(dict.fromkeys([*inner, *near]))[:MAX_NEAR]
        advice = f"did you mean {_either(offers)}?" if offers else "`treering fields` lists what is stored"
        return QueryError(f"no field {name.text}: {advice}", position=name.position)

    @cached_property
    def _paths(self) -> dict[str, list[str]]:
        paths: dict[str, list[str]] = defaultdict(list)
        for physical in self.fields:
            paths[split_physical(physical)[0]].append(physical)
        return dict(paths)

    @cached_property
    def _by_fold(self) -> dict[str, list[str]]:
        paths: dict[str, list[str]] = defaultdict(list)
        for path in self._paths:
            paths[fold(path)].append(path)
        return dict(paths)


class _PartFields(Mapping[str, FieldStats]):
    """The columns of several parts as one mapping; statistics are put together when they are asked for."""

    def __init__(self, parts: Sequence[Mapping[str, FieldStats]]) -> None:
        self._parts = parts

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(name for part in self._parts for name in part)

    def __getitem__(self, name: str) -> FieldStats:
        found = [part[name] for part in self._parts if name in part]
        if not found:
            raise KeyError(name)
        return FieldStats(
            sum(s.n for s in found),
            min((s.minimum for s in found if s.minimum is not None), default=None),
            max((s.maximum for s in found if s.maximum is not None), default=None),
        )

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def type_of(physical: str) -> str:
    """Type of a physical column as queries see it."""
    path, code = split_physical(physical)
    if code.startswith("["):
        return "list"
    if code in _TYPE_OF_CODE:
        return _TYPE_OF_CODE[code]
    kind = FIELDS[path].type if path in FIELDS else SIGNALS[path].type if path in SIGNALS else "float"
    return _TYPE_OF_FIELD[kind]


def _column(name: str, physical: tuple[str, ...]) -> Column:
    types = {type_of(p) for p in physical} - {"none"}
    return Column(name, physical, types.pop() if len(types) == 1 else "mixed" if types else "none")


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
