"""The log of a made-up vLLM server, in the line formats of recent versions."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

API, ENGINE = "APIServer pid=4121", "EngineCore pid=4188"
"""Process names that stand before each line."""

N_BLOCKS = 27_120
"""KV blocks of the server."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request that this server answered."""

    moment: datetime
    id: str


@dataclass(frozen=True, slots=True)
class ServerLog:
    """The text, and how often each thing that matters stands in it (records, not lines)."""

    text: str
    n_out_of_blocks: int
    n_tracebacks: int


@dataclass(frozen=True, slots=True)
class _Entry:
    moment: datetime
    lines: tuple[str, ...]


def server_log(
    rng: random.Random,
    served: Sequence[ServedRequest],
    *,
    day: datetime,
    exhausted: tuple[datetime, datetime],
    n_lines: int,
    model: str,
) -> ServerLog:
    """Write the log of one day. exhausted: `[start, end)` without a free KV block; then the engine dies."""
    starved = [request for request in served if exhausted[0] <= request.moment < exhausted[1]]
    rest = [
        *_banner(day, model),
        *_access(rng, served),
        *_preemptions(rng, starved, exhausted[1]),
        *_crash(exhausted[1]),
        *_banner(exhausted[1] + timedelta(minutes=3), model),
        *_noise(rng, day),
    ]
    n_rest = sum(len(entry.lines) for entry in rest)
    entries = [*rest, *_statistics(rng, served, day, exhausted, n_wanted=n_lines - n_rest)]
    entries.sort(key=lambda entry: entry.moment)
    text = "".join(line + "\n" for entry in entries for line in entry.lines)
    return ServerLog(
        text, n_out_of_blocks=text.count("out of blocks"), n_tracebacks=text.count("Traceback (most")
    )


def _line(process: str, level: str, moment: datetime, place: str, message: str) -> str:
    return f"({process}) {level} {moment:%m-%d %H:%M:%S} [{place}] {message}"


def _banner(moment: datetime, model: str) -> Iterator[_Entry]:
    """Start-up: what a server says before it takes requests."""
    messages = (
        (API, "api_server.py:1102", "vLLM API server version 0.14.0"),
        (API, "utils.py:233", f"non-default args: {{'model': '{model}', 'max_model_len': 8192}}"),
        (API, "model.py:541", "Resolved architecture: LlamaForCausalLM"),
        (
            ENGINE,
            "core.py:94",
            f"Initializing a V1 LLM engine (v0.14.0) with config: model='{model}', dtype=bfloat16",
        ),
        (ENGINE, "gpu_model_runner.py:3259", "Starting to load the weights of the model"),
        (ENGINE, "default_loader.py:308", "Loading weights took 9.84 seconds"),
        (ENGINE, "gpu_worker.py:359", "Available KV cache memory: 52.96 GiB"),
        (ENGINE, "kv_cache_utils.py:1287", f"GPU KV cache size: {N_BLOCKS * 16:,} tokens"),
        (ENGINE, "kv_cache_utils.py:1292", "Maximum concurrency for 8,192 tokens per request: 52.97x"),
        (API, "launcher.py:46", "Route: /v1/chat/completions, Methods: POST"),
    )
    for second, (process, place, message) in enumerate(messages):
        at = moment + timedelta(seconds=second)
        yield _Entry(at, (_line(process, "INFO", at, place, message),))
    yield _Entry(at, (f"({API}) INFO:     Application startup complete.",))


def _access(rng: random.Random, served: Sequence[ServedRequest]) -> Iterator[_Entry]:
    """One access line a request; this line has no time of its own."""
    for request in served:
        client = f"10.20.{rng.randrange(4)}.{rng.randrange(2, 250)}:{rng.randrange(32768, 61000)}"
        yield _Entry(
            request.moment, (f'({API}) INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK',)
        )


def _preemptions(rng: random.Random, starved: Sequence[ServedRequest], end: datetime) -> Iterator[_Entry]:
    """One to three warnings for each request that was waiting, all before `end`."""
    for request in starved:
        for _ in range(rng.randint(1, 3)):
            at = min(request.moment + timedelta(seconds=rng.uniform(1, 20)), end - timedelta(seconds=2))
            message = (
                f"KV cache is out of blocks ({rng.randrange(3)} of {N_BLOCKS} free): "
                f"request {request.id} is preempted and will be computed again."
            )
            yield _Entry(at, (_line(ENGINE, "WARNING", at, "scheduler.py:417", message),))


def _crash(moment: datetime) -> Iterator[_Entry]:
    """The engine dies; each line of the traceback repeats the head."""
    trace = (
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/vllm/v1/engine/core.py", line 861, in run_engine_core',
        "    engine_core.run_busy_loop()",
        '  File "/opt/vllm/vllm/v1/core/sched/scheduler.py", line 402, in schedule',
        "    raise RuntimeError(reason)",
        "RuntimeError: no KV block could be freed for any running request",
    )
    yield _Entry(moment, tuple(_line(ENGINE, "ERROR", moment, "core.py:870", line) for line in trace))
    later = moment + timedelta(seconds=1)
    message = "The engine process has ended, the API server shuts down."
    yield _Entry(later, (_line(API, "ERROR", later, "async_llm.py:704", message),))


def _noise(rng: random.Random, day: datetime) -> Iterator[_Entry]:
    """Warnings that mean little, spread over the day."""
    for _ in range(40):
        at = day + timedelta(seconds=rng.randrange(60, 86_000))
        message = rng.choice(
            (
                f"The client closed the connection after {rng.randrange(4, 90)} tokens.",
                f"Tokenizing {rng.randrange(2000, 7000)} prompt tokens took {rng.uniform(0.2, 0.9):.2f} s.",
                "The chat template ignores a system message after the first one.",
            )
        )
        yield _Entry(at, (_line(API, "WARNING", at, "serving_chat.py:288", message),))


def _statistics(
    rng: random.Random,
    served: Sequence[ServedRequest],
    day: datetime,
    exhausted: tuple[datetime, datetime],
    *,
    n_wanted: int,
) -> Iterator[_Entry]:
    """The periodic line, every 10 s or a multiple of it: throughput, running, waiting, KV usage."""
    if n_wanted <= 0:
        return
    step = max(10, 10 * round(86_400 / n_wanted / 10))
    for second in range(step, 86_400, step):
        at = day + timedelta(seconds=second)
        yield _Entry(at, (_line(API, "INFO", at, "loggers.py:273", _numbers(rng, served, at, exhausted)),))


def _numbers(
    rng: random.Random, served: Sequence[ServedRequest], at: datetime, exhausted: tuple[datetime, datetime]
) -> str:
    is_full = exhausted[0] <= at < exhausted[1]
    load = _load(served, at)
    running = 48 if is_full else rng.randint(0, 1 + load)
    waiting = rng.randint(9, 60) if is_full else 0
    usage = rng.uniform(98.2, 99.9) if is_full else min(70.0, 2 + 1.1 * load + rng.uniform(0, 6))
    return (
        f"Engine 000: Avg prompt throughput: {running * rng.uniform(30, 60):.1f} tokens/s, "
        f"Avg generation throughput: {running * rng.uniform(8, 22):.1f} tokens/s, Running: {running} reqs, "
        f"Waiting: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, "
        f"Prefix cache hit rate: {rng.uniform(31, 58):.1f}%"
    )


def _load(served: Sequence[ServedRequest], at: datetime) -> int:
    """Give the number of requests in the ten minutes before `at`."""

    def moment(request: ServedRequest) -> datetime:
        return request.moment

    start = bisect_left(served, at - timedelta(minutes=10), key=moment)
    return bisect_left(served, at, key=moment) - start
