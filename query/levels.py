"""Words of severity that may stand without quotes, and the fields after which they may."""

from __future__ import annotations

LEVEL_WORDS = frozenset(
    word
    for words in (
        "trace verbose debug info information informational notice warn warning",
        "error err fatal critical crit alert emerg emergency panic",
    )
    for word in words.split()
)
"""Severity words in lower case; `indexer.levels` knows their order."""

LEVEL_FIELDS = frozenset(
    name
    for names in (
        "level severity severity_text severitytext log_level loglevel levelname lvl",
        "级别 日志级别 严重程度 严重级别",
    )
    for name in names.split()
)
"""Last part of the names of severity fields, lower case, `-` as `_`."""

ORDERED_FIELDS = LEVEL_FIELDS | {"log.level"}
"""Names that mean the ordered severity of the event; deeper paths are fields like any other."""


def fold(name: str) -> str:
    """Give a name as look-ups compare it: lower case, `-` as `_`."""
    return name.lower().replace("-", "_")


def is_level_field(name: str) -> bool:
    """Whether a severity word may follow this field without quotes."""
    return fold(name).rpartition(".")[2] in LEVEL_FIELDS


def is_ordered_level(name: str) -> bool:
    """Whether the name means the ordered severity of the event."""
    return fold(name) in ORDERED_FIELDS
