"""What producers call the canonical fields: one declarative list of native paths for each, with unit factors.

Source: field names of vLLM, SGLang, TGI, Triton, OpenAI, LiteLLM, Langfuse, OpenTelemetry GenAI (current and
older), OpenInference, Traceloop, and the public request logs and labelled sets that users bring.
"""

from __future__ import annotations

TIME_PATHS = (
    "ts", "timestamp", "time", "@timestamp", "datetime", "date_time", "created_at", "start_time",
    "startTime", "timeUnixNano", "startTimeUnixNano", "event_time", "eventTime", "time_iso8601",
    "asctime", "createdAt", "logged_at", "timestamp_ns", "ts_ns", "time_ns", "timestamp_us", "ts_us",
    "timestamp_ms", "ts_ms", "time_ms", "created", "date", "TIMESTAMP", "Timestamp", "Time", "t",
)  # fmt: skip
"""Where a record's own time may stand, best first."""

OBSERVED_PATHS = (
    "observedTimeUnixNano", "observed_timestamp", "observedTimestamp", "observed_time", "ingest_time",
    "received_at",
)  # fmt: skip
"""Where the time may stand at which somebody saw the record."""

LEVEL_PATHS = (
    "level", "severity", "severity_text", "severityText", "log.level", "loglevel", "logLevel",
    "levelname", "lvl", "severityNumber", "severity_number", "levelno", "priority", "levelName",
)  # fmt: skip
"""Where a record's severity may stand, as a word or a number."""

PREFIXES = (
    "", "attributes.", "resource.attributes.", "resource.",
)  # fmt: skip
"""What may stand before a native path: the containers of exporters."""

FIELD_PATHS: dict[str, str] = {
    "request_model": (
        "request_model model model_name gen_ai.request.model request.model llm.model_name modelName "
        "providedModelName gen_ai.response.model llm.request.model model_id model_group "
        "served_model_name ai.model.id response.model body.model"
    ),
    "model_version": "model_version modelVersion model_revision revision",
    "trace_id": "trace_id traceId traceID trace.id context.trace_id otelTraceID dd.trace_id",
    "span_id": "span_id spanId spanID span.id context.span_id otelSpanID dd.span_id",
    "parent_span_id": "parent_span_id parentSpanId parent_id parentObservationId parent.id",
    "request_id": (
        "request_id requestId req_id request.id x_request_id x-request-id http.request_id "
        "gen_ai.response.id response_id response.id completion_id litellm_call_id rid"
    ),
    "session_id": (
        "session_id sessionId session.id conversation_id conversationId gen_ai.conversation.id thread_id"
    ),
    "tenant_id": "tenant_id tenantId tenant org_id organization_id team_id customer_id",
    "service_name": (
        "service_name service.name serviceName service resource.service.name app application app_name"
    ),
    "pod_name": ("pod_name k8s.pod.name kubernetes.pod_name kubernetes.pod.name pod resource.k8s.pod.name"),
    "gpu_uuid": "gpu_uuid gpu.uuid UUID DCGM_FI_DEV_UUID",
    "queue_id": "queue_id queueId",
    "batch_id": "batch_id batchId",
    "node_rank": "node_rank rank",
    "layer_id": "layer_id layer",
    "block_id": "block_id",
    "prompt_template_id": ("prompt_template_id prompt_id promptId template_id gen_ai.prompt.name promptName"),
    "prompt_version": "prompt_version promptVersion",
    "prompt_template_hash": "prompt_template_hash template_hash",
    "prompt_commit": "prompt_commit",
    "system_prompt_hash": "system_prompt_hash",
    "tokenizer_hash": "tokenizer_hash",
    "adapter_name": "adapter_name lora_name lora adapter lora_request.lora_name",
    "adapter_commit": "adapter_commit adapter_commit_hash",
    "schema_version": "schema_version log_schema_version",
    "intent_tag": "intent_tag intent",
    "body": (
        "body message msg log text event content delta log_message logMessage body.stringValue "
        "event.original MESSAGE line raw delta.content statusMessage"
    ),
    "prompt": (
        "prompt input question user_query query instruction user_input request.prompt prompt_text "
        "user_prompt gen_ai.prompt gen_ai.prompt.0.content input.value llm.prompts ai.prompt "
        "user_message inputs request"
    ),
    "response": (
        "response answer output completion chatgpt_response generated_text gen_ai.completion "
        "gen_ai.completion.0.content generation model_response assistant_response response_text "
        "output_text output.value ai.response.text reply outputs hallucinatedContinuation summary"
    ),
    "context": (
        "context contexts retrieved_context retrieved_contexts retrieved_chunks retrieved_chunks.text "
        "retrieved_chunks.content retrieved_documents documents documents.text documents.content "
        "documents.page_content document evidence knowledge passages passages.text passage "
        "chunks.text docs docs.text docs.content doc contexts.text contexts.content "
        "retrieval.documents.document.content source_documents source_documents.page_content "
        "reference_documents newsBeginning"
    ),
    "context_hint": "context_hint",
    "finish_reason": (
        "finish_reason finishReason gen_ai.response.finish_reasons choices.finish_reason stop_reason "
        "finished_reason llm.finish_reason"
    ),
    "error_type": (
        "error_type error.type exception.type error.class error_class error_information.error_class"
    ),
    "logger": "logger logger_name loggerName log.logger target module component",
    "process": "process process_name processName process.name",
    "pid": "pid process.pid process_id",
    "input_tokens": (
        "input_tokens prompt_tokens usage.prompt_tokens usage.input_tokens gen_ai.usage.input_tokens "
        "gen_ai.usage.prompt_tokens llm.token_count.prompt usage.promptTokens usageDetails.input "
        "num_prompt_tokens prompt_len input_length ContextTokens tokens_in input_len n_prompt_tokens "
        "ai.usage.promptTokens"
    ),
    "output_tokens": (
        "output_tokens completion_tokens usage.completion_tokens usage.output_tokens "
        "gen_ai.usage.output_tokens gen_ai.usage.completion_tokens llm.token_count.completion "
        "usage.completionTokens usageDetails.output num_generation_tokens generated_tokens "
        "output_length GeneratedTokens tokens_out output_len n_generated_tokens "
        "ai.usage.completionTokens"
    ),
    "input_chars": "input_chars prompt_chars",
    "max_model_len": "max_model_len",
    "max_output_tokens": (
        "max_output_tokens max_tokens gen_ai.request.max_tokens max_new_tokens max_completion_tokens "
        "request.max_tokens parameters.max_new_tokens"
    ),
    "batch_size": "batch_size running num_requests_running",
    "queue_length": "queue_length queue_len waiting num_requests_waiting queue_size",
    "duration_s": (
        "duration_s duration_ms*1e-3 duration_us*1e-6 duration_ns*1e-9 duration_seconds elapsed_s "
        "elapsed_ms*1e-3 duration"
    ),
    "e2e_latency_s": (
        "e2e_latency_s latency_s latency_ms*1e-3 latency_us*1e-6 e2e_latency_ms*1e-3 latency_seconds "
        "e2e_request_latency_seconds total_time_s total_time_ms*1e-3 total_latency_ms*1e-3 "
        "response_time_ms*1e-3 response_time total_time latency e2e_latency request_latency_ms*1e-3 "
        "request_time"
    ),
    "queue_time_s": (
        "queue_time_s queue_time_ms*1e-3 queue_ms*1e-3 queue_time_us*1e-6 request_queue_time_seconds "
        "queue_time wait_ms*1e-3"
    ),
    "time_to_first_token_s": (
        "time_to_first_token_s ttft_s ttft_ms*1e-3 ttft time_to_first_token_ms*1e-3 "
        "time_to_first_token time_to_first_token_seconds timeToFirstToken "
        "gen_ai.response.time_to_first_chunk first_token_ms*1e-3 gen_ai.server.time_to_first_token"
    ),
    "prefill_time_s": (
        "prefill_time_s prefill_ms*1e-3 prefill_time_ms*1e-3 request_prefill_time_seconds prefill_time"
    ),
    "decode_time_s": (
        "decode_time_s decode_ms*1e-3 decode_time_ms*1e-3 request_decode_time_seconds decode_time"
    ),
    "time_per_output_token_s": (
        "time_per_output_token_s tpot_s tpot_ms*1e-3 tpot time_per_output_token_ms*1e-3 "
        "time_per_output_token inter_token_latency_ms*1e-3 itl_ms*1e-3 inter_token_latency_seconds "
        "time_per_token gen_ai.server.time_per_output_token"
    ),
    "io_read_time_s": "io_read_time_s io_read_ms*1e-3",
    "net_send_time_s": "net_send_time_s net_send_ms*1e-3",
    "decode_step_latency_s": "decode_step_latency_s decode_step_latency_ms*1e-3 itl_list_ms*1e-3",
    "kv_blocks_used": "kv_blocks_used",
    "kv_blocks_total": "kv_blocks_total num_gpu_blocks",
    "kv_block_size": "kv_block_size block_size",
    "kv_cache_usage_ratio": (
        "kv_cache_usage_ratio kv_cache_usage kv_cache_usage_perc gpu_cache_usage_perc gpu_cache_usage "
        "token_usage kv_cache_usage_percent*1e-2"
    ),
    "kv_cache_hit_ratio": "kv_cache_hit_ratio kv_cache_hit_rate prefix_cache_hit_rate cache_hit_rate",
    "gpu_utilization_ratio": (
        "gpu_utilization_ratio gpu_utilization gpu_util gpu_utilization_percent*1e-2 "
        "gpu_util_percent*1e-2 DCGM_FI_DEV_GPU_UTIL*1e-2"
    ),
    "gpu_memory_used_bytes": ("gpu_memory_used_bytes gpu_memory_used_mb*1048576 gpu_memory_used_mib*1048576"),
    "gpu_memory_total_bytes": (
        "gpu_memory_total_bytes gpu_memory_total_mb*1048576 gpu_memory_total_mib*1048576"
    ),
    "gpu_temperature_c": (
        "gpu_temperature_c gpu_temperature gpu_temp_c gpu_temp temperature_gpu DCGM_FI_DEV_GPU_TEMP"
    ),
    "token_logprobs": (
        "token_logprobs logprobs.token_logprobs choices.logprobs.token_logprobs "
        "logprobs.content.logprob choices.logprobs.content.logprob logprobs "
        "response.choices.logprobs.content.logprob"
    ),
    "token_entropy_bits": "token_entropy_bits token_entropy",
    "attention_entropy": "attention_entropy attention_entropies attn_entropy attention.entropy",
    "token_scores": "token_scores",
    "guard_verdict": "guard_verdict guardrail.verdict guard.verdict",
    "guard_score": "guard_score guardrail.score guard.score",
    "retry_count": "retry_count retries",
    "quality_label": "quality_label",
}
"""Native paths by canonical field, best first; ``path*factor`` changes the unit."""
