"""What to say when a query cannot be read: known mistakes by their fix, everything else by what would fit."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches

from lark.exceptions import UnexpectedInput, UnexpectedToken

from treering.storage.errors import QueryError

from .expected import accepted, expected
from .literals import RESERVED, SOFT

FUNCTIONS = ("count", "sum", "avg", "min", "max", "stddev", "p50", "p90", "p95", "p99", "p999", "distinct")
"""Statistics that the language knows."""

LOOK_BACK = 300
"""How many characters before the fault the rules look at."""

W = r"[^\W\d][\w.\-]*"
_FN = "|".join(FUNCTIONS)
_BY_VERB = "`by` follows its verb: `count by f`, `top 10 by f`, `sort by f`"
_CLAUSES = "last|top|bottom|sort|limit|offset|fields|since|until|on"
_A_TIME = "write a time such as 2026-05-01 or 2026-05-01T06:00:00Z"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known mistake: what stands before the fault, what from it on, and the fix in words.

    before is searched up to the fault, after is matched from it on. Named groups fill the message; the group
    `at` says where the caret stands, else it is at the fault. needs, lacks: a terminal that must, or must
    not, fit there.
    """

    before: str
    after: str
    fix: str
    needs: str = ""
    lacks: str = ""

    def explain(self, before: str, after: str, terminals: set[str]) -> tuple[str, int] | None:
        """Give the fix and the caret's place relative to the fault, or None."""
        if (self.needs and self.needs not in terminals) or (self.lacks and self.lacks in terminals):
            return None
        left = re.search(self.before + r"\Z", before, re.I | re.S)
        right = re.match(self.after, after, re.I | re.S)
        if left is None or right is None:
            return None
        groups = left.groupdict() | right.groupdict()
        at = left.start("at") - len(before) if "at" in left.re.groupindex else 0
        return self.fix.format(**groups), at


MISTAKES = (
    Mistake("", "[“”„‟«»「」『』＂]", "use straight quotes: \" or '"),
    Mistake("", r'"(?:[^"\\]|\\.)*\\?\Z|\'(?:[^\'\\]|\\.)*\\?\Z', "this quote is not closed"),
    Mistake("", r"`[^`]*\Z", "this backtick is not closed"),
    Mistake(r"^\s*", r"\{{1}", "this looks like the JSON form: give it as a JSON query, not as text"),
    Mistake(r"^\s*(?P<at>select)\s.*", "", "this looks like SQL: use `sql`"),
    # operators of other languages
    Mistake("(?P<at>~)", "=", "did you mean =~ (regular expression) or has (substring)?"),
    Mistake("", "~=", "did you mean =~ (regular expression) or has (substring)?"),
    Mistake("", r"!~\s*[\"'$]", '`!~` needs a field and a /pattern/; for meaning write not ~ "text" > 0.6'),
    Mistake("", "&&", "write and in place of &&"),
    Mistake(r"(?P<at>\|)", r"\|", "write or in place of ||"),
    Mistake("(?P<at><)", ">", "write != in place of <>"),
    Mistake("(?P<at>=)", ">", "write >= in place of =>"),
    Mistake("(?P<at>=)", "<", "write <= in place of =<"),
    Mistake("", "!(?![=~])", "write not in place of !"),
    Mistake(rf"\blike\s+(?P<f>{W}|`[^`]*`)\s*", "=", "write `like {f}:VALUE`"),
    Mistake(rf"(?:{W}|`)\s*", ":", "use = to compare with a value"),
    Mistake(r"(?P<at>\bcount)\s*\(\s*", r"\*", "write count in place of count(*)"),
    Mistake("", r"\*", '`*` is every event and no wildcard: write `exists`, `has "text"` or `=~ /pattern/`'),
    Mistake(r"\b\d{4}", r"-\d", _A_TIME),
    Mistake(rf"(?:{W}|`)\s*", r"[+\-]\s*[\d.]", "a comparison is missing before the number", needs="ORDER"),
    # clauses
    Mistake(
        rf"\b(?P<word>or|not)\s+(?P<at>(?P<clause>{_CLAUSES}))\s+",
        r"\S",
        "`{word}` takes a condition, and `{clause}` is none",
    ),
    Mistake(r"\blast\s+", r"\S", "write a duration such as 15m, 1h30m or 7d"),
    Mistake(
        r"\bevery\s+", r"(?!\d+[a-zµ]+)\S", "write a duration such as 15m, 1h30m or 7d", needs="DURATION"
    ),
    Mistake(r"(?P<at>\bevery)\s+", r"\S", "`every` follows a statistic: `count every 5m`", lacks="DURATION"),
    Mistake("", r"every\b", "`every` follows a statistic: `count every 5m`"),
    Mistake(r"(?P<at>\btrace)\s+", r"(?P<id>[\w\-]+)", 'write trace_id = "{id}"'),
    Mistake(r"\btop\s+", r"by\b", "`top` needs a number: `top 10 by f`"),
    Mistake(r"(?P<at>\border)\s+", r"by\b", "write `sort by f`"),
    Mistake(r"(?P<at>\bgroup)\s+", r"by\b", "write `count by f`"),
    Mistake("", r"by\b", _BY_VERB),
    Mistake(r"(?P<at>\bby)\s+", r"\S", _BY_VERB, needs="ORDER"),
    Mistake(
        rf"\bby\b[^|()]*,\s*(?P<at>(?P<fn>{_FN}))\s*\((?P<f>[^()]*)",
        r"\)",
        "put the statistics first: `count, {fn}({f}) by ...`",
    ),
    Mistake(rf"\b(?:since|until|on)\s+(?P<at>{W})\s*", "", _A_TIME, needs="ORDER"),
    Mistake(r"\b(?:since|until|on)\s+", r"\S", _A_TIME),
    Mistake(r"(?P<at>\b(?P<word>and|or))\s+", r"\S", "a condition is missing before `{word}`", needs="ORDER"),
    Mistake(r"^\s*", r"\|", "nothing stands before the pipe"),
    Mistake(r"\|\s*", r"\||\s*\Z", "nothing stands after the pipe"),
    Mistake(r"\(\s*", r"\)", "the brackets are empty"),
    Mistake(r"\bin\s*", r"\[", "write the values in round brackets: in (1, 2)"),
    # values
    Mistake("", "/", "this pattern is not closed: /text/", needs="PATTERN"),
    Mistake("", r"(?P<w>\w\S*)", "write the pattern between slashes: /{w}/", needs="PATTERN"),
    Mistake(
        "",
        r"\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|w)\b",
        "write the number alone, in the field's unit",
        needs="TRUE",
    ),
    Mistake("", r"(?P<w>[\w/.@%+\-][^\s\"'`()|,#]*)", 'put text in quotes: "{w}"', needs="TRUE"),
    Mistake("", r"(?P<w>\w[^\s\"'`()|,#]*)", 'put text in quotes: "{w}"', needs="STRING", lacks="NAME"),
    # names
    Mistake(
        r"(?<![~=]\s)(?P<at>([\"'])(?P<name>[^\"']*)\2)\s*",
        r"==?|!=|[<>]|(?:in|has|exists|missing)\b",
        "a field name stands without quotes, or in backticks: `{name}`",
    ),
    Mistake(
        rf"(?P<at>(?P<name>\b(?:{'|'.join(sorted(RESERVED | SOFT))})))\s*",
        r"==?|!=|[<>]|(?:in|has|exists|missing)\b",
        "{name} is a word of the language: as a field name it stands in backticks, `{name}`",
    ),
    Mistake(
        rf"(?P<at>(?P<f>{W}))\s+",
        r"like\b",
        '`like` finds events that are alike; in a text write {f} has "text"',
    ),
    Mistake(rf"(?P<at>(?P<f>{W}))\s+", r"between\b", "write 1 <= {f} < 2; `between` takes two times"),
    Mistake(
        "",
        r"(?:is|matches|startswith)\b",
        'write `exists`, `missing`, `has "text"` or `=~ /pattern/`',
        needs="ORDER",
    ),
)
"""Known mistakes; the first that applies is told."""


def explain(text: str, fault: UnexpectedInput) -> QueryError:
    """Give the error for a text that the grammar refuses: a known mistake's fix, or what was expected."""
    at = _place(text, fault)
    terminals = accepted(fault)
    before, after = text[max(0, at - LOOK_BACK) : at], text[at:]
    for rule in (_known, _function, _full_width, _words):
        if (hint := rule(before, after, terminals)) is not None:
            return QueryError(hint[0], text=text, position=at + hint[1])
    word = re.match(r"\w+|.", after, re.S)
    found = f'"{word[0]}"' if word and after.strip() else "the end"
    message = expected(found, terminals, after_keyword=_last_word(before) in SOFT | RESERVED)
    return QueryError(message, text=text, position=at)


def _place(text: str, fault: UnexpectedInput) -> int:
    if isinstance(fault, UnexpectedToken) and fault.token.type == "$END":
        return len(text)
    return min(fault.pos_in_stream or 0, len(text))


def _known(before: str, after: str, terminals: set[str]) -> tuple[str, int] | None:
    hints = (mistake.explain(before, after, terminals) for mistake in MISTAKES)
    return next((hint for hint in hints if hint is not None), None)


def _function(before: str, after: str, _: set[str]) -> tuple[str, int] | None:
    """A function that the language lacks."""
    call = re.search(rf"({W})\s*\Z", before)
    if call is None or not after.startswith("(") or call[1].lower() in SOFT | RESERVED:
        return None
    near = get_close_matches(call[1].lower(), FUNCTIONS, 1, 0.75)
    known = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTIONS)}"
    return f"no function {call[1]}: {known}", call.start() - len(before)


def _full_width(before: str, after: str, _: set[str]) -> tuple[str, int] | None:
    """A sign as East Asian keyboards give it."""
    plain = unicodedata.normalize("NFKC", after[:1])
    if not after or after[0].isascii() or not plain.isascii() or not plain.strip():
        return None
    return f"write {plain} in place of {after[0]}", 0


def _words(before: str, after: str, terminals: set[str]) -> tuple[str, int] | None:
    """Words that are no condition: the writer may want to search for them."""
    last = re.search(rf"({W})\s*\Z", before)
    if last is None or "ORDER" not in terminals or last[1].lower() in SOFT | RESERVED:
        return None
    at = last.start() - len(before)
    following = re.match(W, after)
    if following is None and after.strip():
        return None
    if following is None:
        return f"{last[1]} alone is no condition: compare it ({last[1]} > 1), or put words in quotes", at
    return f'a comparison is missing; to search for words put them in quotes: "{last[1]} {following[0]}"', at


def _last_word(before: str) -> str:
    word = re.search(rf"({W})\s*\Z", before)
    return word[1].lower() if word else ""
