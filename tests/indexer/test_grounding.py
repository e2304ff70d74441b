from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from treering.indexer import grounding
from treering.indexer.grounding import Curve


def unit(*rows: tuple[float, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    array = np.array(rows, np.float32)
    return np.asarray(array / np.linalg.norm(array, axis=1, keepdims=True))


def test_distance_by_hand() -> None:
    # Sentence 1 stands in the context; sentence 2 is at 60 degrees to the nearest piece.
    answer = unit((1, 0), (0.5, math.sqrt(3) / 2))
    context = unit((1, 0), (0, -1))
    assert grounding.distance(answer, context) == pytest.approx(1 - (1 + 0.5) / 2)


def test_curve_by_hand_and_its_middle() -> None:
    assert grounding.score(0.5, Curve(1, -1.0, 2.0)) == 0.5
    assert grounding.score(1.0, Curve(1, -1.0, 2.0)) == pytest.approx(1 / (1 + math.exp(-1)))


def test_shipped_curve_rises_and_says_its_version() -> None:
    curve = grounding.curve()
    assert curve.version >= 1 and curve.slope > 0
    assert grounding.score(0.0, curve) < 0.5 < grounding.score(1.0, curve)


def test_coherence_by_hand() -> None:
    answer = unit((1, 0), (0.5, math.sqrt(3) / 2), (-1, 0))
    assert grounding.coherence(answer, None) == pytest.approx((0.5 + 0) / 2)  # the second cosine is negative
    assert grounding.coherence(answer[:1], unit((1, 1))[0]) == pytest.approx(math.sqrt(0.5))
    assert grounding.coherence(answer[:1], None) is None
    assert grounding.coherence(answer[:0], unit((1, 1))[0]) is None


def test_groundable_needs_an_answer_and_a_context() -> None:
    columns = {
        "response": pa.array(["a", "a", " ", None, "a"]),
        "context": pa.array([["c"], [], ["c"], ["c"], ["", "c"]], pa.list_(pa.string())),
    }
    assert grounding.groundable(columns, 5).tolist() == [True, False, False, False, True]
    assert not grounding.groundable({"response": columns["response"]}, 5).any()


def test_context_pieces_are_sentences_and_chunks_without_repeats() -> None:
    pieces = grounding.context_pieces(["One fact. Another fact.", None, " ", "One fact."])
    assert sorted(pieces) == ["Another fact.", "One fact.", "One fact. Another fact."]


def test_number_of_pieces_is_bounded() -> None:
    assert len(grounding.sentences("A fact. " * 1000)) == grounding.MAX_SENTENCES
    assert (
        len(grounding.context_pieces([f"Fact {n} is new. " * 3 for n in range(500)]))
        == grounding.MAX_SENTENCES
    )
