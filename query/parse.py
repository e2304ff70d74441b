"""Query text to the abstract query. Linear in the text; the answer for a text is kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token
from lark.common import LexerConf
from lark.exceptions import UnexpectedInput
from lark.lexer import BasicLexer, ContextualLexer, LexerState

from treering.storage.errors import QueryError

from .ast import Query
from .clauses import Clauses
from .hints import explain

MAX_LENGTH = 64 * 1024
"""Longest query text in characters."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Query:
    """Give the abstract query that `text` spells; the empty text is every event.

    Raises QueryError with the place of the fault.
    """
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"the query has {len(text):,} characters, {MAX_LENGTH:,} are allowed: give long lists as a parameter"
        )
    try:
        query: Query = grammar().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as fault:
        raise explain(text, fault) from None
    except QueryError as fault:
        raise QueryError(fault.message, text=text, position=fault.position) from None
    return query


@lru_cache(maxsize=1)
def grammar(*, strict: bool = False) -> Lark:
    """Give the parser. strict: refuse any conflict of rules or terminals; needs the package `interegular`."""
    return Lark(
        files(__package__).joinpath("grammar.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        transformer=Clauses(),
        maybe_placeholders=False,
        strict=strict,
        _plugins={} if strict else {"ContextualLexer": _Lexer},
    )


class _Lexer(ContextualLexer):
    """Lark's lexer, built without the checks of terminals that the tests make, and without counting lines."""

    def __init__(
        self, conf: LexerConf, states: dict[int, Collection[str]], always_accept: Collection[str] = ()
    ) -> None:
        conf.skip_validation = True
        super().__init__(conf, states, always_accept)

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        """Give the tokens; what matches nothing is left to Lark, which knows how to say so."""
        text, at = str(lexer_state.text.text), 0
        while (at := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            lexer = self.lexers[parser_state.position]
            assert isinstance(lexer, BasicLexer)
            found = lexer.scanner.match(lexer_state.text, at)
            if found is None:
                break
            value, kind = found
            token = Token(kind, value, at)
            if kind in lexer.callback:
                token = lexer.callback[kind](token)
            at += len(value)
            lexer_state.last_token = token
            yield token
        else:
            return
        lexer_state.line_ctr.char_pos = at
        yield from super().lex(lexer_state, parser_state)


_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
