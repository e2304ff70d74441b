"""The Python form builds the abstract query that the text spells."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest

from treering.query.builder import Builder, Expression, col, near, param, phrase, where
from treering.query.parse import parse
from treering.storage.errors import QueryError


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (
            where(col("hallucination") > 0.3)
            .near("connection reset")
            .last("1h")
            .top(10, by="attention_collapse"),
            'last 1h hallucination > 0.3 ~ "connection reset" top 10 by attention_collapse',
        ),
        (
            where((col("a") == 1) & (col("b") != "x") | ~col("c").exists()),
            '(a = 1 and b != "x") or c missing',
        ),
        (where((col("a") >= 1) & (col("a") < 2) & (col("a") <= 3)), "a >= 1 a < 2 a <= 3"),
        (where(col("a").isin(["x", "y"]) & ~col("b").isin([1])), 'a in ("x", "y") b not in (1)'),
        (where(col("tags").has("prod")).where(col("m").matches("a/b")), r'tags has "prod" m =~ /a\/b/'),
        (where(col("body").near("reset") > 0.6), 'body ~ "reset" > 0.6'),
        (where((near("x") >= param("t")) | phrase("y")), '~ "x" >= $t or "y"'),
        (where(col("a").missing() & (col("b") == None)), "a missing b missing"),  # noqa: E711
        (where(col("avg model score") == np.int64(3)), "`avg model score` = 3"),
        (where(col("ts") >= datetime(2026, 5, 1, tzinfo=UTC)), 'ts >= "2026-05-01T00:00:00+00:00"'),
        (where(~((col("a") == 1) & (col("b") == 2))), "not (a = 1 and b = 2)"),
        (where().near("x", field="prompt", min=0.5).top(5), 'prompt ~ "x" >= 0.5 prompt ~ "x" top 5'),
        (where().like("request_id", "chatcmpl-77").top(5), 'like request_id:"chatcmpl-77" top 5'),
        (where().since("2026-05-01").until("2026-05-02"), "since 2026-05-01 until 2026-05-02"),
        (where().between(1777593600, "2026-05-02"), "between 1777593600 and 2026-05-02"),
        (where().on(date(2026, 5, 1)), "on 2026-05-01"),
        (where().on("today").tz("Asia/Shanghai").exact(), 'today tz "Asia/Shanghai" exact'),
        (where().bottom(3, by="a"), "bottom 3 by a"),
        (where().sort("a desc", "b").limit(0).offset(2), "sort by a desc, b limit 0 offset 2"),
        (where().sort("a", "b", descending=True).limit(None), "sort by a desc, b desc limit all"),
        (where().count(by=["model"], every="5m"), "count by model every 5m"),
        (
            where().stats("count", "p95(a) as slow", by="m").sort("slow desc"),
            "count, p95(a) as slow by m | sort by slow desc",
        ),
        (where().fields("a", c="b"), "fields a, b as c"),
        (
            where().top(10, by="a").pipe().where(col("b") > 1).pipe().count(),
            "top 10 by a | where b > 1 | count",
        ),
    ],
)
def test_builder_and_text_are_one_query(built: Builder, text: str) -> None:
    assert built.query == parse(text)
    assert parse(str(built)) == built.query


def test_a_builder_is_a_value_that_later_steps_do_not_change() -> None:
    base = where(col("a") == 1)
    base.limit(5)
    assert base.query == parse("a = 1")


def test_python_words_and_or_not_are_refused_on_conditions() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(col("a") == 1 and col("b") == 2)


NAN = float("nan")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: where(col("a") > NAN),
        lambda: where(col("a").isin([])),
        lambda: where(col("a") == [1]),
        lambda: where(col("") == 1),
        lambda: where(near("x") > "high"),  # type: ignore[operator]
        lambda: where(True),  # type: ignore[arg-type]
        lambda: where().last("5"),
        lambda: where().last("1h").on("today"),
        lambda: where().limit(-1),
        lambda: where().top(2.5, by="a"),  # type: ignore[arg-type]
        lambda: where().top(5).query,
        lambda: where().near("x").count().query,
        lambda: where().stats("median(a)"),
        lambda: where().tz("Nowhere/Land"),
        lambda: where(col("a").matches("(?=x)")),
    ],
)
def test_what_makes_no_sense_is_a_query_error(wrong: object) -> None:
    with pytest.raises(QueryError):
        wrong()  # type: ignore[operator]


def test_a_condition_is_a_value() -> None:
    assert isinstance((col("a") == 1) & (col("b") == 2), Expression)
    assert ((col("a") == 1) & (col("b") == 2)) == Expression(parse("a = 1 and b = 2").where)  # type: ignore[arg-type]
