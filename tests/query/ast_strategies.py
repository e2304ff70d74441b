"""Abstract queries for property tests: every kind of part, with awkward names and texts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from treering.query import ast
from treering.query.literals import SOFT, make_name, normal_pattern
from treering.query.logic import all_of, any_of, negate
from treering.query.pipeline import pipeline
from treering.storage.errors import QueryError

WORDS = (
    *("model", "attention-collapse", "gen_ai.request.model", "Level", "x1", "near", "phrase"),
    *("幻觉", "naïve", "हिंदी"),
)
ODD = (
    *("avg model score", "1st", "a:b", "$ref", "`tick`", "a``b", "trailing.", "and"),
    *("日志 级别", '"q"', "x#s", "\u2028"),
)
AWKWARD = (
    *("O'Brien", 'say "hi"', "back\\slash", "new\nline", "\ttab"),
    *("~ > top 5 by id", "# no comment", "\x00", "😀"),
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(AWKWARD),
)


def _name(text: str, quoted: bool) -> ast.Name:
    return ast.Name(text, True) if quoted else make_name(text)


names = st.builds(_name, st.sampled_from((*WORDS, *ODD, *sorted(SOFT))), st.booleans())
params = st.builds(ast.Param, st.sampled_from(("h", "model_2", "X")))
numbers = st.one_of(
    st.integers(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.one_of(numbers, TEXTS, st.booleans(), params)
thresholds = st.one_of(st.floats(-1, 1), st.integers(-1, 1), params)
text_or_param = st.one_of(TEXTS, params)
PATTERNS = ("a/b", "^(a+)+$", r"\s*\w+=\"?", r"\\", "[/]", r"a\.b", r"a\/b", "日本", "x\ny", "#")
patterns = st.sampled_from(PATTERNS).map(normal_pattern)
optional_names = st.one_of(st.none(), names)

operators = st.sampled_from((">", ">=", "<", "<="))
leaves = st.one_of(
    st.builds(ast.Compare, names, st.sampled_from(("=", ">", ">=", "<", "<=")), scalars),
    st.builds(ast.In, names, st.lists(scalars, min_size=1, max_size=3).map(tuple)),
    st.builds(ast.Exists, names),
    st.builds(ast.Phrase, text_or_param),
    st.builds(ast.Has, names, scalars),
    st.builds(ast.Matches, names, patterns),
    st.builds(ast.Similar, text_or_param, operators, thresholds, optional_names),
)


def _combined(inner: st.SearchStrategy[ast.Cond]) -> st.SearchStrategy[ast.Cond]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(several.map(all_of), several.map(any_of), inner.map(negate))


conditions: st.SearchStrategy[ast.Cond] = st.recursive(leaves, _combined, max_leaves=8)

durations = st.sampled_from(("15m", "1h30m", "7d", "2w", "500ms", "1.5s", "10ns"))
moments = st.sampled_from(
    (
        *("2026-05-01", "2026-05-01T06", "2026-05-01T06:00:00.123456789+03:00"),
        *("today", "1777593600", "2026-05-01 06:00"),
    )
)
times = st.one_of(
    st.builds(ast.Last, durations),
    st.builds(ast.On, st.sampled_from(("2026-05-01", "today", "yesterday"))),
    st.builds(ast.Between, moments, st.one_of(st.none(), moments)),
    st.builds(ast.Between, st.none(), moments),
)
nears = st.builds(ast.Near, text_or_param, optional_names)
likes = st.builds(ast.Like, names, st.one_of(TEXTS, st.integers(), params))
sorts = st.builds(ast.Sort, names, st.booleans())
counts = st.integers(0, 10**6)
outputs = st.builds(ast.Output, names, st.one_of(st.none(), st.sampled_from((*WORDS, *ODD))))


@st.composite
def stat_lists(draw: st.DrawFn) -> tuple[ast.Stat, ...]:
    found = []
    functions = st.sampled_from(("count", "sum", "p95", "p999", "distinct"))
    for fn in draw(st.lists(functions, min_size=1, max_size=3)):
        field = draw(names if fn != "count" else optional_names)
        written = fn if field is None else f"{fn}({field.text})"
        found.append(ast.Stat(fn, field, draw(st.one_of(st.just(written), st.sampled_from((*WORDS, *ODD))))))
    return tuple(found)


@st.composite
def stages(draw: st.DrawFn) -> ast.Query:
    """One stage with any parts, whether or not they go together."""
    stage = ast.Query(where=draw(st.one_of(st.none(), conditions)), time=draw(st.one_of(st.none(), times)))
    if draw(st.booleans()):
        stage = replace(stage, stats=draw(stat_lists()), by=tuple(draw(st.lists(names, max_size=2))))
        return replace(stage, every=draw(st.one_of(st.none(), durations)))
    match draw(st.integers(0, 3)):
        case 1:
            stage = replace(stage, near=draw(nears))
        case 2:
            stage = replace(stage, like=draw(likes))
    match draw(st.integers(0, 3)):
        case 1:
            stage = replace(stage, top=draw(counts), rank=draw(sorts))
        case 2:
            stage = replace(stage, sort=tuple(draw(st.lists(sorts, min_size=1, max_size=2))))
        case 3:
            stage = replace(stage, limit=draw(counts), offset=draw(st.sampled_from((0, 5))))
    if draw(st.booleans()):
        stage = replace(stage, fields=tuple(draw(st.lists(outputs, min_size=1, max_size=2))))
    return stage


@st.composite
def queries(draw: st.DrawFn) -> ast.Query:
    """A query of one to three stages in canonical shape."""
    drafts = draw(st.lists(stages(), min_size=1, max_size=3))
    zone = draw(st.sampled_from((None, None, "UTC", "Asia/Shanghai", "+08:00")))
    drafts[0] = replace(drafts[0], exact=draw(st.booleans()), tz=zone)
    try:
        return pipeline((draft, {}) for draft in drafts)
    except QueryError:
        assume(False)
        raise
