"""Inputs that broke other tools: each is taken as a right tool takes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.recorder import Recorder
from treering.indexer.decode import Decoder
from treering.indexer.ingest import IngestReport, ingest

_TRIALS = Path(__file__).parents[2].parent / "shared" / "trials"


def _load(number: str) -> tuple[IngestReport, dict[str, list[Any]], Any]:
    found = sorted(_TRIALS.glob(f"{number}-*")) if _TRIALS.is_dir() else []
    if not found:
        pytest.skip("these inputs are not here")
    expected = json.loads((found[0] / "expect.json").read_text())
    names = [name for name in expected["inputs"] if not name.endswith((".csv", ".part"))]
    ring = Recorder()
    report = ingest(ring, [found[0] / name for name in names])
    columns: dict[str, list[Any]] = {}
    for raw in ring.batches:
        batch = Decoder()(raw, 0)
        before = len(columns.get("ts", []))
        for name in {*batch.columns, *columns}:
            values = batch.columns[name].to_pylist() if name in batch.columns else [None] * batch.n_rows
            columns[name] = columns.get(name, [None] * before) + values
    return report, columns, expected["ingest"]


@pytest.mark.parametrize(
    "number",
    [
        "01",
        "03",
        "06",
        "09",
        "10",
        "12",
        "13",
        "14",
        "21",
        "25",
        "26",
        "29",
        "34",
        "39",
        "40",
        "41",
        "42",
        "44",
        "46",
        "48",
        "50",
        "57",
        "58",
        "61",
    ],
)
def test_every_record_is_taken(number: str) -> None:
    report, _, expected = _load(number)
    assert (report.accepted, report.rejected) == (expected["accepted"], expected["rejected"])


def test_nan_rows_are_read() -> None:
    report, columns, _ = _load("08")
    assert (report.accepted, report.rejected) == (5, 0)
    assert columns["hallucination_rate#f"][0] == 0.42 and columns["hallucination_rate#s"][4] == "NaN"


def test_bad_lines_are_reported_with_their_numbers() -> None:
    ring = Recorder()
    _load("38")
    report = ingest(ring, next(_TRIALS.glob("38-*")) / "input.jsonl")
    assert [reject.line for reject in ring.rejects()] == [2, 3, 5, 6, 9]
    assert report.accepted == 4


def test_large_integers_keep_each_digit() -> None:
    _, columns, _ = _load("09")
    assert columns["req#i"] == [9224851642388483, 9224851642388484, 9007199254740993, 9007199254740992]
    assert columns["big#z"] == [None, None, "18446744073709551615", "123456789012345678901234567890"]


def test_offsets_inside_times_are_heeded() -> None:
    _, columns, _ = _load("12")
    by_time = sorted(zip(columns["ts"], columns["id#i"], strict=True))
    assert [row for _, row in by_time] == [1, 5, 2, 4, 7, 3, 6]


def test_pictures_are_marked_once_and_kept_in_the_record() -> None:
    _, columns, _ = _load("21")
    texts = [value for name, values in columns.items() if name != "record" for value in values]
    assert not any("MFV6n8TpDjNYfaLH7BE2W4Cl" in str(text) for text in texts)
    assert any("<image/png 58.6 KiB sha256:" in str(text) for text in texts)
    assert b"MFV6n8TpDjNYfaLH7BE2W4Cl" in columns["record"][0]


def test_half_characters_are_replaced_everywhere() -> None:
    _, columns, _ = _load("34")
    assert columns["body"][:3] == ["smile \ufffd", "\ufffd done", "pair 😀 ok"]
    assert columns["\ufffdkey#s"][3] == "odd key"


def test_tracebacks_are_events_with_their_level() -> None:
    report, columns, _ = _load("29")
    assert report.joined == 15
    assert columns["level"] == [5, 3, 5, 3]
    assert "worker failed" in columns["body"][2] and "ZeroDivisionError" in columns["body"][2]


def test_both_spellings_of_a_path_are_one_column() -> None:
    _, columns, _ = _load("39")
    assert columns["gen_ai.request.model#s"] == ["llama", "llama", "llama", "qwen", None]
    assert columns["a.b#i"][4] == 2
