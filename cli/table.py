"""A table on a terminal: as many columns as fit, cells cut with an ellipsis, what is left out is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from treering.query.answer import Row
from treering.query.cells import cell

if TYPE_CHECKING:
    from rich.table import Table

GAP = 3
"""Screen columns between two columns of the table."""

NARROW = 12
"""Screen columns under which a text is not worth its place."""

WIDE = 36
"""Screen columns that one column may claim before the next is placed; what is left goes to long texts."""

MOMENT = re.compile(r"(.{10}T.{8})\.(\d{9})(Z|[+-]\d\d:\d\d)")
"""A time as answers write it."""

SPOKEN = (
    "level",
    "severity",
    "message",
    "body",
    "msg",
    "text",
    "event",
    "prompt",
    "response",
    "answer",
    "model",
)
"""Fields that tell most about an event when the query names none, by name."""

LEVEL_STYLES = {
    "warn": "yellow",
    "warning": "yellow",
    "error": "red",
    "fatal": "bold red",
    "critical": "bold red",
}
"""Colours of severities; other values stay plain."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns that are drawn with their width on screen, and those that did not fit."""

    shown: dict[str, int]
    hidden: list[str]


def draw_table(
    rows: Sequence[Row],
    columns: Sequence[str],
    stream: TextIO,
    *,
    color: bool,
    width: int | None,
    first: Iterable[str],
) -> Layout:
    """Draw `rows` on `stream` and tell which columns did not fit into `width` (None: as wide as it needs).

    first: columns that matter most, the ones the query names; columns without any value are left out.
    """
    from rich.console import Console

    texts = {c: _column_texts(rows, c) for c in columns}
    filled = [c for c in columns if any(texts[c])] or list(columns)
    widths = {c: _screen_width([cell(c), *texts[c]]) for c in filled}
    layout = Layout(widths, []) if width is None else _lay_out(widths, width, _ranked(texts, filled, first))
    console = Console(
        file=stream,
        width=sum(layout.shown.values()) + GAP * len(layout.shown),
        no_color=not color,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(_table(layout.shown, texts, rows))
    return layout


def _column_texts(rows: Sequence[Row], column: str) -> list[str]:
    """Give the cells of a column; zeros at the end that all its times share say nothing and are left out."""
    texts = [cell(row.get(column)) for row in rows]
    moments = [MOMENT.fullmatch(text) for text in texts if text]
    if not moments or not all(moments):
        return texts
    n_digits = max(len(m[2].rstrip("0")) for m in moments if m)
    return [MOMENT.sub(lambda m: _shortened(m, n_digits), text) for text in texts]


def _shortened(moment: re.Match[str], n_digits: int) -> str:
    point = "." if n_digits else ""
    return f"{moment[1]}{point}{moment[2][:n_digits]}{moment[3]}"


def _screen_width(texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(text) for text in texts)


def _ranked(texts: Mapping[str, list[str]], columns: Sequence[str], first: Iterable[str]) -> list[str]:
    """Order columns by weight: time, what the query names, what tells most, the rest, repeated times."""
    named = frozenset(first)

    def weight(column: str) -> tuple[int, int]:
        if column == "ts":
            return 0, 0
        if column in named:
            return 1, columns.index(column)
        if texts[column] == texts.get("ts"):
            return 4, columns.index(column)
        return (2, SPOKEN.index(column)) if column in SPOKEN else (3, columns.index(column))

    return sorted(columns, key=weight)


def _lay_out(widths: Mapping[str, int], width: int, ranked: Sequence[str]) -> Layout:
    """Choose columns by their rank until the screen is full, then cut the widest of them to fit."""
    order = list(widths)
    chosen: set[str] = set()
    left = width + GAP
    for column in ranked:
        if chosen and left < min(widths[column], NARROW) + GAP:
            continue
        chosen.add(column)
        left -= min(widths[column], WIDE) + GAP
    shown = {c: widths[c] for c in order if c in chosen}
    cap = _widest(list(shown.values()), width - GAP * (len(shown) - 1))
    return Layout({c: min(w, cap) for c, w in shown.items()}, [c for c in order if c not in chosen])


def _widest(widths: Sequence[int], room: int) -> int:
    """Give the width to which all wider columns are cut so that together they take `room`; at least 1."""
    left = room
    for done, width in enumerate(sorted(widths)):
        share = left // (len(widths) - done)
        if width > share:
            return max(share, 1)
        left -= width
    return max(widths)


def _table(columns: Mapping[str, int], texts: Mapping[str, list[str]], rows: Sequence[Row]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    for column, width in columns.items():
        is_number = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(
            Text(cell(column)),
            justify="right" if is_number else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for i in range(len(rows)):
        table.add_row(*(Text(texts[c][i], style=_style(c, texts[c][i])) for c in columns))
    return table


def _style(column: str, text: str) -> str:
    if column == "ts":
        return "cyan"
    return LEVEL_STYLES.get(text.lower(), "") if column in ("level", "severity") else ""
