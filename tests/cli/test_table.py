from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len

from treering.cli.table import Layout, draw_table


def drawn(
    rows: list[dict[str, Any]], *, width: int | None = None, color: bool = False, first: tuple[str, ...] = ()
) -> tuple[list[str], Layout]:
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    layout = draw_table(rows, columns, stream, color=color, width=width, first=first)
    return stream.getvalue().rstrip("\n").split("\n"), layout


def test_wide_characters_stay_aligned() -> None:
    lines, _ = drawn([{"a": "退款申请", "b": "x"}, {"a": "ab", "b": "x"}])
    ends = {cell_len(line[: line.index("x")]) for line in lines if "x" in line}
    assert len(ends) == 1


def test_foreign_escapes_do_not_reach_the_terminal() -> None:
    lines, _ = drawn([{"body": "\x1b[2J[bold]hidden[/bold]\n", "n\x1b": 1}], color=True)
    text = "\n".join(lines)
    assert "\\x1b[2J[bold]hidden[/bold]\\n" in text
    assert "\x1b[2J" not in text
    assert "n\x1b" not in text


def test_no_colour_means_no_escape_at_all() -> None:
    lines, _ = drawn([{"ts": "2026", "level": "error"}])
    assert "\x1b" not in "".join(lines)


def test_named_columns_come_first_and_the_rest_is_told() -> None:
    row = {"ts": "2026-03-17T00:00:00Z", **{f"field_{i}": "some text here" for i in range(12)}, "score": 0.5}
    lines, layout = drawn([row], width=80, first=("score",))
    assert {"ts", "score"} <= set(layout.shown)
    assert sorted([*layout.shown, *layout.hidden]) == sorted(row)
    assert layout.hidden
    assert max(cell_len(line) for line in lines) <= 80


def test_nothing_is_hidden_or_cut_without_a_width() -> None:
    lines, layout = drawn([{f"field_{i}": "x" * 70 for i in range(12)}])
    assert layout.hidden == []
    assert "".join(lines).count("x" * 70) == 12


def test_columns_without_any_value_are_left_out() -> None:
    lines, layout = drawn([{"a": 1, "b": None}])
    assert list(layout.shown) == ["a"]
    assert "b" not in lines[0]


def test_narrow_columns_stay_whole_beside_a_long_text() -> None:
    lines, layout = drawn(
        [{"ts": "2026-03-17", "id": "chatcmpl-016548438825f", "body": "word " * 60}], width=80
    )
    assert layout.hidden == []
    assert "chatcmpl-016548438825f" in lines[-1]
    assert lines[-1].endswith("…")
    assert cell_len(lines[-1]) == 80


def test_times_lose_only_the_zeros_that_all_of_them_share() -> None:
    lines, _ = drawn([{"t": "2026-03-17T10:00:00.120000000Z"}, {"t": "2026-03-17T10:00:00.003000000Z"}])
    assert [line.strip() for line in lines[2:]] == ["2026-03-17T10:00:00.120Z", "2026-03-17T10:00:00.003Z"]
    lines, _ = drawn([{"t": "2026-03-17T10:00:00.000000000+08:00"}])
    assert lines[2].strip() == "2026-03-17T10:00:00+08:00"
    lines, _ = drawn([{"t": "2026-03-17T10:00:00.000000000Z"}, {"t": "no time"}])
    assert lines[2].strip() == "2026-03-17T10:00:00.000000000Z"


@pytest.mark.parametrize("width", [1, 5, 20, 40, 79, 120, 300])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    rows = [{"ts": "2026-03-17", **{f"f{i}": "x" * i for i in range(0, 60, 7)}, "名": "退款申请"}]
    lines, layout = drawn(rows, width=width)
    assert max(cell_len(line) for line in lines) <= max(width, 1)
    assert layout.shown


def test_the_message_wins_over_what_nobody_named_and_a_repeated_time_loses() -> None:
    row = {"ts": "2026-03-17", "timestamp": "2026-03-17", "pid": "x" * 20, "message": "y" * 30}
    _, layout = drawn([row], width=50)
    assert list(layout.shown) == ["ts", "message"]
    _, layout = drawn([row], width=50, first=("timestamp",))
    assert list(layout.shown) == ["ts", "timestamp", "message"]
