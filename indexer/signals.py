"""The table of signals, and those of them that need no vector.

A signal is a pure function of one event: null in, null out, and NaN is not a value. A number of the
signal's own name in the record always wins over what would be computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import attention, grounding, text_signals
from .columns import Bools, Floats, array, first_number, labels, list_numbers, texts


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal. type: `float` or `text`. low, high: bounds of a number, None where it has none.

    needs_vectors: whether some of its values come only once the event's texts are embedded. source: system
    number.
    """

    name: str
    type: str
    unit: str
    low: float | None
    high: float | None
    inputs: tuple[str, ...]
    needs_vectors: bool
    source: str
    doc: str


def _ratio(
    name: str,
    inputs: str,
    source: str,
    doc: str,
    *,
    needs_vectors: bool = False,
    low: float | None = 0,
    high: float | None = 1,
) -> Signal:
    return Signal(name, "float", "1", low, high, tuple(inputs.split()), needs_vectors, source, doc)


def _label(name: str, inputs: str, source: str, doc: str) -> Signal:
    return Signal(name, "text", "", None, None, tuple(inputs.split()), True, source, doc)


SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        _ratio(
            "hallucination_score",
            "response context token_logprobs",
            "section 2",
            "how likely the answer is unsupported: the producer's value, else calibrated distance to "
            "the context, else 1 - exp(mean token log-probability)",
            needs_vectors=True,
        ),
        _label(
            "hallucination_method",
            "hallucination_score",
            "section 2",
            "where hallucination_score came from: producer, grounded or logprob; do not average over several",
        ),
        _ratio(
            "token_confidence_mean",
            "token_logprobs",
            "S74",
            "exp(mean token log-probability): the geometric mean of the tokens' probabilities",
        ),
        _ratio(
            "attention_collapse",
            "attention_entropy",
            "section 2, S74",
            "1 - mean normalised attention entropy of the last third of layers",
            needs_vectors=True,
        ),
        _ratio(
            "attention_entropy_decay",
            "attention_entropy",
            "section 2, S74",
            "(first - last) / first layer's normalised attention entropy",
            needs_vectors=True,
            low=None,
        ),
        _label(
            "attention_source",
            "attention_entropy",
            "section 2",
            "whose attention: producer (the served model) or index (the embedding model)",
        ),
        _ratio(
            "response_coherence",
            "response prompt",
            "section 2",
            "mean cosine of adjacent sentences of the answer; of a single sentence with the prompt",
            needs_vectors=True,
        ),
        _ratio(
            "response_repetition_ratio",
            "response",
            "section 2",
            "1 - distinct 4-grams / 4-grams of the answer's tokens",
        ),
        _ratio(
            "context_usage_ratio",
            "input_tokens output_tokens max_model_len",
            "section 2",
            "(input + output tokens) / the model's window; above 1 the window was exceeded",
            high=None,
        ),
    )
}
"""Every signal that the index computes, by name."""

PRODUCER, GROUNDED, LOGPROB = "producer", "grounded", "logprob"
"""Values of `hallucination_method`, best first."""

_PARENTS = (
    "",
    "scores.",
    "evals.",
    "evaluation.",
    "evaluations.",
    "eval.",
    "metrics.",
    "quality.",
    "signals.",
    "attributes.",
)
_NAMES = ("hallucination_score", "hallucination", "hallucination_rate")
_CHILDREN = ("", ".score", ".value")
_PRODUCER_COLUMNS = tuple(
    f"{parent}{name}{child}#{code}"
    for parent in _PARENTS
    for name in _NAMES
    for child in _CHILDREN
    for code in "fi"
)
_EVALUATION_NAME = "gen_ai.evaluation.name#s"
_EVALUATION_VALUES = ("gen_ai.evaluation.score.value#f", "gen_ai.evaluation.score.value#i")

NATIVE_COLUMNS = frozenset(
    (
        *_PRODUCER_COLUMNS,
        _EVALUATION_NAME,
        *_EVALUATION_VALUES,
        *(f"{n}#{code}" for n in SIGNALS for code in "fi"),
    )
)
"""Original columns that signals are made of, beside canonical fields."""

_ROUNDING = 1e-6
"""A mean log-probability may exceed 0 by this much through the producer's rounding; more, and it is none."""


def plain_signals(columns: Mapping[str, pa.Array], n_rows: int) -> dict[str, pa.Array]:
    """Give the signals that need no vector; a signal without a single value is left out.

    columns: canonical columns under their own names and original ones under `path#type`.
    """
    found: dict[str, Floats | None] = {
        "token_confidence_mean": _own_or(columns, "token_confidence_mean", _confidence(columns)),
        "response_repetition_ratio": _own_or(columns, "response_repetition_ratio", _repetition(columns)),
        "response_coherence": _own_or(columns, "response_coherence", None),
        "context_usage_ratio": _own_or(
            columns, "context_usage_ratio", text_signals.context_usage_ratio(columns)
        ),
    }
    result = {name: array(values) for name, values in found.items() if values is not None}
    result |= _hallucination(columns, n_rows, _confidence(columns))
    result |= _attention(columns, n_rows)
    return {name: column for name, column in result.items() if column.null_count < len(column)}


def _hallucination(
    columns: Mapping[str, pa.Array], n_rows: int, confidence: Floats | None
) -> dict[str, pa.Array]:
    """Producer's value, else the log-probabilities'; rows that can be grounded wait for their vectors."""
    given = _given(columns, n_rows)
    if given is None and confidence is None:
        return {}
    score = np.full(n_rows, np.nan) if given is None else given
    method = labels(~np.isnan(score), PRODUCER)
    if confidence is not None:
        use = np.isnan(score) & ~np.isnan(confidence) & ~grounding.groundable(columns, n_rows)
        score, method = np.where(use, 1 - confidence, score), labels(use, LOGPROB, method)
    return {"hallucination_score": array(score), "hallucination_method": pa.array(method, pa.string())}


def _given(columns: Mapping[str, pa.Array], n_rows: int) -> Floats | None:
    own = first_number(columns, _PRODUCER_COLUMNS, 0.0, 1.0)
    judged = _evaluated(columns)
    if own is None or judged is None:
        return own if judged is None else judged
    return np.where(np.isnan(own), judged, own)


def _evaluated(columns: Mapping[str, pa.Array]) -> Floats | None:
    """Scores of OpenTelemetry evaluation events that are named after hallucination; 1 means hallucinated."""
    values = first_number(columns, _EVALUATION_VALUES, 0.0, 1.0)
    if values is None or _EVALUATION_NAME not in columns:
        return None
    names = pc.utf8_lower(texts(columns[_EVALUATION_NAME]))
    is_ours = np.array(pc.fill_null(pc.is_in(names, pa.array(_NAMES)), False), np.bool_)
    return np.where(is_ours, values, np.nan)


def _confidence(columns: Mapping[str, pa.Array]) -> Floats | None:
    if "token_logprobs" not in columns:
        return None
    column = columns["token_logprobs"]
    row, value = list_numbers(column)
    use: Bools = ~np.isnan(value)
    n = np.bincount(row[use], minlength=len(column))
    total = np.bincount(row[use], weights=value[use], minlength=len(column))
    mean = np.divide(total, n, out=np.full(len(column), np.nan), where=n > 0)
    mean[mean > _ROUNDING] = np.nan
    confidence: Floats = np.exp(np.minimum(mean, 0.0))
    return confidence


def _repetition(columns: Mapping[str, pa.Array]) -> Floats | None:
    response = columns.get("response")
    if response is None or response.null_count == len(response):
        return None
    return text_signals.repetition_ratio(response)


def _attention(columns: Mapping[str, pa.Array], n_rows: int) -> dict[str, pa.Array]:
    pair = attention.of_producer(columns, n_rows)
    if pair is None:
        return {}
    return {
        "attention_collapse": array(pair.collapse),
        "attention_entropy_decay": array(pair.decay),
        "attention_source": pa.array(labels(pair.known, attention.PRODUCER), pa.string()),
    }


def _own_or(columns: Mapping[str, pa.Array], name: str, computed: Floats | None) -> Floats | None:
    signal = SIGNALS[name]
    low = -np.inf if signal.low is None else signal.low
    high = np.inf if signal.high is None else signal.high
    own = first_number(columns, (f"{name}#f", f"{name}#i"), low, high)
    if own is None or computed is None:
        return computed if own is None else own
    return np.where(np.isnan(own), computed, own)
