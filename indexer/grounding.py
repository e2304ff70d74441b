"""How well an answer is supported by its context, and how well it hangs together, from sentence vectors.

Raw distance = 1 - mean over sentences of the answer of their best cosine with a piece of the context (a
sentence, or a chunk of some sentences); a logistic curve maps it to 0..1. A prompt is no context.
Source: systems catalogue, section 2; the curve is fitted by `benchmarks/fit/fit_hallucination.py`.

What it can tell, on documents that the fit did not see (95 % intervals): answers about something else than
their context, AUROC .85 to 1.00 (English; Chinese .82, where .5 is too high a bar: balanced accuracy .59);
free invention of a small dialogue model, .91 (.67 to 1.00, of 35 cases only 3 good). What it cannot: one
wrong detail in a right summary (.40 to .42, chance or worse), one wrong statement in Chinese news (.46). A
high score is a reason to look, a low one no proof.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .chunks import split_chunks, split_sentences
from .columns import Bools, has_any_text, has_text

Floats32 = npt.NDArray[np.float32]

MAX_SENTENCES = 200
"""Sentences of an answer, and pieces of a context, that are looked at; what follows is left out."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Score = 1 / (1 + exp(-(intercept + slope * distance))). version: of the fit."""

    version: int
    intercept: float
    slope: float


@cache
def curve() -> Curve:
    """Give the shipped calibration of the default model."""
    data = json.loads(resources.files(__package__).joinpath("data", "hallucination.json").read_bytes())
    return Curve(int(data["version"]), float(data["intercept"]), float(data["slope"]))


def groundable(columns: Mapping[str, pa.Array], n_rows: int) -> Bools:
    """Give which rows have both an answer and a context, so that the answer can be compared with it."""
    if "response" not in columns or "context" not in columns:
        return np.zeros(n_rows, np.bool_)
    return has_text(columns["response"]) & has_any_text(columns["context"])


def sentences(text: str) -> list[str]:
    """Give the sentences of an answer, blank ones left out, at most `MAX_SENTENCES`."""
    pieces = (text[start:end].strip() for start, end in split_sentences(text))
    return [piece for piece in pieces if piece][:MAX_SENTENCES]


def context_pieces(context: Sequence[str | None]) -> list[str]:
    """Give what an answer's sentences are compared with: each sentence and each chunk of each text."""
    pieces: dict[str, None] = {}
    for text in context:
        for split in (split_sentences, split_chunks):
            for start, end in split(text or ""):
                piece = (text or "")[start:end].strip()
                if piece:
                    pieces[piece] = None
    return list(pieces)[:MAX_SENTENCES]


def distance(answer: Floats32, context: Floats32) -> float:
    """Give 1 - mean over the answer's sentences of their best cosine; unit vectors by row, not empty."""
    return 1.0 - float((answer @ context.T).max(axis=1).mean())


def score(raw: float, fit: Curve) -> float:
    """Give a raw distance as a score 0..1, above .5 where the answer is more likely unsupported than not."""
    return float(1.0 / (1.0 + np.exp(-(fit.intercept + fit.slope * raw))))


def coherence(answer: Floats32, prompt: Floats32 | None) -> float | None:
    """Give the mean cosine of adjacent sentences, clipped to 0..1; of a single one with the prompt's vector.

    None for no sentence, and for a single one without a prompt. Source: Foltz, Kintsch and Landauer 1998.
    """
    if len(answer) >= 2:
        cosines = np.einsum("ij,ij->i", answer[:-1], answer[1:])
        return float(np.clip(cosines, 0.0, 1.0).mean())
    if len(answer) == 1 and prompt is not None:
        return float(np.clip(answer[0] @ prompt, 0.0, 1.0))
    return None
