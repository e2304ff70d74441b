"""Texts to token ids, the same for every encoder; needs neither torch nor transformers for most models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treering.storage.errors import ModelError

from .model import ModelFiles

MAX_CHARS = 1 << 16
"""Longest text that is tokenised; what follows lies beyond any model's window in all text made of words."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text as the model reads it. ids: with special tokens. special: 1 where one is special."""

    ids: Sequence[int]
    types: Sequence[int]
    special: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """The model's tokenizer, cut at its window."""

    def __init__(self, files: ModelFiles) -> None:
        self._fast = _load(files)
        self._fast.no_padding()
        self._fast.enable_truncation(max_length=files.max_length)

    def __call__(self, texts: Sequence[str]) -> list[Tokens]:
        """Give the tokens of each text; any Python string is accepted, the empty one too."""
        rows = self._fast.encode_batch([readable(text[:MAX_CHARS]) for text in texts])
        return [Tokens(row.ids, row.type_ids, row.special_tokens_mask) for row in rows]


def readable(text: str) -> str:
    """Give the text as legal Unicode: surrogate pairs joined, halves of pairs replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _load(files: ModelFiles) -> Any:
    path = files.transformer / "tokenizer.json"
    if path.is_file():
        from tokenizers import Tokenizer as FastTokenizer

        return FastTokenizer.from_file(str(path))
    from transformers import AutoTokenizer

    backend = getattr(AutoTokenizer.from_pretrained(str(files.transformer)), "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"{files.transformer}: has no fast tokenizer; add its tokenizer.json")
    return backend
