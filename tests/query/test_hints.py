"""A query that cannot be read is refused with the fix, and the caret stands where the fault is."""

from __future__ import annotations

import pytest

from treering.query.parse import parse
from treering.storage.errors import QueryError


@pytest.mark.parametrize(
    ("text", "told", "at"),
    [
        # mistakes that the manual promises to explain
        ('a ~= "x"', "did you mean =~ (regular expression) or has (substring)?", 2),
        ("model = llama", 'put text in quotes: "llama"', 8),
        ("model in (llama)", 'put text in quotes: "llama"', 10),
        ("model = 3b-x", 'put text in quotes: "3b-x"', 8),
        ("model:x", "use = to compare", 5),
        ("a -1", "a comparison is missing", 2),
        ("a = “x”", "straight quotes", 4),
        ('"model" = "x"', "without quotes", 0),
        ("not = 5", "stands in backticks", 0),
        ('!~ "text"', 'not ~ "text" > 0.6', 0),
        ("limit -1", "cannot be negative: -1", 6),
        ("top 2.5 by a", "whole number, not 2.5", 4),
        ("count by model, p95(x)", "`count, p95(x) by ...`", 16),
        ("limit 5 limit 6", "limit is given twice", 8),
        ("top 5 by a bottom 5 by b", "top or bottom is given twice", 11),
        ("last 1h today", "time is given twice", 8),
        ("since 2026-05-01 since 2026-05-02", "since is given twice", 17),
        ("between 2026-05-01 and 2026-05-02 until 2026-05-02", "time is given twice", 34),
        ("count sum(a)", "list of statistics is given twice", 6),
        ('~ "a" ~ "b"', "a second `~` that ranks", 6),
        ('a > 1 or ~ "x"', "needs a threshold", 9),
        ('not ~ "x"', "needs a threshold", 4),
        ('(~ "x")', "needs a threshold", 1),
        ('~ "x" count', "no end to count", 0),
        ('~ "x" like id:"y"', "both rank", 6),
        ("top 5", "`by FIELD`", 0),
        ("bottom 5", "`by FIELD`", 0),
        ("top 5 by a sort by b", "orders already", 11),
        ("top 5 by a limit 3", "is a limit already", 11),
        ("count, count", "name one with `as`", 0),
        # other languages
        ("a && b", "write and", 2),
        ("a = 1 || b = 2", "write or", 6),
        ("a <> 3", "write !=", 2),
        ("a => 3", "write >=", 2),
        ("!a", "write not", 0),
        ("a ＝ 3", "write =", 2),
        ("x in [1]", "round brackets", 5),
        ("x between 1 and 2", "1 <= x < 2", 0),
        ('model like "x%"', 'model has "text"', 0),
        ("order by a", "sort by f", 0),
        ("a > 1 group by x", "count by f", 6),
        ("select * from x", "sql", 0),
        ('{"filter": 1}', "JSON", 0),
        ("a = null", "missing", 4),
        # clauses
        ("last 5", "a duration such as", 5),
        ("last hour", "a duration such as", 5),
        ("last 0s", "nothing", 5),
        ("every 5m", "follows a statistic", 0),
        ("count last 1h by a", "`by` follows its verb", 14),
        ("top by x", "needs a number", 4),
        ("since tomorrow", "write a time", 6),
        ("since 2026-13-45", "month must be in 1..12", 6),
        ("on 2026-05-01T06:00", "no day", 3),
        ('tz "Asia/Shangai"', "did you mean Asia/Shanghai?", 3),
        ("model = *", "no wildcard", 8),
        ("count(*)", "write count in place", 0),
        ("fields a as ``", "is empty", 12),
        ("| count", "nothing stands before the pipe", 0),
        ("a > 1 |", "nothing stands after the pipe", 7),
        ("()", "brackets are empty", 1),
        ("or a = 1", "missing before `or`", 0),
        ("a = 1 and and b = 2", "missing before `and`", 10),
        ("a = 1 or last 1h", "`last` is none", 9),
        ("last 1h or a = 1", "on both sides", 8),
        ("trace 5b8efff798038103", 'trace_id = "5b8efff798038103"', 0),
        ("like request_id:abc", 'in quotes: "abc"', 16),
        ('like request_id="abc"', "`like request_id:VALUE`", 15),
        ("median(x)", "no function median", 0),
        ("cuont(x)", "did you mean count?", 0),
        # values
        ("x > 5ms", "the number alone", 4),
        ('"abc', "quote is not closed", 0),
        ("`abc", "backtick is not closed", 0),
        (r'a = "C:\path"', r"unknown escape \p", 7),
        (r'a = "\ud800"', "surrogate", 4),
        ("a =~ /(?=x)/", "look-around", 5),
        ("a =~ /x", "not closed", 5),
        ("a =~ x", "between slashes: /x/", 5),
        ("a = 1e400", "beyond the range", 4),
        ("a = " + "9" * 1200, "1000 are allowed", 4),
        ("0.1 < x > 0.3", "the same way", 8),
        # words alone
        ("hallucination", "alone is no condition", 0),
        ("connection reset", 'in quotes: "connection reset"', 0),
    ],
)
def test_a_mistake_is_told_with_its_fix_and_its_place(text: str, told: str, at: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert told in caught.value.message
    assert caught.value.position == at


def test_the_error_shows_line_column_and_caret() -> None:
    with pytest.raises(QueryError) as caught:
        parse('last 1h\nwhere model = llama "x"')
    assert (
        str(caught.value) == '2:15: put text in quotes: "llama"\n  where model = llama "x"\n                ^'
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a >", "unexpected the end, expected a number, a text in quotes or a time such as 2026-05-01T06:00"),
        ("sort x", 'unexpected "x", expected by'),
        ("(a > 1", 'unexpected the end, expected a condition, and, or or ")"'),
        ("a > 1)", 'unexpected ")", expected a condition, and, or, "|" or the end'),
        ("limit many", 'unexpected "many", expected a number or all'),
        ("not", "unexpected the end, expected a condition"),
    ],
)
def test_everything_else_is_told_by_what_would_fit_in_plain_words(text: str, told: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert caught.value.message == told
