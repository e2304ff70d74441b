"""Short names, names that other tools use and Chinese names, and the stored field that each means."""

from __future__ import annotations

from treering.indexer.native_names import FIELD_PATHS

from .levels import LEVEL_FIELDS, fold

_TABLE = {
    "ts": "time timestamp 时间 时间戳",
    "body": "message msg log text event content 消息 正文 日志",
    "prompt": "question input query 提示词 提示 问题 输入",
    "response": "answer output completion reply 回答 回复 响应 输出",
    "context": "docs documents retrieved 上下文 检索内容",
    "request_model": "model model_name gen_ai.request.model llm.model_name 模型 模型名",
    "request_id": "request req_id requestid 请求 请求编号",
    "trace_id": "trace traceid 追踪 链路",
    "span_id": "span spanid",
    "session_id": "session conversation_id 会话",
    "tenant_id": "tenant 租户",
    "service_name": "service service.name 服务",
    "pod_name": "pod",
    "source": "file 来源 文件",
    "error_type": "error.type 错误类型",
    "finish_reason": "stop_reason 结束原因",
    "e2e_latency_s": "latency e2e_latency 延迟 时延 总延迟",
    "duration_s": "duration 耗时",
    "queue_time_s": "queue_time 排队时间",
    "time_to_first_token_s": "ttft time_to_first_token 首字延迟 首词延迟 首token延迟",
    "time_per_output_token_s": "tpot time_per_output_token",
    "prefill_time_s": "prefill_time 预填充时间",
    "decode_time_s": "decode_time 解码时间",
    "input_tokens": "prompt_tokens gen_ai.usage.input_tokens 输入词元 输入token",
    "output_tokens": "completion_tokens gen_ai.usage.output_tokens 输出词元 输出token",
    "kv_cache_hit_ratio": "kv_hit kv_hit_ratio kv_cache_hit_rate cache_hit_rate 缓存命中率 命中率",
    "kv_cache_usage_ratio": "kv_usage kv_cache_usage 缓存使用率",
    "gpu_utilization_ratio": "gpu_util gpu_utilization 显卡利用率",
    "hallucination_score": "hallucination hallucination_rate 幻觉 幻觉率 幻觉分数",
    "attention_collapse": "attention_collapse_score 注意力坍缩 注意力坍塌 注意力崩溃",
    "response_coherence": "coherence 连贯性",
    "response_repetition_ratio": "repetition repetition_ratio 重复率",
    "token_confidence_mean": "confidence token_confidence 置信度",
    "context_usage_ratio": "context_usage 上下文占用率",
}

FEEDS: dict[str, str] = {
    path: name
    for name, paths in FIELD_PATHS.items()
    for path in paths.split()
    if "*" not in path and path != name
}
"""Canonical field of each native path whose values the readers take over unchanged."""

ALIASES: dict[str, str] = {
    **{fold(path): name for path, name in FEEDS.items() if "." in path or "_" in path},
    **{fold(word): name for name, words in _TABLE.items() for word in words.split()},
    **dict.fromkeys(LEVEL_FIELDS - {"level", "severity"}, "level"),
}
"""Field of each alias; keys are folded. A stored field of the alias's own name wins."""


def fold_name(text: str) -> str:
    """Give the field that a name means where none is stored under it: its alias, else itself, folded."""
    folded = fold(text)
    return ALIASES.get(folded, folded)
