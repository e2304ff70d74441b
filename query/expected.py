"""What would have fitted where a query cannot be read on, in plain words."""

from __future__ import annotations

from typing import Any

from lark.exceptions import UnexpectedInput

DEPTH = 100
"""How many of the innermost open rules are looked at; what a clause may follow is decided well within."""

COMPARISONS = (
    "ORDER",
    "EQ",
    "NE",
    "IN",
    "NOT_IN",
    "HAS",
    "CONTAINS",
    "MATCH",
    "NOT_MATCH",
    "EXISTS",
    "MISSING",
)
"""Terminals that continue a field's name."""

WORDS = {
    "ORDER": "a comparison (= != > >= < <=)",
    "IN": "in (...)",
    "HAS": 'has "text"',
    "MATCH": "=~ /pattern/",
    "EXISTS": "exists or missing",
    "NAME": "a field name",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "TIME": "a time such as 2026-05-01T06:00",
    "TODAY": "today or yesterday",
    "DURATION": "a duration such as 15m, 1h30m or 7d",
    "PATTERN": "a pattern such as /time.?out/",
    "ANCHOR": "a value",
    "COLON": '":"',
    "BY": "by",
    "ALL": "all",
    "AND": "and",
    "OR": "or",
    "_LPAR": '"("',
    "_RPAR": '")"',
    "_COMMA": '","',
    "_PIPE": '"|"',
    "$END": "the end",
}
"""Terminals by what a person would call them; the others go without saying."""

_CONDITION = {"NAME", "STRING", "TILDE", "NOT"}
_AROUND = ("AND", "OR", "_COMMA", "_RPAR", "_PIPE", "$END")


def accepted(fault: UnexpectedInput) -> set[str]:
    """Terminals that would have fitted: tried on the stack of states alone, without the values."""
    state: Any = fault.state
    conf = state.parse_conf
    stack = state.state_stack[-DEPTH:]
    candidates = (terminal for terminal in conf.states[state.position] if terminal.upper() == terminal)
    return {t for t in candidates if _fits(conf.states, list(stack), t, conf.end_state)}


def _fits(table: Any, stack: list[Any], terminal: str, end: Any) -> bool:
    """Whether the parser would come to shift the terminal, or to the end of the query."""
    while stack:
        if stack[-1] == end:
            return True
        step = table[stack[-1]].get(terminal)
        if step is None:
            return False
        action, rule = step
        if action.name == "Shift" or len(rule.expansion) >= len(stack):
            return True
        if rule.expansion:
            del stack[-len(rule.expansion) :]
        stack.append(table[stack[-1]][rule.origin.name][1])
    return True


def expected(found: str, terminals: set[str], *, after_keyword: bool) -> str:
    """Say what was found and what would have fitted.

    after_keyword: a word of the language stands before, which is rarely meant as a field.
    """
    if terminals >= _CONDITION and "ASC" not in terminals:
        words = ["a condition", *(WORDS[t] for t in _AROUND if t in terminals)]
    else:
        left = terminals - set(COMPARISONS) if after_keyword else terminals
        left = left - {"NAME"} if "TRUE" in left else left
        words = [word for terminal, word in WORDS.items() if terminal in (left or terminals)]
    if len(words) > 6:
        words = [*words[:6], "..."]
    return f"unexpected {found}, expected {either(words)}" if words else f"unexpected {found}"


def either(words: list[str]) -> str:
    """Join alternatives."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
