"""The signals of a segment that need vectors: grounded hallucination, coherence, the encoder's attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import Keys, Vectors
from treering.storage.part import Part

from . import attention, grounding
from .attention import Attention
from .columns import Floats, Labels, array, has_text, labels, numbers
from .model import is_default_model
from .signals import GROUNDED, LOGPROB, PRODUCER

if TYPE_CHECKING:
    from .fill import TextEncoder

BLOCK_ROWS = 256
"""Answers whose texts are held at once."""

CACHE_TEXTS = 50_000
"""Sentence vectors kept within a run, 77 MB of 384 dimensions."""

Lookup = Callable[[Keys], tuple[npt.NDArray[np.bool_], Vectors]]
Rows = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Columns:
    """What is known so far, by row; NaN and None where missing."""

    score: Floats
    method: Labels
    coherence: Floats

    @classmethod
    def of(cls, segment: Part) -> _Columns:
        return cls(
            _numbers(segment, "hallucination_score"),
            _labels(segment, "hallucination_method"),
            _numbers(segment, "response_coherence"),
        )


class LateSignals:
    """Computes them; sentence vectors are kept from segment to segment, for contexts repeat."""

    def __init__(self, embedder: TextEncoder) -> None:
        self._embedder = embedder
        self._n_layers = embedder.info.n_layers
        # The curve was fitted on the default model's cosines; another model's distances mean something else.
        self._has_curve = is_default_model(embedder.info)
        self._kept: dict[str, npt.NDArray[np.float32]] = {}

    def compute(
        self, segment: Part, lookup: Lookup, *, advance: Callable[[int], None], is_over: Callable[[], bool]
    ) -> dict[str, pa.Array] | None:
        """Give the completed columns of the segment, or None if time was over before.

        Columns without a value are left out. Values that are there already stay. lookup: gives stored vectors
        by key; all of the segment's must be there.
        """
        known = _Columns.of(segment)
        rows = _answers(segment)
        for start in range(0, len(rows), BLOCK_ROWS):
            if is_over():
                return None
            self._answer_block(segment, rows[start : start + BLOCK_ROWS], known)
            advance(len(rows[start : start + BLOCK_ROWS]))
        _fall_back(known, _numbers(segment, "token_confidence_mean"))
        columns = _attention(segment, lookup, n_layers=self._n_layers)
        columns["hallucination_score"] = array(known.score)
        columns["hallucination_method"] = pa.array(known.method, pa.string())
        columns["response_coherence"] = array(known.coherence)
        return {name: column for name, column in columns.items() if column.null_count < len(column)}

    def _answer_block(self, segment: Part, rows: Rows, known: _Columns) -> None:
        answers = [
            _Answer.of(*texts)
            for texts in zip(
                *(_texts(segment, n, rows) for n in ("response", "prompt", "context")), strict=True
            )
        ]
        grounded = (
            np.array([a.is_groundable for a in answers]) & (known.method[rows] != PRODUCER) & self._has_curve
        )
        coherent = np.isnan(known.coherence[rows])
        self._embed(
            text
            for answer, is_grounded, is_coherent in zip(answers, grounded, coherent, strict=True)
            for text in answer.texts(with_context=bool(is_grounded), with_coherence=bool(is_coherent))
        )
        for row, answer, is_grounded, is_coherent in zip(rows, answers, grounded, coherent, strict=True):
            if is_grounded:
                known.score[row], known.method[row] = self._score(answer), GROUNDED
            if is_coherent:
                known.coherence[row] = self._coherence(answer)

    def _score(self, answer: _Answer) -> float:
        raw = grounding.distance(self._vectors(answer.sentences), self._vectors(answer.context))
        return grounding.score(raw, grounding.curve())

    def _coherence(self, answer: _Answer) -> float:
        if not answer.sentences:
            return float("nan")
        prompt = self._kept[answer.prompt] if answer.prompt and len(answer.sentences) == 1 else None
        value = grounding.coherence(self._vectors(answer.sentences), prompt)
        return float("nan") if value is None else value

    def _embed(self, texts: Any) -> None:
        if len(self._kept) > CACHE_TEXTS:
            self._kept.clear()
        wanted = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if wanted:
            self._kept.update(zip(wanted, self._embedder.encode_vectors(wanted), strict=True))

    def _vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([self._kept[text] for text in texts])


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer cut into sentences, with the pieces of its context and its prompt."""

    sentences: list[str]
    prompt: str
    context: list[str]

    @classmethod
    def of(cls, response: str | None, prompt: str | None, context: list[str | None] | None) -> _Answer:
        return cls(
            grounding.sentences(response or ""),
            (prompt or "").strip(),
            grounding.context_pieces(context or []),
        )

    @property
    def is_groundable(self) -> bool:
        """Whether there is an answer and something to compare it with."""
        return bool(self.sentences and self.context)

    def texts(self, *, with_context: bool, with_coherence: bool) -> list[str]:
        """Texts whose vectors are needed."""
        needs_prompt = with_coherence and len(self.sentences) == 1 and self.prompt
        wanted = [*self.sentences] if with_context or with_coherence else []
        return wanted + ([self.prompt] if needs_prompt else []) + (self.context if with_context else [])


def n_answers(segment: Part) -> int:
    """Give how many events have an answer."""
    stats = segment.fields.get("response")
    return stats.n if stats else 0


def _answers(segment: Part) -> Rows:
    if "response" not in segment.fields:
        return np.empty(0, np.intp)
    return np.flatnonzero(has_text(segment.column("response")))


def _fall_back(known: _Columns, confidence: Floats) -> None:
    """Rows that waited for a grounded score and could not get one take that of their log-probabilities."""
    use = np.isnan(known.score) & ~np.isnan(confidence)
    known.score[use], known.method[use] = 1 - confidence[use], LOGPROB


def _attention(segment: Part, lookup: Lookup, *, n_layers: int) -> dict[str, pa.Array]:
    """The producer's attention where it logged any, else the encoder's, of the event's primary text."""
    own = Attention(_numbers(segment, "attention_collapse"), _numbers(segment, "attention_entropy_decay"))
    both = own.or_else(_encoder_attention(segment, lookup, n_layers=n_layers))
    source = labels(own.known, attention.PRODUCER, labels(both.known, attention.INDEX))
    return {
        "attention_collapse": array(both.collapse),
        "attention_entropy_decay": array(both.decay),
        "attention_source": pa.array(source, pa.string()),
    }


def _encoder_attention(segment: Part, lookup: Lookup, *, n_layers: int) -> Attention:
    parts = segment.parts()
    rows = parts.row[parts.primary]
    keys, inverse = np.unique(parts.key[parts.primary], return_inverse=True)
    found, vectors = lookup(keys)
    pair = attention.of_encoder(vectors.heads, vectors.n_tokens, n_layers=n_layers)
    place = np.cumsum(found) - 1
    by_row = np.where(found[inverse], place[inverse], -1)
    return Attention(
        _spread(pair.collapse, rows, by_row, segment), _spread(pair.decay, rows, by_row, segment)
    )


def _spread(values: Floats, rows: npt.NDArray[np.int32], place: Rows, segment: Part) -> Floats:
    result = np.full(segment.n_rows, np.nan)
    has = place >= 0
    result[rows[has]] = values[place[has]]
    return result


def _numbers(segment: Part, name: str) -> Floats:
    if name not in segment.fields:
        return np.full(segment.n_rows, np.nan)
    return numbers(segment.column(name))


def _labels(segment: Part, name: str) -> Labels:
    values = segment.column(name).to_pylist() if name in segment.fields else [None] * segment.n_rows
    return np.array(values, object)


def _texts(segment: Part, name: str, rows: Rows) -> list[Any]:
    return segment.column(name, rows).to_pylist() if name in segment.fields else [None] * len(rows)
