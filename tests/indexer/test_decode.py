import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.indexer.recorder import Recorder
from treering.indexer import flatten
from treering.indexer.chunks import MAX_CHUNKS, exact_key
from treering.indexer.decode import Decoder
from treering.indexer.ingest import ingest
from treering.indexer.levels import code_of_word
from treering.indexer.lines import RawRows
from treering.indexer.mask import mask_key
from treering.storage.batch import PART_FIELDS, ColumnBatch, RawBatch, Source
from treering.storage.errors import DamageError
from treering.storage.residual import MAX_ORIGINAL, RESIDUAL, column_of, unpack_cells

_DATA = Path(__file__).parents[2].parent / "shared" / "data"


def _raw(*records: bytes, reader: str = "jsonl", **options: object) -> RawBatch:
    rows = RawRows()
    for i, record in enumerate(records):
        rows.add(record, i, 0, 10 * i, i + 1)
    return rows.to_raw(Source("x", reader, options))


def _decode_file(path: Path) -> tuple[list[ColumnBatch], int, int, int]:
    if not path.exists():
        pytest.skip("the public logs are not here")
    ring = Recorder()
    report = ingest(ring, path)
    return (
        [Decoder()(raw, 0) for raw in ring.batches],
        report.accepted,
        report.joined + report.rejected,
        report.lines,
    )


def _column(batches: list[ColumnBatch], name: str) -> list[object]:
    return [
        v for b in batches for v in (b.columns[name].to_pylist() if name in b.columns else [None] * b.n_rows)
    ]


def test_system_columns_and_records_come_back() -> None:
    raw = _raw(b'{"msg":"a"}', b'{"msg":"b"}')
    columns = Decoder()(raw, 100).columns
    assert columns["seq"].to_pylist() == [100, 101]
    assert columns["ts"].to_pylist() == [0, 1]
    assert columns["record"].to_pylist() == [b'{"msg":"a"}', b'{"msg":"b"}']
    assert columns["source"].to_pylist() == ["x", "x"] and columns["reader"].to_pylist() == ["jsonl", "jsonl"]
    assert (columns["source_offset"].to_pylist(), columns["source_line"].to_pylist()) == ([0, 10], [1, 2])


def test_decoding_is_pure() -> None:
    raw = _raw(b"INFO 05-01 08:00:00 [a.py:1] x 1", b"plain", reader="text", formats=["vllm"])
    first, second = Decoder()(raw, 5), Decoder()(raw, 5)
    assert {k: v.to_pylist() for k, v in first.columns.items()} == {
        k: v.to_pylist() for k, v in second.columns.items()
    }
    assert (first.template == second.template).all()


def test_mixed_sources_are_laid_out_over_all_rows() -> None:
    raw = _raw(b'{"msg":"a","level":"info"}', b"ERROR 05-01 08:00:00 [a.py:1] b", b'{"n":1}')
    raw.sources = (Source("j", "jsonl"), Source("t", "text", {"formats": ["vllm"]}))
    raw.source = np.array([0, 1, 0], np.uint16)
    columns = Decoder()(raw, 0).columns
    assert columns["body"].to_pylist() == ["a", "b", None]
    assert columns["level"].to_pylist() == [3, 5, None]
    assert columns["logger"].to_pylist() == [None, "a.py:1", None]
    assert columns["n#i"].to_pylist() == [None, None, 1]
    assert columns["source"].to_pylist() == ["j", "t", "j"]


def test_parts_have_one_primary_and_the_right_keys() -> None:
    long = "Sentence number one. " * 200
    record = {"prompt": "why?", "response": long, "context": ["c1", "", "c2"], "msg": "took 5 ms"}
    batch = Decoder()(
        _raw(json.dumps(record).encode(), b'{"msg":"took 7 ms"}', b'{"n":1}', b'{"msg":" "}'), 0
    )
    parts = batch.parts
    told = [
        (int(r), PART_FIELDS[f], int(c), bool(p))
        for r, f, c, p in zip(parts.row, parts.field, parts.chunk, parts.primary, strict=True)
    ]
    assert told[0] == (0, "body", 0, False)
    assert told[1] == (0, "prompt", 0, False)
    assert [t[1:3] for t in told[2:-3]] == [("response", i) for i in range(len(told) - 5)]
    assert told[2][3] and not any(t[3] for t in told[3:-1])
    assert told[-3:] == [(0, "context", 0, False), (0, "context", 1, False), (1, "body", 0, True)]
    keys = [tuple(int(v) for v in key) for key in parts.key]
    assert keys[0] == keys[-1] == mask_key("took 9 ms")
    assert keys[-3:-1] == [exact_key("c1"), exact_key("c2")]
    assert tuple(int(v) for v in batch.template[1]) == mask_key("took 9 ms")
    assert [tuple(int(v) for v in key) for key in batch.template[2:]] == [(0, 0), (0, 0)]


def test_embedded_chunks_of_a_field_are_bounded() -> None:
    batch = Decoder()(_raw(json.dumps({"response": "word " * 200_000}).encode()), 0)
    assert len(batch.parts) == MAX_CHUNKS


def test_a_huge_line_is_decoded_within_a_few_times_its_size() -> None:
    import tracemalloc

    line = b"ERROR 05-01 08:00:00 [a.py:1] " + b"some words of a line. " * 400_000
    raw = _raw(line, reader="text", formats=["vllm"])
    Decoder()(_raw(line[:5000], reader="text", formats=["vllm"]), 0)  # compiled kernels are not the line's
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        batch = Decoder()(raw, 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(batch.parts) == MAX_CHUNKS and batch.columns["record"][0].as_py() == line
    assert peak_bytes + pa.total_allocated_bytes() - before < 5 * len(line)


def test_the_deepest_record_that_is_accepted_decodes() -> None:
    record = b'{"a":[' * 200 + b"1" + b"]}" * 200
    ring = Recorder()
    assert ingest(ring, io.BytesIO(record + b"\n")).accepted == 1
    assert Decoder()(ring.batches[0], 0).n_rows == 1


def test_an_empty_batch_decodes() -> None:
    batch = Decoder()(_raw(), 3)
    assert (batch.n_rows, len(batch.parts), len(batch.template)) == (0, 0, 0)
    assert batch.columns["ts"].type == pa.int64()


def test_an_unknown_reader_is_damage() -> None:
    with pytest.raises(DamageError, match="otlp9"):
        Decoder()(_raw(b"x", reader="otlp9"), 0)


@pytest.mark.parametrize("system", ["HDFS", "BGL", "OpenStack", "Zookeeper"])
def test_public_system_logs_agree_with_their_parsed_tables(system: str) -> None:
    folder = _DATA / "syslog-loghub" / system
    batches, accepted, others, lines = _decode_file(folder / f"{system}_2k.log")
    with (folder / f"{system}_2k.log_structured.csv").open(newline="", encoding="utf-8") as file:
        truth = list(csv.DictReader(file))
    assert (accepted, others, lines) == (len(truth), 0, len(truth))
    bodies = [str(body).strip() for body in _column(batches, "body")]
    if system == "BGL":  # the raw file was anonymised after the table was made
        same = sum(a == row["Content"].strip() for a, row in zip(bodies, truth, strict=True))
        assert same >= len(truth) - 40
    else:
        assert bodies == [row["Content"].strip() for row in truth]
    assert _column(batches, "level") == [code_of_word(row["Level"]) for row in truth]
    assert _column(batches, "ts") == [_truth_ns(system, row) for row in truth]
    if system in ("HDFS", "OpenStack"):
        assert _column(batches, "pid") == [int(row["Pid"]) for row in truth]
        assert _column(batches, "logger") == [row["Component"] for row in truth]


def _truth_ns(system: str, row: dict[str, str]) -> int:
    if system == "BGL":
        return int(row["Timestamp"]) * 10**9 + int(row["Time"].rpartition(".")[2]) * 1000
    if system == "HDFS":
        date, time = row["Date"], row["Time"]
        stamp = f"20{date[:2]}-{date[2:4]}-{date[4:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
    else:
        stamp = f"{row['Date']}T{row['Time'].replace(',', '.')}"
    return int(np.datetime64(stamp, "ns").astype(np.int64))


@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("vllm/vllm-0.25.1-laguna-nvfp4.log", 508),
        ("vllm/vllm-0.9.0.1-start.log", 78),
        ("vllm/router-prefixaware.ansi.log", 992),
        ("sglang/sglang-laguna-int4.log", 393),
        ("tgi/tgi-launcher.ansi.log", 34),
        ("triton/inference_server.cpu.head.log", 964),
        ("nccl/nccl-allreduce.log", 3142),
    ],
)
def test_public_serving_logs_keep_every_line(path: str, events: int) -> None:
    batches, accepted, others, lines = _decode_file(_DATA / path)
    data = (_DATA / path).read_bytes()
    assert accepted + others == lines == data.count(b"\n") + (not data.endswith(b"\n"))
    assert accepted == events
    bodies = [str(body) for body in _column(batches, "body")]
    assert not any("\x1b" in body for body in bodies)
    records: list[Any] = _column(batches, "record")
    kept = [part for record in records for part in bytes(record).split(b"\n") if part.strip()]
    assert sorted(kept) == sorted(line.removesuffix(b"\r") for line in data.split(b"\n") if line.strip())


def test_public_labelled_answers_are_all_taken() -> None:
    batches, accepted, others, _ = _decode_file(_DATA / "hallucination" / "halueval_general.jsonl")
    assert (accepted, others) == (2240, 0)
    prompts, responses = _column(batches, "prompt"), _column(batches, "response")
    assert None not in prompts and None not in responses
    n_primary = sum(int(b.parts.primary.sum()) for b in batches)
    assert n_primary == sum(1 for r, p in zip(responses, prompts, strict=True) if r or p)


def test_heads_of_a_layer_are_averaged() -> None:
    from treering.indexer.json_columns import json_columns

    records = [
        b'{"attention_entropy": [[0.2, 0.4], [0.6, 1.0]]}',
        b'{"attention_entropy": [0.5, 0.7]}',
        b"{}",
    ]
    got = json_columns(records)["attention_entropy"].to_pylist()
    assert got == [[pytest.approx(0.3), pytest.approx(0.8)], [0.5, 0.7], None]


def _wide_records() -> list[bytes]:
    rare: list[dict[str, Any]] = [
        {"model": "m1", "note": "rare text", "messages": [{"role": "user", "content": "hi"}]},
        {"severity": "ERROR", "text7": "more", "list7": ["a", None]},
        {
            "hallucination_score": 0.25,
            "gen_ai": {"evaluation": {"name": "Hallucination", "score": {"value": 0.5}}},
        },
        {"latency_ms": 12, "body": "own body"},
        {"a": {"b": 1}, "a.b": 2, "empty": {}, "nan": float("nan"), "big": 2**70, "list": ["x", "y"]},
    ]
    common = {f"c{i}": f"word {i}" for i in range(6)}
    records = [{**one, **common, f"new_{i}": i, f"say_{i}": f"says {i}"} for i, one in enumerate(rare * 3)]
    return [json.dumps(record).encode() for record in records]


def test_fields_beyond_the_cap_lie_in_the_residual_and_change_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = _raw(*_wide_records())
    whole = Decoder()(raw, 0)
    assert RESIDUAL not in whole.columns
    monkeypatch.setattr(flatten, "MAX_ORIGINAL", 6)
    capped = Decoder()(raw, 0)
    cells = unpack_cells(capped.columns.pop(RESIDUAL))
    assert {"new_3#i", "say_3#s", "note#s"} <= cells.keys()
    laid_out = {name: column_of(cells, name, raw.n_rows) for name in cells}
    assert not laid_out.keys() & capped.columns.keys()
    found = {**capped.columns, **laid_out}
    assert {n: [repr(v) for v in a.to_pylist()] for n, a in found.items()} == {
        n: [repr(v) for v in a.to_pylist()] for n, a in whole.columns.items()
    }
    np.testing.assert_array_equal(capped.parts.key, whole.parts.key)
    np.testing.assert_array_equal(capped.template, whole.template)


def test_thousands_of_distinct_keys_make_few_columns() -> None:
    raw = _raw(*(json.dumps({"message": "done", f"key_{i}": i}).encode() for i in range(2000)))
    batch = Decoder()(raw, 0)
    assert len(batch.columns) < MAX_ORIGINAL + 20
    cells = unpack_cells(batch.columns[RESIDUAL])
    present = {name for name in batch.columns if name.startswith("key_")} | cells.keys()
    assert present == {f"key_{i}#i" for i in range(2000)}
