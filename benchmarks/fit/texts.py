"""Texts to fit on: the generated corpus, and public data sets where a folder of them is given.

Only constants leave these scripts, never a text. LogHub is for evaluation alone: its licence allows
research use.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from treering.indexer import corpus

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SEED = 7
LOGS = ("vllm/*.log", "sglang/*.log", "triton/*.log", "nccl/*.log", "tgi/*.log")
MASK = re.compile(r"\x1b\[[0-9;]*m|0x[0-9a-f]+|\d+")
MAX_CHARS = 1000


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder of public data sets (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="fit and report, write nothing")
    return parser.parse_args()


def log_corpus(data: Path, *, n_public: int = 1200) -> tuple[list[str], str]:
    """Give texts of which most are log lines, and what they are: generated, and public logs if at hand."""
    generated = corpus.texts(1500, seed=SEED)
    public = _log_lines(data, n_public)
    note = f"generated corpus {corpus.CORPUS_ID} ({len(generated)} texts)"
    if public:
        note += f", logs of vLLM, SGLang, Triton, TGI and NCCL ({len(public)} lines)"
    return generated + public, note


def full_corpus(data: Path, *, n_each: int = 400) -> tuple[list[str], str]:
    """Give the log corpus and, where the data sets are there, questions, answers and documents."""
    sample, note = log_corpus(data)
    public = _answers(data, n_each)
    if public:
        note += f", {len(public)} texts of HaluEval, RefChecker, SummEdits and UHGEval"
    return sample + public, note


def loghub_exemplars(data: Path) -> list[tuple[str, str]]:
    """Give (template id, first line of it) of the LogHub samples: evaluation only."""
    first: dict[str, str] = {}
    for path in sorted(data.glob("syslog-loghub/*/*_structured.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                first.setdefault(f"{path.parent.name} {MASK.sub('0', row['Content'])}", row["Content"])
    return list(first.items())


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _answers(data: Path, n_each: int) -> list[str]:
    sets: tuple[tuple[str, Sequence[str]], ...] = (
        ("hallucination/halueval_general.jsonl", ("user_query", "chatgpt_response")),
        ("hallucination/refchecker/*.jsonl", ("response",)),
        ("hallucination/summedits_*.jsonl", ("doc", "summary")),
        ("hallucination/uhgeval_zh.jsonl", ("newsBeginning", "hallucinatedContinuation")),
    )
    found: list[str] = []
    for pattern, fields in sets:
        texts = {
            str(row[f])[:MAX_CHARS]: None
            for p in sorted(data.glob(pattern))
            for row in rows(p)
            for f in fields
        }
        found += random.Random(SEED).sample(list(texts), min(n_each, len(texts)))
    return found


def _log_lines(data: Path, n: int) -> list[str]:
    first: dict[str, str] = {}
    for pattern in LOGS:
        for path in sorted(data.glob(pattern)):
            for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
                line = line.rpartition("\r")[2].strip()
                if line:
                    first.setdefault(MASK.sub("0", line), line[:MAX_CHARS])
    lines = list(first.values())
    return random.Random(SEED).sample(lines, min(n, len(lines)))
