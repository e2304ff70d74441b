"""The canonical event fields: one name, one type and one unit for what every source calls differently.

Source: systems catalogue, section 1. Readers map native names to these and keep the original beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
"""Severity in order; stored as uint8 index + 1, so that 0 never means a level."""


@dataclass(frozen=True, slots=True)
class Field:
    """A canonical field. type is one of `int float bool text level ts texts floats` (the last two are lists)."""

    name: str
    type: str
    group: str
    unit: str = ""
    doc: str = ""


def _fields(group: str, type: str, names: str) -> list[Field]:
    return [Field(name, type, group, _unit(name)) for name in names.split()]


def _unit(name: str) -> str:
    for suffix, unit in (
        ("_bytes_per_s", "bytes/s"),
        ("_per_s", "1/s"),
        ("_ns", "ns"),
        ("_s", "s"),
        ("_bytes", "bytes"),
        ("_ratio", "1"),
        ("_tokens", "tokens"),
        ("_bits", "bits"),
        ("_c", "°C"),
    ):
        if name.endswith(suffix):
            return unit
    return ""


SYSTEM = (
    Field("ts", "ts", "identity", "ns", "event time, UTC"),
    Field("seq", "int", "provenance", "", "arrival order in this store"),
    Field("ts_origin", "int", "provenance", "", "where the time came from"),
    Field("source", "text", "provenance", "", "file, stream or receiver"),
    Field("source_offset", "int", "provenance", "bytes", "byte offset of the record in its source"),
    Field("source_line", "int", "provenance", "", "1-based line of the record in its source"),
    Field("reader", "text", "provenance", "", "reader that understood the record"),
)
"""Fields that the store itself fills."""

CANONICAL: tuple[Field, ...] = (
    *_fields(
        "identity",
        "text",
        "kind trace_id span_id parent_span_id request_id session_id tenant_id service_name pod_name gpu_uuid queue_id "
        "batch_id",
    ),
    *_fields("identity", "int", "node_rank layer_id block_id"),
    *_fields(
        "version",
        "text",
        "request_model model_version prompt_template_id prompt_version prompt_template_hash prompt_commit "
        "system_prompt_hash tokenizer_hash adapter_name adapter_commit schema_version intent_tag",
    ),
    *_fields(
        "text", "text", "body severity prompt response context_hint finish_reason error_type logger process"
    ),
    *_fields("text", "int", "pid"),
    Field("level", "level", "text", "", "ordered severity"),
    Field("context", "texts", "text", "", "what the answer should be grounded in"),
    *_fields(
        "sizes",
        "int",
        "input_tokens output_tokens input_chars max_model_len max_output_tokens batch_size queue_length",
    ),
    *_fields(
        "time",
        "float",
        "duration_s e2e_latency_s queue_time_s time_to_first_token_s prefill_time_s decode_time_s "
        "time_per_output_token_s io_read_time_s net_send_time_s",
    ),
    *_fields("time", "floats", "decode_step_latency_s"),
    *_fields(
        "kv",
        "int",
        "kv_blocks_used kv_blocks_total kv_block_size kv_live_tokens kv_cache_hits kv_cache_queries kv_free_bytes "
        "kv_largest_free_bytes kv_total_bytes kv_used_bytes block_ref_count",
    ),
    *_fields("kv", "float", "kv_cache_usage_ratio kv_cache_hit_ratio"),
    *_fields(
        "device",
        "float",
        "gpu_utilization_ratio gpu_scheduled_utilization_ratio gpu_memory_bandwidth_bytes_per_s "
        "link_bandwidth_bytes_per_s link_peak_bandwidth_bytes_per_s link_latency_s gpu_temperature_c fan_speed_ratio",
    ),
    *_fields(
        "device",
        "int",
        "gpu_memory_used_bytes gpu_memory_total_bytes gpu_memory_quota_bytes peer_rank ecc_errors",
    ),
    *_fields("internals", "floats", "token_logprobs token_entropy_bits attention_entropy token_scores"),
    *_fields("policy", "text", "guard_verdict guard_stage safety_filter_stage"),
    *_fields("policy", "float", "guard_score"),
    *_fields("policy", "bool", "safety_filter_triggered"),
    *_fields("policy", "int", "rejection_sampling_count"),
    *_fields("feedback", "float", "dwell_time_s quality_label"),
    *_fields("feedback", "int", "retry_count edit_distance original_length"),
)
"""Every canonical field that a reader may fill."""

FIELDS: dict[str, Field] = {f.name: f for f in (*SYSTEM, *CANONICAL)}
"""System and canonical fields by name."""

ARROW_TYPES: dict[str, pa.DataType] = {
    "ts": pa.int64(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "level": pa.uint8(),
    "texts": pa.list_(pa.string()),
    "floats": pa.list_(pa.float64()),
}
"""Arrow type of each canonical type; text columns may also arrive dictionary-encoded."""

PATH_TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "f": pa.float64(),
    "b": pa.bool_(),
    "s": pa.string(),
    "z": pa.string(),
    "o": pa.bool_(),
    "[i]": pa.list_(pa.int64()),
    "[f]": pa.list_(pa.float64()),
    "[b]": pa.list_(pa.bool_()),
    "[s]": pa.list_(pa.string()),
    "[z]": pa.list_(pa.string()),
}
"""Arrow type of each original-field column `path#type`."""


def split_physical(name: str) -> tuple[str, str]:
    """Split a physical column name into path and type code; canonical fields and signals have the code ``""``.

    The type stands after the last ``#``, because a path may hold one itself.
    """
    path, mark, code = name.rpartition("#")
    return (path, code) if mark else (name, "")
