from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from treering.indexer.signals import SIGNALS, plain_signals

NAN, INF = float("nan"), float("inf")


def floats(*values: float | None) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=False)


def lists(*rows: Sequence[float | None] | None) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float64()))


def signals(n_rows: int, **columns: pa.Array) -> dict[str, list[Any]]:
    named = {name.replace("__", "#").replace("_DOT_", "."): column for name, column in columns.items()}
    return {name: column.to_pylist() for name, column in plain_signals(named, n_rows).items()}


def test_table_is_complete_and_typed() -> None:
    for name, signal in SIGNALS.items():
        assert signal.name == name and signal.type in ("float", "text") and signal.doc and signal.inputs
    assert {name for name, signal in SIGNALS.items() if not signal.needs_vectors} == {
        "token_confidence_mean",
        "response_repetition_ratio",
        "context_usage_ratio",
    }


def test_columns_have_the_type_of_the_table_and_the_length_of_the_batch() -> None:
    found = plain_signals(
        {
            "token_logprobs": lists([-1.0], None),
            "attention_entropy": lists([0.5, 0.4], None),
            "response": pa.array(["a b c d", None]),
        },
        2,
    )
    assert len(found) == 7
    for name, column in found.items():
        assert len(column) == 2 and column.type == (
            pa.string() if SIGNALS[name].type == "text" else pa.float64()
        )


def test_service_lines_have_no_signal_and_load_no_compiler() -> None:
    assert signals(2, body=pa.array(["a", "b"]), level=pa.array([3, 3], pa.uint8())) == {}
    code = (
        "import sys, pyarrow as pa; from treering.indexer.signals import plain_signals; "
        "plain_signals({'body': pa.array(['x'])}, 1); "
        "print([m for m in ('numba', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_confidence_is_the_geometric_mean_of_probabilities() -> None:
    logs = [math.log(0.9), math.log(0.4)]
    found = signals(1, token_logprobs=lists(logs))
    assert found["token_confidence_mean"] == [pytest.approx(math.sqrt(0.9 * 0.4))]


def test_confidence_passes_over_gaps_and_refuses_what_is_no_logprob() -> None:
    found = signals(
        6, token_logprobs=lists(None, [], [None, NAN], [-1.0, None, -3.0, NAN], [0.9, 0.8], [-INF, -1.0])
    )
    assert found["token_confidence_mean"] == [None, None, None, pytest.approx(math.exp(-2)), None, 0.0]


def test_rounding_above_zero_is_certainty() -> None:
    assert signals(1, token_logprobs=lists([1e-9, 0.0]))["token_confidence_mean"] == [1.0]


def test_producer_then_logprobs_and_the_label_says_which() -> None:
    found = signals(
        3, hallucination__f=floats(0.25, None, None), token_logprobs=lists([-1.0], [math.log(0.3)], None)
    )
    assert found["hallucination_score"] == [0.25, pytest.approx(0.7), None]
    assert found["hallucination_method"] == ["producer", "logprob", None]


def test_rows_that_can_be_grounded_wait() -> None:
    found = signals(
        5,
        token_logprobs=lists([-1.0], [-1.0], [-1.0], [-1.0], [-1.0]),
        response=pa.array(["Paris.", "Paris.", "  ", "Paris.", "Paris."]),
        context=pa.array([["The capital is Paris."], None, ["x"], [" ", None], ["y"]], pa.list_(pa.string())),
        hallucination_score__f=floats(None, None, None, None, 0.1),
    )
    assert found["hallucination_method"] == [None, "logprob", "logprob", "logprob", "producer"]
    assert found["hallucination_score"][0] is None and found["hallucination_score"][4] == 0.1


@pytest.mark.parametrize(
    "path",
    [
        "hallucination_score",
        "hallucination",
        "hallucination_rate",
        "scores.hallucination",
        "evals.hallucination",
        "metrics.hallucination_rate",
        "evals.hallucination.score",
        "scores.hallucination.value",
    ],
)
@pytest.mark.parametrize("code", ["f", "i"])
def test_producers_spellings(path: str, code: str) -> None:
    column = floats(1.0) if code == "f" else pa.array([1], pa.int64())
    found = plain_signals({f"{path}#{code}": column}, 1)
    assert found["hallucination_score"].to_pylist() == [1.0]


def test_first_producer_value_of_a_row_counts_and_what_is_no_share_is_passed_over() -> None:
    found = signals(
        4,
        hallucination_score__f=floats(0.1, None, 37.0, NAN),
        hallucination__f=floats(0.9, 0.8, 0.7, None),
        hallucination_rate__i=pa.array([None, 1, 1, None], pa.int64()),
    )
    assert found["hallucination_score"] == [0.1, 0.8, 0.7, None]
    assert found["hallucination_method"] == ["producer", "producer", "producer", None]


def test_other_fields_with_the_word_are_left_alone() -> None:
    assert signals(1, thresholds_DOT_hallucination__f=floats(0.3), hallucination__s=pa.array(["yes"])) == {}


def test_evaluation_events_count_only_when_they_are_about_hallucination() -> None:
    found = plain_signals(
        {
            "gen_ai.evaluation.name#s": pa.array(["Hallucination", "toxicity", None]),
            "gen_ai.evaluation.score.value#f": floats(0.75, 0.9, 0.9),
        },
        3,
    )
    assert found["hallucination_score"].to_pylist() == [0.75, None, None]


def test_producers_attention_is_labelled() -> None:
    found = signals(2, attention_entropy=lists([0.8, 0.4, 0.2], None))
    assert found["attention_collapse"] == [pytest.approx(0.8), None]
    assert found["attention_entropy_decay"] == [pytest.approx(0.75), None]
    assert found["attention_source"] == ["producer", None]


def test_a_signal_in_the_record_wins_over_the_computed_one() -> None:
    found = signals(
        2,
        response=pa.array(["go go go go go", "go go go go go"]),
        response_repetition_ratio__f=floats(0.9, None),
        response_coherence__f=floats(None, 0.4),
        context_usage_ratio__f=floats(1.2, -1.0),
    )
    assert found["response_repetition_ratio"] == [0.9, 0.5]
    assert found["response_coherence"] == [None, 0.4]
    assert found["context_usage_ratio"] == [1.2, None]


def test_empty_batch() -> None:
    empty = {"token_logprobs": lists(), "response": pa.array([], pa.string()), "attention_entropy": lists()}
    assert plain_signals(empty, 0) == {}
