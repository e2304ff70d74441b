"""Seeded events for the benchmarks: a day of bursty logs with vectors, and plain log lines.

Vectors form clusters, one a template, that drift over the day; templates are popular by Zipf's law and come in
bursts. No two vectors are equal, which is harder for a dictionary and easier for recall than real logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DAY_NS = 86_400 * 10**9
START_NS = 1_777_593_600 * 10**9
"""2026-05-01T00:00:00Z."""

MODELS = (
    "llama-3-8b",
    "qwen2-7b",
    "mistral-7b",
    "phi-3-mini",
    "gemma-2-9b",
    "llama-3-70b",
    "command-r",
    "yi-34b",
)

_VERBS = [
    "failed",
    "finished",
    "started",
    "retried",
    "dropped",
    "queued",
    "flushed",
    "evicted",
    "loaded",
    "stalled",
]
_THINGS = ["request", "block", "batch", "adapter", "cache", "prompt", "shard", "worker", "token", "stream"]
_TAILS = (
    "after timeout",
    "while decoding",
    "on prefill",
    "by scheduler",
    "for tenant",
    "with retry",
    "under pressure",
    "from peer",
    "in queue",
    "at startup",
)


@dataclass(slots=True)
class Events:
    """A table without its vectors, the vectors (float32, unit length), and query vectors near and between them."""

    table: pa.Table
    vectors: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]


def make_events(n: int, *, dim: int = 384, templates: int = 2000, seed: int = 7, queries: int = 20) -> Events:
    """Make `n` events over one day, in time order."""
    rng = np.random.default_rng(seed)
    ts = START_NS + np.sort(_bursty_times(rng, n))
    template = _bursty_templates(rng, n, templates)
    centroids = _unit(rng.standard_normal((templates, dim), np.float32))
    drift = _unit(rng.standard_normal((templates, dim), np.float32))
    vectors = np.empty((n, dim), np.float32)
    day = ((ts - START_NS) / DAY_NS).astype(np.float32)
    for lo in range(0, n, 65_536):
        hi = min(n, lo + 65_536)
        t = template[lo:hi]
        noise = rng.standard_normal((hi - lo, dim), np.float32) * (0.57 / np.sqrt(dim))
        vectors[lo:hi] = _unit(centroids[t] + 0.3 * day[lo:hi, None] * drift[t] + noise)
    near = _unit(
        vectors[rng.integers(0, n, queries // 2)]
        + rng.standard_normal((queries // 2, dim), np.float32) * 0.02
    )
    between = _unit(
        centroids[rng.integers(0, templates, queries - queries // 2)] + 0.5 * drift[: queries - queries // 2]
    )
    return Events(_table(rng, ts, template), vectors, np.concatenate([near, between]).astype(np.float32))


def _table(rng: np.random.Generator, ts: npt.NDArray[np.int64], template: npt.NDArray[np.int64]) -> pa.Table:
    n = len(ts)
    incident = (template % 17 == 3) & (rng.random(n) < 0.6)
    hallucination = np.where(incident, rng.beta(4, 3, n), rng.beta(1.2, 14, n))
    model = rng.integers(0, len(MODELS), n)
    message = [
        f"{_THINGS[t % 10]} {_VERBS[(t // 10) % 10]} {_TAILS[(t // 100) % 10]} unit{t} code={c}"
        for t, c in zip(template.tolist(), rng.integers(0, 10**6, n).tolist(), strict=True)
    ]
    return pa.table(
        {
            "ts": pa.array(ts),
            "request_id": pa.array([f"req-{i:012x}" for i in rng.permutation(n).tolist()]),
            "model": pa.DictionaryArray.from_arrays(pa.array(model.astype(np.int32)), pa.array(MODELS)),
            "message": pa.array(message),
            "hallucination": pa.array(hallucination),
            "attention_collapse": pa.array(rng.beta(2, 8, n)),
            "latency_ms": pa.array(rng.lognormal(5, 0.8, n)),
        }
    )


def make_lines(n: int, *, seed: int = 7, templates: int = 400) -> bytes:
    """Make `n` lines of a serving log in vLLM's format: repeated templates with new numbers, ids and addresses."""
    rng = np.random.default_rng(seed)
    template = _bursty_templates(rng, n, templates).tolist()
    numbers = rng.integers(0, 10**6, (n, 3)).tolist()
    lines = []
    for i, (t, (a, b, c)) in enumerate(zip(template, numbers, strict=True)):
        second = i * 86_400 // n
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        level = ("INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "WARNING", "ERROR")[t % 8]
        words = f"{_THINGS[t % 10]} {_VERBS[(t // 10) % 10]} {_TAILS[(t // 40) % 10]}"
        kind = "abcdefghijklmnopqrstuvwxyz"[t % 26] + "abcdefghijklmnopqrstuvwxyz"[(t // 26) % 26]
        lines.append(
            f"(EngineCore pid={4000 + t % 4}) {level} 05-01 {clock} [core.py:{100 + t}] stage {kind}: {words}, "
            f"request chatcmpl-{a:06x}{b:06x}, {c} tokens from 10.0.{a % 256}.{b % 256}:{c % 65536}"
        )
    return ("\n".join(lines) + "\n").encode()


def _bursty_times(rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
    rate = rng.lognormal(0, 0.8, 1440)
    minute = rng.choice(1440, n, p=rate / rate.sum())
    return minute.astype(np.int64) * 60 * 10**9 + rng.integers(0, 60 * 10**9, n)


def _bursty_templates(rng: np.random.Generator, n: int, templates: int) -> npt.NDArray[np.int64]:
    popularity = 1 / np.arange(1, templates + 1) ** 1.1
    lengths = rng.geometric(0.2, n)
    draws = rng.choice(templates, n, p=popularity / popularity.sum())
    return np.repeat(draws, lengths)[:n].astype(np.int64)


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    out: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return out
