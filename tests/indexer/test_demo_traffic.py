from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from treering.indexer.demo_traffic import AM, PM, SERVER, DemoTraffic, Incident, generate


@pytest.fixture(scope="module")
def traffic() -> DemoTraffic:
    return generate()


@pytest.fixture(scope="module")
def rows(traffic: DemoTraffic) -> list[dict[str, Any]]:
    """Every whole record of both request logs."""
    lines = gzip.decompress(traffic.files[AM]).split(b"\n") + traffic.files[PM].split(b"\n")
    return [json.loads(line) for line in lines if line.endswith(b"}")]


def in_window(rows: list[dict[str, Any]], incident: Incident) -> list[dict[str, Any]]:
    return [row for row in rows if row["request_id"] in incident.request_ids]


def test_the_seed_decides_every_byte(traffic: DemoTraffic) -> None:
    assert generate() == traffic
    assert generate(seed=8).files[PM] != traffic.files[PM]


def test_the_truth_counts_what_is_there(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    truth = traffic.truth
    assert len(rows) == truth.n_requests == 2406
    assert len({row["request_id"] for row in rows}) == truth.n_requests
    assert traffic.files[SERVER].count(b"out of blocks") == truth.n_out_of_blocks > 30
    assert truth.n_tracebacks == 1
    assert set(truth.refunds_chinese) == {row["request_id"] for row in rows if "退款" in row["prompt"]}
    assert len(truth.refunds_chinese) >= 5


def test_the_torn_record_is_the_only_one(traffic: DemoTraffic) -> None:
    lines = traffic.files[PM].split(b"\n")
    torn = [number for number, line in enumerate(lines, 1) if line and not line.endswith(b"}")]
    assert (traffic.truth.torn_file, torn) == (PM, [traffic.truth.torn_line])


def test_only_made_up_answers_lack_their_words_in_the_context(
    traffic: DemoTraffic, rows: list[dict[str, Any]]
) -> None:
    def is_grounded(row: dict[str, Any]) -> bool:
        answer = re.sub(r"^(According to the handbook: |In short: |根据手册：)", "", row["response"])
        first = re.split(r"(?<=[.。])", answer)[0]
        return any(first in passage for passage in row["context"])

    made_up = {row["request_id"] for row in rows if not is_grounded(row)}
    assert made_up == set(traffic.truth.made_up.request_ids)
    assert len(made_up) > 40


def test_attention_collapses_only_in_its_window(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    def late_mean(row: dict[str, Any]) -> float:
        entropies = row["attention_entropy"]
        late = entropies[-(len(entropies) // 3) :]
        return float(sum(late) / len(late))

    collapsed = {row["request_id"] for row in rows if late_mean(row) < 0.3}
    assert collapsed == set(traffic.truth.collapsed.request_ids)
    assert len(collapsed) > 20
    assert all(0 <= h <= 1 for row in rows for h in row["attention_entropy"])


def test_starved_requests_are_slow(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    starved = in_window(rows, traffic.truth.exhausted)
    others = [row["e2e_latency_s"] for row in rows if row not in starved]
    assert min(row["e2e_latency_s"] for row in starved) > sorted(others)[int(len(others) * 0.999)]


def test_one_session_reaches_its_models_limit(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    def usage(row: dict[str, Any]) -> float:
        return float(
            (row["usage"]["prompt_tokens"] + row["usage"]["completion_tokens"]) / row["max_model_len"]
        )

    full = [row for row in rows if usage(row) > 0.875]
    assert {row["request_id"] for row in full} == set(traffic.truth.jumped.request_ids)
    assert {row["session_id"] for row in full} == {traffic.truth.jumped_session}
    assert max(usage(row) for row in rows) < 1


def test_incidents_lie_in_their_windows(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    truth = traffic.truth
    for incident in (truth.made_up, truth.collapsed, truth.exhausted, truth.jumped):
        members = in_window(rows, incident)
        assert {row["model"] for row in members} == {incident.model}
        assert all(incident.covers(datetime.fromisoformat(row["timestamp"])) for row in members)


def test_records_are_in_order_and_split_at_noon(traffic: DemoTraffic, rows: list[dict[str, Any]]) -> None:
    times = [row["timestamp"] for row in rows]
    assert times == sorted(times)
    assert gzip.decompress(traffic.files[AM]).count(b"\n") == sum(t < "2026-03-17T12" for t in times)


def test_the_server_log_is_in_order_and_has_about_the_wanted_length(traffic: DemoTraffic) -> None:
    lines = traffic.files[SERVER].decode().split("\n")
    times = [m[1] for line in lines if (m := re.search(r"(03-17 \d\d:\d\d:\d\d)", line))]
    assert times == sorted(times)
    assert 4500 < len(lines) < 7500


def test_few_texts_are_distinct_so_that_the_demo_is_quick(rows: list[dict[str, Any]]) -> None:
    texts: set[str] = set()
    for row in rows:
        texts |= {row["prompt"], row["response"], *row["context"]}
        texts |= {
            s.strip() for text in (row["response"], *row["context"]) for s in re.split(r"(?<=[.。])", text)
        }
    assert len(texts) < 2500
    languages = Counter(any(ord(c) > 0x2E80 for c in row["prompt"]) for row in rows)
    assert languages[True] > 100


def test_files_are_written_where_asked(traffic: DemoTraffic, tmp_path: Path) -> None:
    paths = traffic.write(tmp_path)
    assert [p.relative_to(tmp_path).as_posix() for p in paths] == [AM, PM, SERVER]
    assert paths[1].read_bytes() == traffic.files[PM]
