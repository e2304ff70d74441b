"""A generic corpus from a seed: lines of serving logs, prompts and answers, in English and some Chinese.

Models other than the default one get their constants from it, so it travels with the package. It only has
to spread over lengths, registers and topics; nobody reads it.
"""

from __future__ import annotations

import random

CORPUS_ID = "generated-1"
"""Name of this generator's output with its default arguments; changes with any change to it."""

_ENGINE_LINES = (
    "INFO {logger}:{n3}] Avg prompt throughput: {f1} tokens/s, Avg generation throughput: {f1} tokens/s, "
    "Running: {n2} reqs, Waiting: {n2} reqs, GPU KV cache usage: {f1}%, Prefix cache hit rate: {f1}%",
    "WARNING {logger}:{n3}] Sequence group {id} is preempted because there is not enough KV cache space",
    "ERROR engine core died while decoding request {id}: CUDA out of memory, tried to allocate {f1} GiB",
    "Received request {id}: prompt of {n4} tokens, max_tokens={n3}, temperature={f0}, adapter {adapter}",
    "Finished request {id} after {f1} s, {n3} output tokens, finish_reason={reason}",
    "Loading weights of {model} took {f1} seconds, {f1} GiB of memory used on rank {n1}",
    "Capturing graph shapes [{n2}, {n2}, {n3}] in {f1} secs for {model}",
    "I{n4} {clock} {n4} {file}.cc:{n3}] successfully loaded '{model}' version {n1}",
    "W{n4} {clock} {n4} {file}.cc:{n3}] failed to collect metrics of GPU {n1}: timeout after {n3} ms",
    "{host}:{n4}:{n4} [{n1}] NCCL INFO Channel {n2}/{n2} : {n1} -> {n1} via P2P/{transport}",
    "{host}:{n4}:{n4} [{n1}] NCCL WARN {verb} timed out on rank {n1} after {n4} ms, opCount {n3}",
    "Prefill batch, #new-seq: {n1}, #new-token: {n4}, #cached-token: {n3}, "
    "token usage: {f0}, #queue-req: {n2}",
    "Decode batch, #running-req: {n2}, #token: {n4}, token usage: {f0}, gen throughput (token/s): {f1}",
    'POST /v1/{route} HTTP/1.1" {status} {n4} {ip} {f0}s user-agent {agent}',
    "{component} restarted after {n2} retries: connection reset by peer while {doing}",
    "{component} health check failed with status {status}: upstream {host} did not answer within {n4} ms",
    "scheduler moved {n2} requests of tenant {tenant} to queue {queue} because {cause}",
    "tokenizer {model} truncated the prompt of {id} from {n4} to {n4} tokens",
    "guard blocked the answer to {id}: category {category}, score {f0}",
    "retrieved {n1} chunks for {id} from index {tenant} in {n3} ms, best score {f0}",
    "disk {file} at {n2}% on {host}, deleting checkpoints older than {n2} days",
    "Traceback (most recent call last): File {file}.py, line {n3}, in {verb}: {error}: {cause}",
    "pod {component}-{id} evicted from node {host}: {cause}",
    "kernel: [{f1}] {file} invoked oom-killer, process {n4} ({component}) score {n3}",
    "user {tenant} logged in from {ip} port {n4} via {agent}",
    "replication of block {id} to {ip} finished, size {n4}, {verb} took {f1} ms",
)

_QUESTIONS = (
    "Explain {topic} to {audience} in {n1} sentences.",
    "What are the main causes of {topic}, and how would you prevent them?",
    "Write a short story about {person} who learns about {topic} while {activity}.",
    "Compare {topic} with {topic} and say which one suits {audience} better.",
    "Summarise the following report on {topic} and name {n1} open questions.",
    "Translate this sentence about {topic} into plain language for {audience}.",
    "Why does {topic} matter when {activity}?",
    "Give me a list of {n1} facts about {topic} with one example each.",
    "I am {activity} and worried about {topic}; what should I do first?",
)

_SENTENCES = (
    "{Topic} is often misunderstood by {audience}, although the idea behind it is simple.",
    "First, {person} measured {topic} for {n2} days; afterwards the results were compared with {topic}.",
    "In {year}, about {n2} percent of cases were linked to {topic}.",
    "A practical example is {activity}, where {topic} decides whether the plan works.",
    "However, there is no evidence that {topic} alone explains the difference.",
    "The cost rose from {n3} to {n4} dollars once {topic} was taken into account.",
    "Before {activity}, make sure that {topic} has been checked by {person}.",
    "Many experts, {person} among them, recommend starting with {topic}.",
    "This changed when {person} began {activity} and wrote about {topic}.",
    "As a rule of thumb, {topic} should never take more than {n2} minutes.",
    "On the one hand {topic} saves time; on the other hand it needs care while {activity}.",
    "I'm sorry, but I cannot help with {topic} without knowing more about {topic}.",
    "The following function returns the {n1} largest values and ignores missing ones.",
)

_CHINESE = (
    "请用{n1}句话解释{zh_topic}，并举一个例子。",
    "{zh_topic}的主要原因是什么？怎样避免？",
    "首先，我们需要了解{zh_topic}；然后再讨论{zh_topic}。",
    "{year}年，约有{n2}%的情况与{zh_topic}有关。",
    "需要注意的是，目前没有证据表明{zh_topic}会影响{zh_topic}。",
    "推理服务报错：请求{id}超时，已重试{n1}次，原因是{zh_topic}。",
)

_WORDS: dict[str, tuple[str, ...]] = {
    "logger": ("[metrics.py", "[loggers.py", "[scheduler.py", "[engine.py", "[async_llm.py", "[worker.py"),
    "model": (
        "llama-3-8b",
        "qwen2-7b-instruct",
        "mixtral-8x7b",
        "bert_base",
        "whisper-large",
        "resnet50",
        "gemma-2b",
    ),
    "adapter": ("lora-math-v2", "lora-med-v1", "none", "lora-legal", "summaries-fr"),
    "reason": ("stop", "length", "abort", "content_filter"),
    "file": (
        "model_repository_manager",
        "metrics",
        "grpc_server",
        "cuda_memory_manager",
        "allocator",
        "trainer",
    ),
    "host": ("node17", "gpu-a100-03", "edge-2", "worker-9.cluster.local", "build7"),
    "transport": ("IPC", "direct pointer", "NET/IB", "SHM"),
    "verb": ("AllReduce", "broadcast", "forward", "load_state_dict", "encode", "flush", "commit"),
    "route": ("chat/completions", "completions", "embeddings", "models", "rerank"),
    "agent": ("curl/8.4", "python-httpx", "Mozilla/5.0", "okhttp/4.9"),
    "component": (
        "router",
        "gateway",
        "vector-store",
        "tokenizer-service",
        "kubelet",
        "cache",
        "rate-limiter",
    ),
    "doing": (
        "streaming the answer",
        "reading the model file",
        "waiting for a free slot",
        "renewing the lease",
    ),
    "tenant": ("acme", "north-bank", "clinic-4", "shop", "research"),
    "queue": ("interactive", "batch", "low-priority", "canary"),
    "cause": (
        "the quota was used up",
        "a certificate had expired",
        "the node lost its network",
        "the shape of the input did not match",
        "the disk was full",
        "another process held the lock",
    ),
    "error": ("ValueError", "RuntimeError", "KeyError", "TimeoutError", "ConnectionError", "AssertionError"),
    "category": ("self-harm", "personal data", "violence", "prompt injection", "medical advice"),
    "topic": (
        "photosynthesis",
        "the French Revolution",
        "compound interest",
        "gradient descent",
        "sleep",
        "vaccination",
        "contract law",
        "volcanoes",
        "chess openings",
        "memory leaks",
        "public transport",
        "bread baking",
        "black holes",
        "inflation",
        "online privacy",
        "migratory birds",
        "string theory",
        "unit testing",
        "the Silk Road",
        "high blood pressure",
        "jazz harmony",
        "solar panels",
        "ocean currents",
        "job interviews",
        "poetry",
        "electric cars",
        "football tactics",
        "database indexes",
        "ancient Rome",
        "climate policy",
        "wine",
        "machine translation",
    ),
    "audience": (
        "a child",
        "a new colleague",
        "small companies",
        "patients",
        "students",
        "tourists",
        "engineers",
    ),
    "person": (
        "Maria",
        "the engineer",
        "a retired teacher",
        "Dr. Chen",
        "the committee",
        "Ahmed",
        "her brother",
    ),
    "activity": (
        "moving to another city",
        "training a small model",
        "planning a wedding",
        "writing a thesis",
        "repairing an old bicycle",
        "running a marathon",
        "opening a restaurant",
        "debugging a server at night",
    ),
    "zh_topic": (
        "光合作用",
        "人工智能",
        "高血压",
        "通货膨胀",
        "显存不足",
        "丝绸之路",
        "新能源汽车",
        "数据库索引",
        "气候变化",
        "网络连接中断",
        "机器翻译",
        "篮球比赛",
    ),
}


def texts(n: int = 1500, *, seed: int = 7) -> list[str]:
    """Give `n` texts, the same for the same arguments: 60 % log lines, else prompts and answers."""
    rng = random.Random(seed)
    return [_text(rng) for _ in range(n)]


def log_lines(n: int, *, seed: int = 7) -> list[str]:
    """Give `n` log lines, the same for the same arguments."""
    rng = random.Random(seed)
    return [_filled(rng, rng.choice(_ENGINE_LINES)) for _ in range(n)]


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return _filled(rng, rng.choice(_ENGINE_LINES))
    if kind < 0.7:
        return _filled(rng, rng.choice(_QUESTIONS))
    source, gap = (_CHINESE, "") if kind > 0.92 else (_SENTENCES, " ")
    return gap.join(_filled(rng, rng.choice(source)) for _ in range(rng.choice((1, 1, 2, 3, 5, 8))))


def _filled(rng: random.Random, pattern: str) -> str:
    pieces = pattern.split("{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}")
        out.append(_value(rng, name))
        out.append(rest)
    return "".join(out)


def _value(rng: random.Random, name: str) -> str:
    if name == "Topic":
        word = rng.choice(_WORDS["topic"])
        return word[0].upper() + word[1:]
    if name in _WORDS:
        return rng.choice(_WORDS[name])
    return _number(rng, name)


def _number(rng: random.Random, name: str) -> str:
    if name == "id":
        return f"cmpl-{rng.getrandbits(48):012x}"
    if name == "ip":
        return ".".join(str(rng.randrange(256)) for _ in range(4))
    if name == "clock":
        return (
            f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**6):06}"
        )
    if name == "year":
        return str(rng.randrange(1850, 2026))
    if name == "status":
        return rng.choice(("200", "400", "404", "429", "500", "503"))
    if name == "f0":
        return f"{rng.random():.2f}"
    if name == "f1":
        return f"{rng.random() * 10 ** rng.randrange(1, 5):.1f}"
    return str(rng.randrange(10 ** int(name[1])))
