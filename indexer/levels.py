"""Severity words and numbers of every logger as one ordered code: 1 trace, 2 debug ... 5 error, 6 fatal."""

from __future__ import annotations

from treering.storage.schema import LEVELS

_WORDS = {
    "trace": "trace verbose finest finer t v",
    "debug": "debug fine dbg d",
    "info": "info information informational notice success default config i version",
    "warn": "warn warning w",
    "error": "error err e severe exception failure failed",
    "fatal": "fatal critical crit alert emerg emergency panic f abort c",
}

CODE_OF_WORD = {word: LEVELS.index(level) + 1 for level, words in _WORDS.items() for word in words.split()}
"""Level code of each severity word in lower case."""


def code_of_word(word: str) -> int:
    """Give the level code of a severity word, 0 for a word that is none."""
    key = word.strip().lower()
    code = CODE_OF_WORD.get(key)
    if code is not None:
        return code
    name = key.removeprefix("severity_number_").removeprefix("level_").rstrip("1234")
    return CODE_OF_WORD.get(name, 0)


def code_of_otel(number: int) -> int:
    """Give the level code of an OpenTelemetry severity number (1 to 24), 0 outside."""
    return (number - 1) // 4 + 1 if 1 <= number <= 24 else 0


def code_of_python(number: int) -> int:
    """Give the level code of a Python `levelno` (10 debug ... 50 critical), 0 outside."""
    return min(number // 10 + 1, 6) if 1 <= number <= 60 else 0


def code_of_number(number: int) -> int:
    """Give the level code of a bare number: 10 to 60 as pino counts, below as OpenTelemetry does."""
    if 10 <= number <= 60 and number % 10 == 0:
        return number // 10
    return code_of_otel(number)
