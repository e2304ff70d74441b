import json
from typing import Any

import pytest

from treering.indexer.canonical import record_time
from treering.indexer.json_columns import json_columns
from treering.indexer.native_names import FIELD_PATHS
from treering.storage.batch import TS_ORIGINS
from treering.storage.schema import FIELDS


def _decoded(*records: dict[str, Any], overrides: dict[str, str] | None = None) -> dict[str, list[Any]]:
    columns = json_columns([json.dumps(record).encode() for record in records], overrides)
    return {name: array.to_pylist() for name, array in columns.items()}


def test_every_mapped_field_is_canonical() -> None:
    assert set(FIELD_PATHS) <= set(FIELDS)


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        ({"model": "m"}, "request_model", "m"),
        ({"gen_ai": {"request": {"model": "m"}}}, "request_model", "m"),
        ({"attributes": {"gen_ai.request.model": "m"}}, "request_model", "m"),
        ({"user_query": "q"}, "prompt", "q"),
        ({"chatgpt_response": "r"}, "response", "r"),
        ({"contexts": ["a", "b"]}, "context", ["a", "b"]),
        ({"contexts": ["a", 5, "b"]}, "context", ["a", None, "b"]),
        ({"evidence": "e"}, "context", ["e"]),
        ({"retrieved_chunks": [{"text": "a", "score": 1}, {"text": "b"}]}, "context", ["a", "b"]),
        ({"usage": {"prompt_tokens": 7}}, "input_tokens", 7),
        ({"gen_ai.usage.completion_tokens": 9}, "output_tokens", 9),
        ({"latency_ms": 812}, "e2e_latency_s", 0.812),
        ({"latency_ms": 812.4}, "e2e_latency_s", 0.8124),
        ({"total_time": "1.195713965s"}, "e2e_latency_s", 1.195713965),
        ({"queue_time": "686.203µs"}, "queue_time_s", 0.000686203),
        ({"ttft_ms": 50}, "time_to_first_token_s", 0.05),
        ({"kv_cache_usage_percent": 25}, "kv_cache_usage_ratio", 0.25),
        ({"level": "WARNING"}, "level", 4),
        ({"severityText": "Error"}, "level", 5),
        ({"severityNumber": 9}, "level", 3),
        ({"severityNumber": "SEVERITY_NUMBER_ERROR"}, "level", 5),
        ({"levelno": 50}, "level", 6),
        ({"level": 30}, "level", 3),
        ({"level": "WARNING"}, "severity", "WARNING"),
        ({"msg": "hello"}, "body", "hello"),
        ({"delta": "tok"}, "body", "tok"),
        ({"traceId": "5B8EFFF798038103D269B633813FC60C"}, "trace_id", "5b8efff798038103d269b633813fc60c"),
        ({"request_id": 12}, "request_id", "12"),
        ({"token_logprobs": [-0.5, -1]}, "token_logprobs", [-0.5, -1.0]),
        (
            {"choices": [{"logprobs": {"content": [{"logprob": -0.1}, {"logprob": -2}]}}]},
            "token_logprobs",
            [-0.1, -2.0],
        ),
        ({"attention_entropy": [[1.0, 2.0], [3.0, 4.0]]}, "attention_entropy", [1.5, 3.5]),
        ({"choices": [{"finish_reason": "stop", "message": {"content": "x"}}]}, "finish_reason", "stop"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "prompt", "hi"),
        ({"choices": [{"message": {"role": "assistant", "content": "yes"}}]}, "response", "yes"),
        ({"response": {"choices": [{"text": "yes"}]}}, "response", "yes"),
        (
            {"gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"hey"}]}]'},
            "prompt",
            "hey",
        ),
    ],
)
def test_native_names_give_the_canonical_field(record: dict[str, Any], field: str, value: object) -> None:
    assert _decoded(record)[field] == [value]


def test_chat_messages_become_prompt_and_answer() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "hello"},
    ]
    found = _decoded({"messages": messages})
    assert found["prompt"] == ["system: be brief\nuser: hi"]
    assert found["response"] == ["hello"]
    assert "body" not in found


def test_the_first_path_with_a_value_counts_row_by_row() -> None:
    found = _decoded({"model": "a"}, {"model_name": "b"}, {"model": "c", "request_model": "d"}, {})
    assert found["request_model"] == ["a", "b", "d", None]
    assert found["model#s"] == ["a", None, "c", None]


def test_values_of_an_unfit_type_are_not_coerced() -> None:
    found = _decoded({"latency_ms": "fast", "input_tokens": 1.5}, {"latency_ms": 10, "input_tokens": 2.0})
    assert found["e2e_latency_s"] == [None, 0.01]
    assert found["input_tokens"] == [None, 2]
    assert found["input_tokens#f"] == [1.5, 2.0]


def test_lists_that_mix_types_are_no_series_of_numbers_and_give_the_body_their_texts() -> None:
    rows = [{"token_logprobs": values, "note": ["a", 1, None, "b"]} for values in ([-0.5, "x"], [-1, -2.5])]
    found = _decoded(*rows)
    assert found["token_logprobs"] == [None, [-1.0, -2.5]]
    assert found["body"] == ["x a b", "a b"]


def test_a_user_map_replaces_the_list() -> None:
    found = _decoded({"model": "a", "engine": "b"}, overrides={"request_model": "engine"})
    assert found["request_model"] == ["b"]


def test_records_without_any_text_field_get_their_texts_as_body() -> None:
    found = _decoded(
        {"id": "x1", "ts": "2026-05-01T00:00:00Z", "service": "gateway", "tags": ["a", "b"]},
        {"msg": "m"},
        {"n": 1},
    )
    assert found["body"] == ["gateway a b", "m", None]


@pytest.mark.parametrize(
    ("record", "ns", "origin"),
    [
        ({"ts": "bad", "timestamp": 1}, 10**9, "record"),
        ({"timeUnixNano": "1777624431000000001"}, 1777624431000000001, "record"),
        ({"timeUnixNano": "0", "observedTimeUnixNano": "5"}, 5, "observed"),
        ({"ts_ms": 1500}, 1_500_000_000, "record"),
        ({"msg": "none"}, 77, "ingest"),
        ({"ts": "not a time"}, 77, "ingest"),
    ],
)
def test_a_record_is_dated_by_its_first_usable_time(record: dict[str, Any], ns: int, origin: str) -> None:
    assert record_time(record, 77) == (ns, TS_ORIGINS.index(origin))


def test_a_user_path_for_the_time_may_be_nested() -> None:
    assert record_time({"ts": 5, "meta": {"at": 9}}, 0, path="meta.at") == (9 * 10**9, 0)
