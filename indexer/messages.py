"""Chat requests and answers as plain text: OpenAI messages and choices, GenAI parts, JSON in strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from .blobs import mark_blobs

PROMPT_PATHS = (
    "messages", "input.messages", "request.messages", "request.body.messages", "body.messages", "input",
    "prompt", "gen_ai.input.messages", "attributes.gen_ai.input.messages", "ai.prompt.messages", "inputs",
    "prompts",
)  # fmt: skip
"""Where the messages of a request may lie."""

RESPONSE_PATHS = (
    "choices", "response.choices", "response.body.choices", "output.choices", "output.messages", "output",
    "response", "completion", "gen_ai.output.messages", "attributes.gen_ai.output.messages", "outputs",
)  # fmt: skip
"""Where the messages of an answer may lie."""


def prompt_of(record: Mapping[str, Any]) -> str | None:
    """Give the prompt of a record whose prompt is no plain string: its messages, one a line with roles."""
    for path in PROMPT_PATHS:
        messages = _messages(find(record, path))
        if messages:
            asked = messages[:-1] if _is_answered(messages) and path == "messages" else messages
            return _joined(asked)
    return None


def response_of(record: Mapping[str, Any]) -> str | None:
    """Give the answer of a record whose response is no plain string: the text of its choices or messages.

    Where there is none and the last of several `messages` is the assistant's, that is the answer.
    """
    for path in RESPONSE_PATHS:
        messages = _messages(find(record, path))
        if messages:
            text = "\n".join(text for text in map(_text, messages) if text)
            if text:
                return text
    messages = _messages(find(record, "messages"))
    return _text(messages[-1]) if _is_answered(messages) else None


def find(record: Mapping[str, Any], path: str) -> Any:
    """Give the value at a dotted path, spelled with dots or nested; None where there is none."""
    if path in record:
        return record[path]
    head, dot, tail = path.partition(".")
    while dot:
        inner = record.get(head)
        if isinstance(inner, Mapping):
            found = find(inner, tail)
            if found is not None:
                return found
        step, dot, tail = tail.partition(".")
        head = f"{head}.{step}"
    return None


def _messages(value: Any) -> list[Any]:
    """Give `value` as a list of messages; empty if it is none."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping):
        value = value.get("messages") or value.get("choices") or [value]
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, str) or _is_message(item)]


def _parsed(text: str) -> Any:
    if text[:1] not in ("[", "{"):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and any(
        key in item for key in ("content", "parts", "message", "text", "delta")
    )


def _is_answered(messages: list[Any]) -> bool:
    return len(messages) > 1 and isinstance(messages[-1], Mapping) and messages[-1].get("role") == "assistant"


def _joined(messages: list[Any]) -> str | None:
    texts = [(m.get("role") if isinstance(m, Mapping) else None, _text(m)) for m in messages]
    told = [(role, text) for role, text in texts if text]
    if len(told) == 1:
        return told[0][1]
    return "\n".join(f"{role}: {text}" if isinstance(role, str) else text for role, text in told) or None


def _text(message: Any) -> str:
    if isinstance(message, str):
        return mark_blobs(message)
    if not isinstance(message, Mapping):
        return ""
    for key in ("message", "delta"):
        if isinstance(message.get(key), Mapping):
            return _text(message[key])
    content = message.get("content", message.get("parts", message.get("text")))
    texts = [mark_blobs(text) for text in _contents(content)]
    texts += [_tool_call(call) for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
    return "\n".join(text for text in texts if text)


def _contents(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else [content]
    return [text for part in parts for text in _part(part)]


def _part(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    if not isinstance(part, Mapping):
        return []
    if part.get("type") in ("tool_call", "function_call"):
        return [_tool_call(part)]
    image = part.get("image_url")
    if isinstance(image, Mapping):
        return [str(image.get("url", ""))]
    for key in ("text", "content", "image_url", "result", "response", "data"):
        value = part.get(key)
        if isinstance(value, str):
            return [value]
        if isinstance(value, list | Mapping):
            return _contents(value)
    return []


def _tool_call(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    told = function if isinstance(function, Mapping) else call
    arguments = told.get("arguments", "")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments, default=str).decode()
    return f"{told.get('name', '')}({text})"
