"""The abstract query to the bound one: names to columns, times to nanoseconds, texts to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any

from treering.storage.errors import QueryError

from .ast import (
    And,
    Compare,
    Cond,
    Exists,
    Has,
    In,
    Last,
    Like,
    Matches,
    Name,
    Near,
    Not,
    Or,
    Param,
    Phrase,
    Query,
    Similar,
    Sort,
    Stat,
)
from .bound import (
    BCompare,
    BCond,
    BExists,
    BHas,
    BMatches,
    BoundQuery,
    BOutput,
    BPhrase,
    BSimilar,
    BSort,
    BStat,
    Column,
    Probe,
)
from .literals import check_pattern
from .merge import all_of, any_of
from .names import Catalog
from .newest import Newest
from .opposite import opposite
from .pieces import pieces_of, severity_codes
from .probes import Vector, part_field, spellings, unit_vector
from .scopes import OutputScope, Scope, TableScope, check_table, table_columns
from .times import format_duration, format_time, parse_duration, parse_time, parse_zone, time_range
from .values import Params, bind_compare, bind_in

Embed = Callable[[str], Vector]
FindAnchor = Callable[[Column, Any], tuple[Vector, int] | None]

BEST = 20
"""Rows of a query that ranks by meaning and names no number."""

NARROWED = 1000
"""How many best by meaning are kept when another field ranks them."""

PHRASE_FIELDS = ("body", "prompt", "response", "context")
"""Where a bare phrase is looked for."""

_NUMERIC = frozenset(["sum", "avg", "stddev", "p50", "p90", "p95", "p99", "p999"])


def bind(
    query: Query,
    catalog: Catalog,
    *,
    now_ns: int,
    params: Mapping[str, Any],
    embed: Embed,
    find_anchor: FindAnchor,
    counts_from: Newest | None = None,
    text: str | None = None,
) -> BoundQuery:
    """Give the query ready to run.

    now_ns: what `last`, `today` and `yesterday` count from. counts_from: on raw files, the event that `last` counts
    back from instead. embed: text to unit vector; called only for meaning. find_anchor: called only for `like`,
    gives the vector and seq of the first event with that value. text: the query as written, for carets.
    Raises QueryError.
    """
    try:
        binder = _Binder(
            catalog=catalog,
            now_ns=now_ns,
            params=Params(params),
            embed=embed,
            find_anchor=find_anchor,
            counts_from=counts_from,
            zone=parse_zone(query.tz),
            tz=query.tz or "UTC",
            exact=query.exact,
        )
        bound = binder.stages(query, catalog)
    except QueryError as fault:
        if text is None or fault.text is not None:
            raise
        raise QueryError(fault.message, text=text, position=fault.position) from None
    return replace(bound, hints=tuple(dict.fromkeys((*binder.hints, *binder.unused()))))


@dataclass(slots=True)
class _Binder:
    """One binding under way."""

    catalog: Catalog
    now_ns: int
    params: Params
    embed: Embed
    find_anchor: FindAnchor
    counts_from: Newest | None
    zone: tzinfo
    exact: bool
    tz: str
    hints: list[str] = field(default_factory=list)
    named: dict[str, Column] = field(default_factory=dict)

    def stages(
        self,
        query: Query,
        scope: Scope,
        outputs: tuple[BOutput, ...] = (),
        shown: Mapping[str, Column] | None = None,
    ) -> BoundQuery:
        """Bind a stage and those after it.

        outputs: what `fields` of an earlier stage chose, which holds until another one chooses. shown: what
        earlier stages named, which the answer shows too.
        """
        self.named = dict(shown or {})
        stage = self._stage(query, scope)
        if stage.stats or isinstance(scope, TableScope):
            inner: Scope = TableScope(table_columns(stage)) if stage.stats or stage.fields else scope
            outputs, named = (), None
        else:
            outputs, named = stage.fields or outputs, self.named
            inner = OutputScope(stage.fields, scope) if stage.fields else scope
            stage = replace(stage, fields=outputs)
        then = None if query.then is None else self.stages(query.then, inner, outputs, named)
        return replace(stage, exact=self.exact, tz=self.tz, then=then)

    def unused(self) -> list[str]:
        """Hints for parameters that the query does not mention."""
        return [f"${name} was given but the query does not use it" for name in self.params.unused()]

    def _stage(self, query: Query, scope: Scope) -> BoundQuery:
        if isinstance(scope, TableScope):
            check_table(query, scope)
        start_ns, end_ns = self._range(query)
        near, left_out = self._meaning(query)
        order, near_k, limit = self._ranking(query, scope, near)
        where = None if query.where is None else self._cond(query.where, scope)
        stats = tuple(self._stat(stat, scope) for stat in query.stats)
        if stats and near is not None:
            raise QueryError('a ranked `~` has no end to count: give it a threshold, `~ "text" > 0.6`')
        by = tuple(scope.resolve(name) for name in query.by)
        fields = tuple(_output(scope.resolve(o.field), o.name) for o in query.fields)
        _check_outputs(fields, by, stats, is_timed=query.every is not None)
        return BoundQuery(
            where=where,
            start_ns=start_ns,
            end_ns=end_ns,
            near=near,
            near_k=near_k,
            order=order,
            drop_missing=query.rank is not None,
            limit=limit,
            offset=query.offset,
            stats=stats,
            by=by,
            every_ns=None if query.every is None else parse_duration(query.every),
            fields=fields,
            shown=tuple(self.named.values()),
            left_out=left_out,
        )

    # ---- time ----

    def _range(self, query: Query) -> tuple[int | None, int | None]:
        now_ns = self._end_of_last() if isinstance(query.time, Last) else self.now_ns
        start_ns, end_ns = time_range(query.time, self.zone, now_ns=now_ns)
        newest = self.catalog.t_max
        if start_ns is not None and newest is not None and newest < start_ns:
            ago = format_duration(start_ns - newest)
            self.hints.append(
                f"nothing is that new: the newest event is of {format_time(newest)}, {ago} before the range"
            )
        return start_ns, end_ns

    def _end_of_last(self) -> int:
        """What `last` counts back from; on raw files that event is in the range."""
        if self.counts_from is None:
            return self.now_ns
        if (hint := self.counts_from.hint(self.now_ns)) is not None:
            self.hints.append(hint)
        return self.counts_from.ns + 1

    def _time_of(self, written: str) -> int:
        return parse_time(written, self.zone, now_ns=self.now_ns)

    # ---- meaning ----

    def _meaning(self, query: Query) -> tuple[Probe | None, int | None]:
        """The probe that ranks, and the event to leave out."""
        if query.like is not None:
            return self._anchor(query.like)
        return (None if query.near is None else self._probe(query.near)), None

    def _probe(self, near: Near | Similar) -> Probe:
        fields = None if near.field is None else (part_field(near.field),)
        if isinstance(near.text, Param):
            given = self.params.raw(near.text)
            if not isinstance(given, str):
                return Probe(f"${near.text.name}", unit_vector(given, f"${near.text.name}"), fields)
        label = self.params.scalar(near.text)
        if not isinstance(label, str) or not label.strip():
            raise QueryError(f"`~` takes a text or a vector, not {label!r}")
        return Probe(label, unit_vector(self.embed(label), "the embedding"), fields)

    def _anchor(self, like: Like) -> tuple[Probe, int]:
        column = self.catalog.resolve(like.field)
        value = self.params.scalar(like.value)
        label = f"like {like.field.text}:{value}"
        for one in spellings(column, value):
            if (found := self.find_anchor(column, one)) is not None:
                return Probe(label, unit_vector(found[0], label), None), found[1]
        raise QueryError(
            f"no event with a vector has {like.field.text} = {value!r}: nothing to be like",
            position=like.field.position,
        )

    # ---- order ----

    def _ranking(
        self, query: Query, scope: Scope, near: Probe | None
    ) -> tuple[tuple[BSort, ...], int | None, int | None]:
        """Sort keys, how many best by meaning are ranked, and the limit."""
        keys = (query.rank,) if query.rank is not None else query.sort
        order = tuple(self._key(key, scope) for key in keys)
        limit = query.top if query.top is not None else query.limit
        if near is None:
            return order, None, limit
        cut = limit is not None or query.unlimited
        if not order:
            return (BSort(None, True),), None, limit if cut else BEST
        return order, NARROWED if cut else BEST, limit

    def _key(self, key: Sort, scope: Scope) -> BSort:
        column = self._name(key.field, scope)
        if column.type == "list":
            raise QueryError(f"{column.name} holds lists, which have no order", position=key.field.position)
        return BSort(_leading(column), key.descending)

    # ---- conditions ----

    def _name(self, name: Name, scope: Scope) -> Column:
        """The column of a name that the query mentions, which the answer then shows."""
        column = scope.resolve(name)
        if column.type != "ts":
            self.named.setdefault(column.name, column)
        if column.type == "none":
            self.hints.append(f"no stored event has {column.name}")
        return column

    def _cond(self, cond: Cond, scope: Scope) -> BCond:
        match cond:
            case And():
                return all_of(self._each(cond.items, scope))
            case Or():
                return any_of(self._each(cond.items, scope))
            case Not():
                return opposite(self._cond(cond.item, scope))
            case Compare():
                value = self.params.scalar(cond.value)
                return bind_compare(self._name(cond.field, scope), cond.op, value, self._time_of, self.hints)
            case In():
                values = self.params.scalars(cond.values)
                return bind_in(self._name(cond.field, scope), values, self._time_of, self.hints)
            case Exists():
                return self._exists(cond, scope)
            case Phrase():
                return BPhrase(PHRASE_FIELDS, self._text(cond.text, "a phrase"))
            case Has():
                return self._has(cond, scope)
            case Matches():
                pattern = check_pattern(cond.pattern, position=cond.position)
                return BMatches(_texts(self._name(cond.field, scope), "=~", self.hints), pattern)
            case Similar():
                return self._similar(cond)

    def _each(self, items: Iterable[Cond], scope: Scope) -> tuple[BCond, ...]:
        return tuple(self._cond(item, scope) for item in items)

    def _exists(self, cond: Exists, scope: Scope) -> BCond:
        column = scope.resolve(cond.field)
        below = scope.below(column)
        if not below:
            self._name(cond.field, scope)
        return BExists((*column.physical, *below))

    def _has(self, cond: Has, scope: Scope) -> BCond:
        value = self.params.scalar(cond.text)
        column = self._name(cond.field, scope)
        if isinstance(value, str):
            return BHas(_texts(column, "has", self.hints), value)
        return BCompare(column, "=", value)

    def _similar(self, cond: Similar) -> BCond:
        threshold = self.params.scalar(cond.threshold)
        if isinstance(threshold, (str, bool)):
            raise QueryError(f"the threshold of `~` is a number from -1 to 1, not {threshold!r}")
        return BSimilar(self._probe(cond), cond.op, float(threshold))

    def _text(self, value: Any, what: str) -> str:
        text = self.params.scalar(value)
        if not isinstance(text, str) or not text:
            raise QueryError(f"{what} is a text of at least one letter, not {text!r}")
        return text

    # ---- statistics ----

    def _stat(self, stat: Stat, scope: Scope) -> BStat:
        if stat.field is None:
            return BStat(stat.fn, None, stat.name)
        column = scope.resolve(stat.field)
        if column.type == "none":
            self.hints.append(f"no stored event has {column.name}")
        elif stat.fn in _NUMERIC and column.type not in ("number", "mixed", "list"):
            self.hints.append(f"{column.name} holds no numbers, so that {stat.name} is empty")
        is_ranked = stat.fn not in ("count", "distinct")
        return BStat(stat.fn, _leading(column) if is_ranked else column, stat.name)


def _leading(column: Column) -> Column:
    """A severity orders by its rank alone, whatever word stood in the record."""
    return replace(column, physical=severity_codes(column)) if column.type == "level" else column


def _output(column: Column, name: str | None) -> BOutput:
    return BOutput(column, name or column.name)


def _texts(column: Column, what: str, hints: list[str]) -> Column:
    """The words of a severity are searched as they came; a search in what holds no text finds nothing."""
    if column.type == "level":
        words = tuple(p for p in column.physical if p not in severity_codes(column))
        return Column(column.name, words, "text" if words else "none")
    if column.type in ("number", "bool", "ts"):
        hints.append(f"{column.name} holds no text, so that `{what}` matches nothing: compare it with =")
    return column


def _check_outputs(
    fields: tuple[BOutput, ...], by: tuple[Column, ...], stats: tuple[BStat, ...], *, is_timed: bool
) -> None:
    """Refuse two columns of one name. is_timed: the starts of time buckets are called `ts`."""
    names = [o.name for o in fields] + [c.name for c in by] + [s.name for s in stats] + ["ts"] * is_timed
    for name in names:
        if names.count(name) > 1:
            owner = "the time of `every` is ts: " if is_timed and name == "ts" else ""
            raise QueryError(f"two columns would be called {name}: {owner}name one with `as`")
    if taken := {piece for name in names for piece in pieces_of(name)[1:]} & set(names):
        raise QueryError(f"no column can be called {min(taken)!r}: name it with `as`")
