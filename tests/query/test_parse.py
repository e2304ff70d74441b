"""What query texts mean: the grammar and the shape of its answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from treering.query.ast import (
    And,
    Between,
    Compare,
    Exists,
    Has,
    In,
    Last,
    Like,
    Matches,
    Name,
    Near,
    Not,
    On,
    Or,
    Output,
    Param,
    Phrase,
    Query,
    Similar,
    Sort,
    Stat,
)
from treering.query.json_form import from_json
from treering.query.parse import MAX_LENGTH, grammar, parse
from treering.query.text_form import to_text
from treering.storage.errors import QueryError

A, B, C = Name("a"), Name("b"), Name("c")


def equal(name: str, value: object) -> Compare:
    return Compare(Name(name), "=", value)  # type: ignore[arg-type]


def test_grammar_has_no_conflict_and_no_two_terminals_that_overlap() -> None:
    pytest.importorskip("interegular")
    assert grammar.__wrapped__(strict=True) is not None


def test_parsing_alone_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pyarrow", "torch", "numba")
    code = f"import sys, treering.query.parse; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("hallucination > 0.3", Query(where=Compare(Name("hallucination"), ">", 0.3))),
        ("top-k attention-collapse", Query(top=10, rank=Sort(Name("attention-collapse"), True))),
        (
            'last 1h where hallucination > 0.3 and model = "llama-3-8b" ~ "connection reset while decoding" '
            "top 10 by attention_collapse",
            Query(
                time=Last("1h"),
                where=And((Compare(Name("hallucination"), ">", 0.3), equal("model", "llama-3-8b"))),
                near=Near("connection reset while decoding"),
                top=10,
                rank=Sort(Name("attention_collapse"), True),
            ),
        ),
        (
            'last 15m "out of blocks" level >= error',
            Query(
                time=Last("15m"), where=And((Phrase("out of blocks"), Compare(Name("level"), ">=", "error")))
            ),
        ),
        (
            'since 2026-05-01 until 2026-05-02T06:00 model in ("a","b") and tags has "prod" '
            "count by model every 5m",
            Query(
                time=Between("2026-05-01", "2026-05-02T06:00"),
                where=And((In(Name("model"), ("a", "b")), Has(Name("tags"), "prod"))),
                stats=(Stat("count", None, "count"),),
                by=(Name("model"),),
                every="5m",
            ),
        ),
        (
            "where time_to_first_token_s > 0.8 p95(e2e_latency_s), count by model",
            Query(
                where=Compare(Name("time_to_first_token_s"), ">", 0.8),
                stats=(
                    Stat("p95", Name("e2e_latency_s"), "p95(e2e_latency_s)"),
                    Stat("count", None, "count"),
                ),
                by=(Name("model"),),
            ),
        ),
        (
            '~ "user got an answer in the wrong language" > 0.55 and kv_cache_hit_ratio missing limit 20',
            Query(
                where=And(
                    (
                        Similar("user got an answer in the wrong language", ">", 0.55),
                        Not(Exists(Name("kv_cache_hit_ratio"))),
                    )
                ),
                limit=20,
            ),
        ),
        (
            'like request_id:"chatcmpl-77" last 7d top 5',
            Query(time=Last("7d"), like=Like(Name("request_id"), "chatcmpl-77"), top=5),
        ),
        ("", Query()),
        ("*", Query()),
        ("  # only a comment", Query()),
        ("* | count", Query(stats=(Stat("count", None, "count"),))),
    ],
)
def test_sentences_of_the_language_mean_what_they_say(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a == 3", equal("a", 3)),
        ("a != 3", Not(equal("a", 3))),
        ("not not a = 3", equal("a", 3)),
        ("a = 1 or b = 2 and c = 3", Or((equal("a", 1), And((equal("b", 2), equal("c", 3)))))),
        ('a = 1 or b = 2 "x"', And((Or((equal("a", 1), equal("b", 2))), Phrase("x")))),
        ("a = 1 b = 2 or c = 3", And((equal("a", 1), Or((equal("b", 2), equal("c", 3)))))),
        ("(a = 1 or b = 2) and c = 3", And((Or((equal("a", 1), equal("b", 2))), equal("c", 3)))),
        ("(a = 1 b = 2)", And((equal("a", 1), equal("b", 2)))),
        ("a = 1 and (b = 2 and c = 3)", And((equal("a", 1), equal("b", 2), equal("c", 3)))),
        ("not a = 1 and b = 2", And((Not(equal("a", 1)), equal("b", 2)))),
        ("not (a = 1 or b = 2)", Not(Or((equal("a", 1), equal("b", 2))))),
        ("0.1 < a <= 0.3", And((Compare(A, ">", 0.1), Compare(A, "<=", 0.3)))),
        ("0.3 < a", Compare(A, ">", 0.3)),
        ("$lo <= a < $hi", And((Compare(A, ">=", Param("lo")), Compare(A, "<", Param("hi"))))),
        ("a IN (1, 'x', true, $p)", In(A, (1, "x", True, Param("p")))),
        ("a in $list", In(A, (Param("list"),))),
        ("a not  in (1)", Not(In(A, (1,)))),
        ("a Exists", Exists(A)),
        ("a missing", Not(Exists(A))),
        ('a contains "x"', Has(A, "x")),
        ("a has 5", Has(A, 5)),
        (r"a =~ /x\/y\\/", Matches(A, r"x/y\\")),
        ('a =~ "x.y"', Matches(A, "x.y")),
        ("a !~ /x/", Not(Matches(A, "x"))),
        ("$word", Phrase(Param("word"))),
        ("'it''s' ", None),
        ('~ "x" >= $t', Similar("x", ">=", Param("t"))),
        ('a ~ "x" < 0.2', Similar("x", "<", 0.2, A)),
        ('a = 1 or ~ "x" > 0.5', Or((equal("a", 1), Similar("x", ">", 0.5)))),
        ("ts >= 2026-05-01T06:00", Compare(Name("ts"), ">=", "2026-05-01T06:00")),
        ("last > 5", Compare(Name("last", True), ">", 5)),
        ("count = 3", equal("a", 3) and Compare(Name("count", True), "=", 3)),
        ("today exists", Exists(Name("today", True))),
        ('order = "v2"', equal("order", "v2")),
        ("top_k = 50", Compare(Name("top_k", True), "=", 50)),
        ("by = 1", Compare(Name("by", True), "=", 1)),
        ("`a ``b`` #` = 1", Compare(Name("a `b` #", True), "=", 1)),
        ("日志级别 = error", Compare(Name("日志级别"), "=", "error")),
        ("log.level in (error, FATAL)", In(Name("log.level"), ("error", "fatal"))),
        ("幻觉率 > 0.3", Compare(Name("幻觉率"), ">", 0.3)),
        ("हिंदी = 1", Compare(Name("हिंदी"), "=", 1)),
        ("a.b-c_d = 1", Compare(Name("a.b-c_d"), "=", 1)),
    ],
)
def test_conditions(text: str, where: object) -> None:
    if where is None:
        where = And((Phrase("it"), Phrase("s")))
    assert parse(text) == Query(where=where)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("18446744073709551615", 18446744073709551615),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("-2.50", -2.5),
        ("true", True),
        ("FALSE", False),
        (r'"O\"Brien"', 'O"Brien'),
        ("'O\\'Brien'", "O'Brien"),
        (r'"a\n\t\\ \u00e9 \ud83d\ude00"', "a\n\t\\ é 😀"),
        ('"# no comment | top 5"', "# no comment | top 5"),
        ('"$(touch pwned) `x`"', "$(touch pwned) `x`"),
        ('""', ""),
        ("$p", Param("p")),
    ],
)
def test_values_keep_type_and_every_digit(text: str, value: object) -> None:
    where = parse(f"a = {text}").where
    assert isinstance(where, Compare)
    assert (type(where.value), where.value) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("today", Query(time=On("today"))),
        ("on 2026-05-01", Query(time=On("2026-05-01"))),
        ("until 2026-05-02 since 2026-05-01", Query(time=Between("2026-05-01", "2026-05-02"))),
        ("until 2026-05-02", Query(time=Between(None, "2026-05-02"))),
        ("since 1777593600", Query(time=Between("1777593600", None))),
        ("since '2026-05-01 06:00'", Query(time=Between("2026-05-01 06:00", None))),
        (
            "between 2026-05-01T08:00:00.123456783Z and 2026-05-01T08:00:00,123456786+03:00 and a > 1",
            Query(
                time=Between("2026-05-01T08:00:00.123456783Z", "2026-05-01T08:00:00,123456786+03:00"),
                where=Compare(A, ">", 1),
            ),
        ),
        (
            "a > 1 and last 1h30m and b > 2",
            Query(time=Last("1h30m"), where=And((Compare(A, ">", 1), Compare(B, ">", 2)))),
        ),
        ("bottom 3 by a", Query(top=3, rank=Sort(A))),
        ("top-k(5) a", Query(top=5, rank=Sort(A, True))),
        ("top 10 by last", Query(top=10, rank=Sort(Name("last", True), True))),
        ("sort by a desc, b, c asc", Query(sort=(Sort(A, True), Sort(B), Sort(C)))),
        ("limit 0 offset 7", Query(limit=0, offset=7)),
        ("limit all", Query(unlimited=True)),
        ("fields a, b as c", Query(fields=(Output(A), Output(B, "c")))),
        ("EXACT tz 'Asia/Shanghai'", Query(exact=True, tz="Asia/Shanghai")),
        ("like id:5e81234567", Query(like=Like(Name("id"), "5e81234567"))),
        ("like seq:17", Query(like=Like(Name("seq"), 17))),
        ("like id:$x", Query(like=Like(Name("id"), Param("x")))),
        ("body ~ $v limit 3", Query(near=Near(Param("v"), Name("body")), limit=3)),
        ('a = 1 and ~ "x"', Query(where=equal("a", 1), near=Near("x"))),
        (
            'count by a ~ "x" > 0.5',
            Query(where=Similar("x", ">", 0.5), stats=(Stat("count", None, "count"),), by=(A,)),
        ),
        ('~ "x" > 0.5 top 5', Query(where=Similar("x", ">", 0.5), near=Near("x"), top=5)),
        (
            "count as n, P95(a-b) as slow, avg (`x y`) every 5m by a",
            Query(
                stats=(
                    Stat("count", None, "n"),
                    Stat("p95", Name("a-b"), "slow"),
                    Stat("avg", Name("x y", True), "avg(x y)"),
                ),
                by=(A,),
                every="5m",
            ),
        ),
        ("count (a = 1)", Query(where=equal("a", 1), stats=(Stat("count", None, "count"),))),
        ("count(a)", Query(stats=(Stat("count", A, "count(a)"),))),
        ("a = 1 # why\n# more\nb = 2", Query(where=And((equal("a", 1), equal("b", 2))))),
    ],
)
def test_clauses(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("piped", "plain"),
    [
        ("where level = error | count", "level = error count"),
        ("where a > 1 | top 10 by b", "a > 1 top 10 by b"),
        ("last 1h | where a > 1 | where b > 2 | limit 3", "last 1h a > 1 b > 2 limit 3"),
        ("top 10 by a | fields b", "top 10 by a fields b"),
        ("sort by a | limit 10", "sort by a limit 10"),
        ("sort by a | count", "count"),
        ('~ "x" | top 50', '~ "x" top 50'),
        ('~ "x" > 0.5 | top 5', '~ "x" > 0.5 top 5'),
        ("a > 1 | *", "a > 1"),
        ("count by a sort by count desc limit 3", "count by a | sort by count desc limit 3"),
        ("a > 1 | b > 2 exact", "exact a > 1 b > 2"),
    ],
)
def test_a_pipe_that_changes_nothing_means_nothing(piped: str, plain: str) -> None:
    assert parse(piped) == parse(plain)


def test_what_stands_after_a_pipe_works_on_the_rows_before_it() -> None:
    assert parse("top 10 by a | where b > 1") == Query(
        top=10, rank=Sort(A, True), then=Query(where=Compare(B, ">", 1))
    )
    assert parse('model = "t" ~ "x" top 20 | count') == Query(
        where=equal("model", "t"), near=Near("x"), top=20, then=Query(stats=(Stat("count", None, "count"),))
    )
    assert parse('~ "x" | where a > 1').then == Query(where=Compare(A, ">", 1))
    assert parse("limit 10 | limit 5") == Query(limit=10, then=Query(limit=5))
    assert parse("count by a | where count > 5").then == Query(where=Compare(Name("count", True), ">", 5))
    assert parse("p95(a) by b | where p95(a) > 1 sort by p95(a) desc").then == Query(
        where=Compare(Name("p95(a)", True), ">", 1), sort=(Sort(Name("p95(a)", True), True),)
    )


def test_where_and_keyword_case_do_not_matter() -> None:
    assert parse("LAST 1h WHERE a > 1 TOP 5 BY b") == parse("a > 1 top 5 by b last 1h")


def test_the_same_text_is_parsed_once() -> None:
    assert parse("a > 1 b > 2") is parse("a > 1 b > 2")


def test_a_long_query_is_read_and_a_longer_one_is_refused() -> None:
    text = " or ".join(f"a = {i}" for i in range(5000))
    where = parse(text).where
    assert isinstance(where, Or) and len(where.items) == 5000
    with pytest.raises(QueryError, match="characters"):
        parse("a = 1 " * (MAX_LENGTH // 6 + 1))


def test_depth_has_a_limit_and_brackets_alone_are_no_depth() -> None:
    assert parse("(" * 5000 + "a = 1" + ")" * 5000) == Query(where=equal("a", 1))
    with pytest.raises(QueryError, match="deeper than 100"):
        parse("not (a = 1 and " * 120 + "b = 1" + ")" * 120)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("* fields id", "fields id"),
        ("* sort by id", "sort by id"),
        ("* top 5 by x", "top 5 by x"),
        ("* count by m", "count by m"),
        ("where * and a = 1", "a = 1"),
        ("last 1h *", "last 1h"),
        ("* | count", "count"),
    ],
)
def test_every_event_may_stand_beside_other_parts(text: str, same: str) -> None:
    assert parse(text) == parse(same)


def test_the_empty_name_is_two_backticks() -> None:
    assert parse('`` = "x"') == Query(where=Compare(Name("", True), "=", "x"))
    assert parse("```a`` b` exists and ```` exists") == Query(
        where=And((Exists(Name("`a` b", True)), Exists(Name("`", True))))
    )
    assert to_text(parse("count by ``")) == "count by ``"
    assert from_json({"filter": {"``": "x"}}) == parse('`` = "x"')
