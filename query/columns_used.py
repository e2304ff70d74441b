"""Which stored columns a bound query reads, and whether it compares meanings."""

from __future__ import annotations

from collections.abc import Iterator

from .bound import (
    BAnd,
    BCompare,
    BCond,
    BExists,
    BHas,
    BIn,
    BMatches,
    BNot,
    BOr,
    BoundQuery,
    BPhrase,
    BSimilar,
)


def stages(query: BoundQuery) -> Iterator[BoundQuery]:
    """The query and the stages after it."""
    stage: BoundQuery | None = query
    while stage is not None:
        yield stage
        stage = stage.then


def conditions(cond: BCond | None) -> Iterator[BCond]:
    """The atoms of a condition."""
    match cond:
        case None:
            return
        case BNot():
            yield from conditions(cond.item)
        case BAnd() | BOr():
            for item in cond.items:
                yield from conditions(item)
        case _:
            yield cond


def uses_meaning(query: BoundQuery) -> bool:
    """Whether any stage compares vectors."""
    return any(
        stage.near is not None or any(isinstance(c, BSimilar) for c in conditions(stage.where))
        for stage in stages(query)
    )


def physical_columns(query: BoundQuery) -> set[str]:
    """Every stored column that the query names."""
    return {name for stage in stages(query) for name in _of_stage(stage)}


def _of_stage(stage: BoundQuery) -> Iterator[str]:
    for cond in conditions(stage.where):
        match cond:
            case BCompare() | BIn() | BHas() | BMatches():
                yield from cond.column.physical
            case BExists() | BPhrase():
                yield from cond.columns
    columns = [sort.column for sort in stage.order] + [stat.column for stat in stage.stats]
    columns += [output.column for output in stage.fields]
    for column in (*columns, *stage.by, *stage.shown):
        if column is not None:
            yield from column.physical
