from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.indexer.model import ModelFiles
from treering.indexer.tokens import Tokenizer, readable


@pytest.fixture(scope="module")
def tokenizer(model_files: ModelFiles) -> Tokenizer:
    return Tokenizer(model_files)


@given(st.text(st.characters(), max_size=60))
def test_every_python_string_becomes_legal_unicode_and_legal_ones_stay(text: str) -> None:
    mended = readable(text)
    mended.encode("utf-8")
    if not any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
        assert mended == text


def test_halves_of_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert readable("a\ud83d\ude00b") == "a😀b"
    assert readable("a\ud83d") == "a\ufffd"


def test_special_tokens_are_marked_and_the_window_is_kept(tokenizer: Tokenizer) -> None:
    short, empty, long = tokenizer(["connection reset", "", "word " * 1000])
    assert list(short.special) == [1, 0, 0, 1] and len(short) == 4
    assert list(empty.special) == [1, 1]
    assert len(long) == 256 and sum(long.special) == 2


def test_length_does_not_depend_on_the_other_texts(tokenizer: Tokenizer) -> None:
    together = tokenizer(["a", "a much longer line than the other one"])
    assert [len(t) for t in together] == [
        len(tokenizer([t])[0]) for t in ("a", "a much longer line than the other one")
    ]


@pytest.mark.parametrize(
    "text", ["\ud800", "\x00\x1b[31mred\x07", "\u200b\u202e", "x" * 500_000, " \n\t ", "幻觉😀"]
)
def test_awkward_texts_have_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert 2 <= len(tokenizer([text])[0]) <= 256
