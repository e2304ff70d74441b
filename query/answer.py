"""An answer on its way out: named columns and rows, whatever they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.query.result import Result

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows to be written once.

    rows gives a fresh iterator; a row may lack columns. columns gives all names that a row can have, in
    order, and may have to read every row for that; to_arrow gives all rows as one table. n_matched: how many
    rows there would be without the query's own limit, None where that is not known. named: fields that the
    question names.
    """

    n_rows: int
    rows: Callable[[], Iterator[Row]]
    columns: Callable[[], Sequence[str]]
    to_arrow: Callable[[], pa.Table]
    n_matched: int | None = None
    named: Sequence[str] = ()


def of_result(result: Result) -> Answer:
    """The answer of a query."""
    return Answer(
        len(result),
        lambda: iter(result),
        lambda: result.columns,
        result.to_arrow,
        n_matched=result.meta.get("n_matched"),
        named=[*(column.name for column in result.shown), "_score"],
    )


def of_table(table: pa.Table) -> Answer:
    """The answer of SQL, handed out batch by batch."""

    def rows() -> Iterator[Row]:
        for batch in table.to_batches(max_chunksize=4096):
            yield from batch.to_pylist()

    return Answer(table.num_rows, rows, lambda: table.column_names, lambda: table)


def of_rows(rows: Iterable[Row], columns: Sequence[str]) -> Answer:
    """Facts about a store, made in memory."""
    kept = list(rows)

    def to_arrow() -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_pylist([dict(row) for row in kept])

    return Answer(len(kept), lambda: iter(kept), lambda: columns, to_arrow)
