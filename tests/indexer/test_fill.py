"""Whatever waits for vectors and signals gets them, once, and a run that stops loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.indexer.letters import ANSWERS, DIM, INFO, Letters
from treering.indexer import fill as fill_module
from treering.indexer import grounding
from treering.indexer.embedder import Embedder
from treering.indexer.fill import exemplars, fill, fill_ring
from treering.indexer.ingest import IngestOptions, ingest
from treering.storage.batch import ModelInfo
from treering.storage.errors import ModelError
from treering.storage.ring import Ring


@pytest.fixture
def load(ring: Ring, tmp_path: Path) -> Callable[[Sequence[dict[str, Any]]], None]:
    """Puts records into a segment of their own."""
    count = iter(range(100))

    def _load(records: Sequence[dict[str, Any]]) -> None:
        number = next(count)
        lines = [
            json.dumps({"ts": f"2026-05-01T0{number}:00:{at:02}Z", "n": at, **record})
            for at, record in enumerate(records)
        ]
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        ingest(ring, [str(path)], options=IngestOptions())
        ring.flush()

    return _load


Load = Callable[[Sequence[dict[str, Any]]], None]


def table(ring: Ring, *names: str) -> list[tuple[Any, ...]]:
    """Columns of all rows in the order of their arrival."""
    snapshot = ring.snapshot()
    try:
        rows = []
        for part in snapshot.parts:
            columns = [
                part.column(name).to_pylist() if name in part.fields else [None] * part.n_rows
                for name in names
            ]
            rows += list(zip(part.seq.tolist(), *columns, strict=True))
        return [row[1:] for row in sorted(rows)]
    finally:
        snapshot.close()


def test_everything_that_waits_is_done(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    report = fill(ring, Letters())
    assert report.finished and report.rows == len(ANSWERS) and report.texts > len(ANSWERS)
    assert ring.unfinished() == [] and ring.model == INFO
    snapshot = ring.snapshot()
    assert snapshot.pending == 0
    snapshot.close()


def test_signals_are_those_of_the_formulas(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    letters = Letters()
    fill(ring, letters)
    pieces = grounding.context_pieces(ANSWERS[0]["context"])
    sentences = ["It is in the hall.", "It is on the desk."]
    raw = grounding.distance(letters.encode_vectors(sentences), letters.encode_vectors(pieces))
    assert table(ring, "hallucination_score", "hallucination_method") == [
        (pytest.approx(grounding.score(raw, grounding.curve())), "grounded"),
        (pytest.approx(1 - np.exp(-0.5)), "logprob"),
        (0.25, "producer"),
        (None, None),
        (None, None),
        (None, None),
    ]
    one, two = letters.encode_vectors(sentences)
    word, prompt = letters.encode_vectors(["Bananas.", "Say a word."])
    coherence = [row[0] for row in table(ring, "response_coherence")]
    assert coherence[:2] == [pytest.approx(float(one @ two)), pytest.approx(float(word @ prompt))]
    assert coherence[3:] == [None, None, None]  # no answer, no answer, a single sentence without a prompt


def test_attention_is_the_producers_or_that_of_the_index(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    fill(ring, Letters())
    found = table(ring, "attention_collapse", "attention_entropy_decay", "attention_source")
    # The stand-in gives every head 2 bits of 8 tokens' 3.
    assert found[:5] == [(pytest.approx(1 / 3), 0.0, "index")] * 5
    assert found[5] == (pytest.approx(0.7), pytest.approx(2 / 3), "producer")


def test_texts_are_embedded_once_and_their_vectors_reused(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    first = Letters()
    fill(ring, first)
    assert len(first.seen) == len(set(first.seen))
    load([*ANSWERS, {"message": "gpu 7 lost its link", "level": "error"}])
    second = Letters()
    report = fill(ring, second)
    assert second.seen == [] and report.texts == 0 and report.finished


def test_budget_stops_between_batches_and_nothing_is_lost(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    assert not fill(ring, Letters(), budget=0.0).finished
    assert len(ring.unfinished()) == 1
    assert fill(ring, Letters()).finished


def test_interrupted_run_keeps_the_batches_it_finished(
    ring: Ring, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 4)
    load([{"message": f"word {word} was not understood"} for word in "abcdefghij"])
    first, second = Letters(fails_after=2), Letters()
    with pytest.raises(KeyboardInterrupt):
        fill(ring, first)
    fill(ring, second)
    assert len(first.seen) == 8 and len(second.seen) == 2
    assert not set(first.seen) & set(second.seen)


def test_progress_rises_to_the_total(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    steps: list[tuple[int, int]] = []
    fill(ring, Letters(), progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps) and steps[-1][0] == steps[-1][1]


def test_store_of_another_model_is_refused_before_anything_is_done(ring: Ring, load: Load) -> None:
    load(ANSWERS)
    fill(ring, Letters())
    load([{"message": "something new came up"}])
    letters = Letters(replace(INFO, model_id="letters@other"))
    with pytest.raises(ModelError, match="letters@other"):
        fill(ring, letters)
    assert letters.seen == [] and len(ring.unfinished()) == 1


def test_other_models_get_no_grounded_score_but_that_of_the_logprobs(ring: Ring, load: Load) -> None:
    load(
        [{"response": "Yes.", "context": ["No."], "logprobs": {"content": [{"token": "Y", "logprob": -1.0}]}}]
    )
    fill(ring, Letters(replace(INFO, model_id="letters@other")))
    assert table(ring, "hallucination_score", "hallucination_method") == [
        (pytest.approx(1 - np.exp(-1)), "logprob")
    ]


def test_exemplars_are_the_texts_of_their_keys(ring: Ring, load: Load) -> None:
    long = " ".join(f"A rather long answer about number {n}." for n in range(150))
    load(
        [
            {"message": "took 5 ms"},
            {"message": "took 7 ms"},
            {"response": long, "context": ["short", long[::-1]]},
        ]
    )
    (segment,) = ring.unfinished()
    vectors = segment.vectors()
    texts = exemplars(segment, np.arange(len(vectors)))
    assert "took 5 ms" in texts and "took 7 ms" not in texts and "short" in texts
    assert sum(text in long for text in texts) > 3 and sum(text in long[::-1] for text in texts) > 3
    assert len(set(texts)) == len(texts) == len(vectors)


def test_awkward_texts_are_embedded(ring: Ring, load: Load) -> None:
    load([{"message": text} for text in ("\ud83d half", " ", "", "\u2028", "幻觉", "x" * 5000)])
    assert fill(ring, Letters()).finished and ring.unfinished() == []


def test_nothing_waiting_needs_no_model(ring: Ring) -> None:
    report = fill_ring(ring, model="no/such/model")
    assert report.finished and report.texts == 0


def test_given_vectors_need_no_model_and_no_signal_waits(ring: Ring, load: Load) -> None:
    ring.set_model(ModelInfo(f"given:{DIM}", DIM, 0, 0, 0, "none", "none", (1.0,) * 136))
    load([{"n_tokens": 3}])
    assert fill_ring(ring).finished and ring.unfinished() == []
    load([{"message": "a line without a vector"}])
    with pytest.raises(ModelError, match="1 texts wait"):
        fill_ring(ring)


@pytest.mark.model
def test_default_model_tells_an_answer_from_an_invention(ring: Ring, load: Load, embedder: Embedder) -> None:
    context = ["The harbour bridge was opened in 1932. It carries trains and cars."]
    load(
        [
            {
                "prompt": "When?",
                "response": "The bridge was opened in 1932. The bridge carries trains.",
                "context": context,
            },
            {
                "prompt": "When?",
                "response": "Penguins eat fish. My sister plays the violin.",
                "context": context,
            },
        ]
    )
    fill(ring, embedder)
    (good, bad), (close, far) = (
        [row[0] for row in table(ring, name)] for name in ("hallucination_score", "response_coherence")
    )
    assert good < 0.5 < bad and close > far
    assert ring.model == embedder.info
