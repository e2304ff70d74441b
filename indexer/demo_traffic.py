"""A made-up day of an LLM service, with incidents whose truth is known: for the demo, examples and tests."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .demo_server import ServedRequest, server_log
from .demo_texts import (
    ASKING,
    ASKING_CHINESE,
    LEADS,
    LEADS_CHINESE,
    MADE_UP,
    PASTED,
    Handbook,
    Passage,
    handbook,
)

DAY = datetime(2026, 3, 17, tzinfo=UTC)
"""The day that the traffic fills."""

HOURLY = (8, 6, 5, 4, 4, 6, 12, 26, 48, 62, 66, 60, 50, 58, 64, 66, 60, 52, 40, 34, 28, 22, 16, 11)
"""Relative number of requests in each hour of the day."""


@dataclass(frozen=True, slots=True)
class Model:
    """A served model. share: of the English requests; s_per_token: decoding time of one token, in seconds."""

    name: str
    n_layers: int
    max_model_len: int
    share: float
    s_per_token: float


LLAMA = Model("llama-3-8b-instruct", 32, 8192, 0.5, 0.021)
QWEN = Model("qwen2.5-7b-instruct", 28, 32768, 0.25, 0.018)
MISTRAL = Model("mistral-7b-instruct", 32, 32768, 0.25, 0.019)
MODELS = (LLAMA, QWEN, MISTRAL)


@dataclass(frozen=True, slots=True)
class Incident:
    """What went wrong, `[start, end)`, and the requests that show it."""

    model: str
    start: datetime
    end: datetime
    request_ids: tuple[str, ...] = ()

    def covers(self, moment: datetime) -> bool:
        """Whether `moment` lies inside."""
        return self.start <= moment < self.end


@dataclass(frozen=True, slots=True)
class Truth:
    """What was put into the traffic, so that answers can be checked.

    made_up: answers that their context does not support, after a wrong retrieval index was swapped in.
    collapsed: attention collapses onto few tokens and answers repeat. exhausted: the KV cache has no free
    block, requests of the model wait. jumped: one session whose context jumps to the model's limit.
    refunds_chinese: requests whose Chinese prompt asks for a refund. torn_file, torn_line: where the one
    broken record stands, 1-based.
    """

    made_up: Incident
    collapsed: Incident
    exhausted: Incident
    jumped: Incident
    jumped_session: str
    n_requests: int
    n_out_of_blocks: int
    n_tracebacks: int
    refunds_chinese: tuple[str, ...]
    torn_file: str
    torn_line: int


@dataclass(frozen=True, slots=True)
class DemoTraffic:
    """The files by relative name, and the truth about them."""

    files: dict[str, bytes]
    truth: Truth

    def write(self, directory: Path) -> list[Path]:
        """Write the files below `directory` and give their paths."""
        paths = []
        for name, content in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            paths.append(path)
        return paths


AM, PM, SERVER = "gateway/requests-am.jsonl.gz", "gateway/requests-pm.jsonl", "vllm/llama-3-8b.log"
"""Names of the files: the gateway's request log before and after its rotation at noon, a server's log."""

MADE_UP_WINDOW = Incident(MISTRAL.name, DAY + timedelta(hours=10), DAY + timedelta(hours=12))
COLLAPSE_WINDOW = Incident(
    QWEN.name, DAY + timedelta(hours=15, minutes=30), DAY + timedelta(hours=16, minutes=20)
)
EXHAUSTED_WINDOW = Incident(LLAMA.name, DAY + timedelta(hours=19), DAY + timedelta(hours=19, minutes=38))
JUMP_WINDOW = Incident(
    MISTRAL.name, DAY + timedelta(hours=13, minutes=10), DAY + timedelta(hours=13, minutes=40)
)


def generate(seed: int = 7, n_requests: int = 2400, n_server_lines: int = 6000) -> DemoTraffic:
    """Make the day. The same arguments give the same bytes, on every machine.

    n_requests: requests beside the few of the session that jumps. n_server_lines: about as many lines has the
    server log, by the spacing of its statistics (the access line of each request is always written).
    """
    rng = random.Random(seed)
    gateway = _Gateway(rng, handbook())
    rows = [gateway.request(moment) for moment in sorted(_moment(rng) for _ in range(n_requests))]
    rows = sorted([*rows, *gateway.jumping_session()], key=lambda row: str(row["timestamp"]))
    served = [
        ServedRequest(datetime.fromisoformat(row["timestamp"]), row["request_id"])
        for row in rows
        if row["model"] == LLAMA.name
    ]
    window = (EXHAUSTED_WINDOW.start, EXHAUSTED_WINDOW.end)
    log = server_log(rng, served, day=DAY, exhausted=window, n_lines=n_server_lines, model=LLAMA.name)
    noon = f"{DAY:%Y-%m-%d}T12"
    before = [row for row in rows if row["timestamp"] < noon]
    after = [row for row in rows if row["timestamp"] >= noon]
    torn_line = len(after) // 3 + 1
    lines = _json_lines(after)
    # The writer was killed in the middle of a record and began a new line when it came back.
    lines.insert(torn_line - 1, lines[torn_line - 1][: len(lines[torn_line - 1]) // 2])
    files = {
        AM: gzip.compress(_joined(_json_lines(before)), mtime=0),
        PM: _joined(lines),
        SERVER: log.text.encode(),
    }
    return DemoTraffic(
        files, _truth(rows, gateway.jumped_session, log.n_out_of_blocks, log.n_tracebacks, torn_line)
    )


def _truth(
    rows: Sequence[dict[str, Any]], session: str, n_out_of_blocks: int, n_tracebacks: int, torn_line: int
) -> Truth:
    def inside(window: Incident) -> Incident:
        ids = tuple(
            row["request_id"]
            for row in rows
            if row["model"] == window.model
            and row["session_id"] != session
            and window.covers(datetime.fromisoformat(row["timestamp"]))
        )
        return Incident(window.model, window.start, window.end, ids)

    jumped = tuple(
        row["request_id"]
        for row in rows
        if row["session_id"] == session and row["usage"]["prompt_tokens"] > 0.875 * row["max_model_len"]
    )
    return Truth(
        made_up=inside(MADE_UP_WINDOW),
        collapsed=inside(COLLAPSE_WINDOW),
        exhausted=inside(EXHAUSTED_WINDOW),
        jumped=Incident(JUMP_WINDOW.model, JUMP_WINDOW.start, JUMP_WINDOW.end, jumped),
        jumped_session=session,
        n_requests=len(rows),
        n_out_of_blocks=n_out_of_blocks,
        n_tracebacks=n_tracebacks,
        refunds_chinese=tuple(row["request_id"] for row in rows if "退款" in row["prompt"]),
        torn_file=PM,
        torn_line=torn_line,
    )


def _moment(rng: random.Random) -> datetime:
    hour = rng.choices(range(24), HOURLY)[0]
    return DAY + timedelta(hours=hour, microseconds=rng.randrange(3_600_000_000))


def _json_lines(rows: Iterable[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in rows]


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@dataclass(slots=True)
class _Session:
    """A conversation; its history makes the context longer with each turn."""

    id: str
    tenant: str
    model: Model
    is_chinese: bool
    history_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What was asked, found and answered."""

    prompt: str
    context: list[str]
    response: str


class _Gateway:
    """Writes one record a request; keeps the open sessions and counts the requests."""

    def __init__(self, rng: random.Random, book: Handbook) -> None:
        self._rng = rng
        self._book = book
        self._open: list[_Session] = []
        self._n = 0
        self.jumped_session = self._token("sess")

    def request(self, moment: datetime) -> dict[str, Any]:
        """Give the record of one request at `moment`, as the incidents of that time make it."""
        session = self._session()
        return self._record(moment, session, self._exchange(moment, session))

    def jumping_session(self) -> list[dict[str, Any]]:
        """Give the records of the session whose context jumps from little to nearly the model's limit."""
        session = _Session(self.jumped_session, "tenant-orchard", MISTRAL, is_chinese=False)
        minutes = (0, 3, 7, 12, 16, 19)
        rows = []
        for turn, minute in enumerate(minutes):
            moment = JUMP_WINDOW.start + timedelta(minutes=minute, microseconds=self._rng.randrange(10**6))
            exchange = self._exchange(moment, session)
            if turn >= 4:
                session.history_tokens = 29_400 + 900 * (turn - 4)
                exchange = _Exchange(PASTED[turn - 4], exchange.context, exchange.response)
            rows.append(self._record(moment, session, exchange))
        return rows

    def _session(self) -> _Session:
        rng = self._rng
        if self._open and rng.random() < 0.55:
            return rng.choice(self._open)
        is_chinese = rng.random() < 0.13
        model = QWEN if is_chinese else rng.choices(MODELS, [m.share for m in MODELS])[0]
        tenant = rng.choice(("tenant-orchard", "tenant-harbour", "tenant-quarry", "tenant-mill"))
        session = _Session(self._token("sess"), tenant, model, is_chinese)
        self._open = [*self._open[-59:], session]
        return session

    def _token(self, kind: str) -> str:
        return f"{kind}-{self._rng.getrandbits(48):012x}"

    def _exchange(self, moment: datetime, session: _Session) -> _Exchange:
        rng = self._rng
        pages = self._book.chinese if session.is_chinese else self._book.english
        page = rng.choice(pages)
        asking = rng.choice(ASKING_CHINESE if session.is_chinese else ASKING)
        question = page.question if asking.startswith(("Hello", "One")) else _capital(page.question)
        found = [page, *rng.sample([other for other in pages if other is not page], 2)]
        response = self._grounded(page, session)
        if session.model is MISTRAL and MADE_UP_WINDOW.covers(moment):
            found = rng.sample(self._book.notice_board, 3)
            response = _capital(rng.choice(MADE_UP).format(subject=page.subject))
        elif session.model is QWEN and COLLAPSE_WINDOW.covers(moment):
            response = self._repeated(page, session)
        rng.shuffle(found)
        return _Exchange(asking.format(question=question), [one.text for one in found], response)

    def _grounded(self, page: Passage, session: _Session) -> str:
        """Give an answer made of the passage's own sentences, in their order."""
        rng = self._rng
        n_taken = rng.randint(1, len(page.sentences))
        taken = sorted(rng.sample(range(len(page.sentences)), n_taken))
        lead = rng.choice(LEADS_CHINESE if session.is_chinese else LEADS)
        return lead + ("" if session.is_chinese else " ").join(page.sentences[i] for i in taken)

    def _repeated(self, page: Passage, session: _Session) -> str:
        """Give an answer that is caught in a loop."""
        sentence = page.sentences[0]
        piece = sentence[:6] if session.is_chinese else " ".join(sentence.split()[2:6]) + " "
        return sentence + piece * self._rng.randint(9, 14)

    def _record(self, moment: datetime, session: _Session, exchange: _Exchange) -> dict[str, Any]:
        rng, model = self._rng, session.model
        self._n += 1
        is_collapsed = model is QWEN and COLLAPSE_WINDOW.covers(moment)
        is_made_up = model is MISTRAL and MADE_UP_WINDOW.covers(moment) and session.id != self.jumped_session
        n_in = _n_tokens([exchange.prompt, *exchange.context]) + session.history_tokens + 60
        n_out = _n_tokens([exchange.response]) + rng.randint(0, 3)
        session.history_tokens = min(session.history_tokens + n_out + _n_tokens([exchange.prompt]), 4000)
        return {
            "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z",
            "level": "info",
            "message": "chat completion finished",
            "request_id": f"chatcmpl-{self._n:05d}{rng.getrandbits(32):08x}",
            "session_id": session.id,
            "tenant_id": session.tenant,
            "model": model.name,
            "max_model_len": model.max_model_len,
            "prompt": exchange.prompt,
            "context": exchange.context,
            "response": exchange.response,
            "finish_reason": "length" if is_collapsed else "stop",
            "usage": {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out},
            **self._latencies(moment, model, n_in, n_out),
            "token_logprobs": self._logprobs(0.02 if is_collapsed else 1.1 if is_made_up else 0.22),
            "attention_entropy": self._entropies(model.n_layers, is_collapsed=is_collapsed),
        }

    def _latencies(self, moment: datetime, model: Model, n_in: int, n_out: int) -> dict[str, float]:
        rng = self._rng
        is_starved = model is LLAMA and EXHAUSTED_WINDOW.covers(moment)
        queue_s = rng.uniform(6, 24) if is_starved else rng.expovariate(60)
        first_s = queue_s + 0.05 + n_in * 4.5e-5 * rng.uniform(0.8, 1.3)
        per_token_s = model.s_per_token * rng.uniform(0.85, 1.25) * (3 if is_starved else 1)
        return {
            "queue_time_s": round(queue_s, 4),
            "time_to_first_token_s": round(first_s, 4),
            "time_per_output_token_s": round(per_token_s, 5),
            "e2e_latency_s": round(first_s + n_out * per_token_s, 4),
        }

    def _logprobs(self, mean: float) -> list[float]:
        return [-round(self._rng.expovariate(1 / mean), 3) for _ in range(self._rng.randint(8, 14))]

    def _entropies(self, n_layers: int, *, is_collapsed: bool) -> list[float]:
        """Give the attention entropy of each layer, 0..1: falling with depth, to nearly 0 in a collapse."""
        rng = self._rng
        curve = [0.78 - 0.26 * layer / n_layers + rng.gauss(0, 0.02) for layer in range(n_layers)]
        if is_collapsed:
            first = n_layers // 2
            depth = rng.uniform(0.8, 0.93)
            curve = [
                h if i < first else h * (1 - depth * min(1, (i - first + 1) / 4)) for i, h in enumerate(curve)
            ]
        return [round(h, 3) for h in curve]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _n_tokens(texts: Iterable[str]) -> int:
    """Give about as many tokens as a tokenizer would: one a Chinese character, one for four others."""
    return sum(len(text) if ord(max(text, default="a")) > 0x2E80 else len(text) // 4 + 1 for text in texts)
