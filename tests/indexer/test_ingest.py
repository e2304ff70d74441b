"""What is loaded is acknowledged in order, once, and where it was read."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.indexer.recorder import Recorder
from treering.indexer import sources
from treering.indexer.decode import Decoder
from treering.indexer.ingest import IngestOptions, IngestReport, Progress, ingest
from treering.storage.errors import ConfigError, InputError
from treering.storage.ring import Ring


def _counts(report: IngestReport) -> tuple[int, int, int]:
    return report.accepted, report.rejected, report.joined


def test_the_same_bytes_twice_add_nothing_whatever_the_name(tmp_path: Path) -> None:
    ring, path, copy = Recorder(), tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    data = b"".join(b'{"n":%d}\n' % i for i in range(2000))
    path.write_bytes(data)
    copy.write_bytes(gzip.compress(data))
    assert ingest(ring, path).accepted == 2000
    for again in (path, copy, io.BytesIO(data), io.BytesIO(gzip.compress(data))):
        report = ingest(ring, again)
        assert (report.accepted, report.skipped_bytes, report.sources) == (0, len(data), 0)
    assert ingest(ring, path, options=IngestOptions(again=True)).accepted == 2000


@given(st.lists(st.integers(1, 700), min_size=1, max_size=6), st.booleans())
@examples(25)
def test_a_growing_source_adds_only_what_is_new(steps: list[int], as_stream: bool) -> None:
    lines = [b'{"n":%d,"pad":"xxxxxxxxxx"}\n' % i for i in range(sum(steps))]
    ring, grown = Recorder(), 0
    for step in steps:
        grown += step
        data = b"".join(lines[:grown])
        ingest(ring, io.BytesIO(gzip.compress(data) if as_stream else data))
    assert ring.records == [line[:-1] for line in lines]
    assert [int(n) for raw in ring.batches for n in raw.line] == list(range(1, len(lines) + 1))


def test_sources_that_begin_alike_are_kept_apart() -> None:
    head = b'{"banner":"%s"}\n' % (b"x" * 5000)
    files = [head + b'{"run":%d}\n' % run for run in range(3)]
    ring = Recorder()
    assert [ingest(ring, io.BytesIO(data)).accepted for data in files] == [2, 2, 2]
    assert [ingest(ring, io.BytesIO(data)).accepted for data in files] == [0, 0, 0]
    assert ingest(ring, io.BytesIO(files[1] + b'{"more":1}\n')).accepted == 1


def test_a_torn_last_line_is_taken_whole_by_the_next_load(tmp_path: Path) -> None:
    path, ring = tmp_path / "app.jsonl", Recorder()
    path.write_bytes(b'{"id":1}\n{"id":2}\n{"id":3,"ts":"2026')
    assert _counts(ingest(ring, path)) == (2, 1, 0)
    path.write_bytes(b'{"id":1}\n{"id":2}\n{"id":3,"ts":"2026-05-01"}\n{"id":4}')
    report = ingest(ring, path)
    assert _counts(report) == (2, 0, 0)
    assert ring.records[2:] == [b'{"id":3,"ts":"2026-05-01"}', b'{"id":4}']
    assert [int(n) for n in ring.batches[-1].line] + [int(n) for n in ring.batches[-2].line] in (
        [4, 3],
        [3, 4],
        [4],
    )
    with path.open("ab") as file:
        file.write(b'\n{"id":5}\n')
    assert ingest(ring, path).accepted == 1
    assert int(ring.batches[-1].line[-1]) == 5


def test_a_truncated_and_rewritten_file_is_a_new_source(tmp_path: Path) -> None:
    path, ring = tmp_path / "a.log", Recorder()
    path.write_bytes(b"2026-05-01 00:00:00 INFO a\n" * 3)
    ingest(ring, path)
    path.write_bytes(b"2026-05-01 00:00:09 INFO b\n")
    assert ingest(ring, path).accepted == 1


def test_marks_and_crlf_are_no_part_of_fields_and_blank_lines_are_fine() -> None:
    ring = Recorder()
    data = b'\xef\xbb\xbf{"id":1}\r\n\r\n{"id":2}\r\n'
    report = ingest(ring, io.BytesIO(data))
    assert _counts(report) == (2, 0, 0)
    assert ring.records == [b'{"id":1}', b'{"id":2}']
    assert [int(o) for o in ring.batches[0].offset] == [3, 15]
    assert ingest(ring, io.BytesIO(data)).accepted == 0


def test_strict_stops_at_the_first_bad_record_with_its_place() -> None:
    ring = Recorder()
    with pytest.raises(InputError, match=r"stream:2: column 6"):
        ingest(ring, io.BytesIO(b'{"a":1}\n{"b":\n{"c":1}\n'), options=IngestOptions(strict=True))
    assert not ring.rejected  # the source is taken up to it, so that a mended one goes on there


def test_warnings_name_what_was_assumed(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"INFO 05-01 08:00:00 [a.py:1] x\n")
    warnings = ingest(Recorder(), path).warnings
    assert any("without a year" in w for w in warnings) and any("read as UTC" in w for w in warnings)
    data = b'{"a":1,"a":2,"ts":"2190-01-01T00:00:00Z"}\n{"b":1}\n'
    warnings = ingest(Recorder(), io.BytesIO(data)).warnings
    assert [w.partition(": ")[2] for w in warnings] == [
        "1 record with a key twice; the last value counts",
        "1 record without a usable time, dated at the load",
        "1 time more than a day ahead of now",
    ]


def test_zone_and_year_options_set_the_instants() -> None:
    ring = Recorder()
    options = IngestOptions(tz="Asia/Shanghai", year=2024)
    ingest(ring, io.BytesIO(b"INFO 05-01 08:00:00 [a.py:1] x\n"), options=options)
    assert ring.batches[-1].ts_ns.tolist() == [1714521600 * 10**9]
    ingest(ring, io.BytesIO(b'{"ts":"2024-05-01 08:00:00"}\n'), options=options)
    assert [raw for raw in ring.batches if raw.n_rows][-1].ts_ns.tolist() == [1714521600 * 10**9]


def test_logs_without_times_are_dated_as_told() -> None:
    ring = Recorder()
    ingest(ring, io.BytesIO(b"plain\nlines\n"), options=IngestOptions(base_time="2026-05-01T00:00:00Z"))
    times = [int(t) for raw in ring.batches for t in raw.ts_ns]
    assert times == [1777593600 * 10**9] * 2


def test_unknown_options_are_errors() -> None:
    with pytest.raises(ConfigError, match="xml"):
        ingest(Recorder(), io.BytesIO(b""), options=IngestOptions(reader="xml"))
    with pytest.raises(ConfigError, match="never"):
        ingest(Recorder(), io.BytesIO(b"x\n"), options=IngestOptions(base_time="never"))


def test_progress_ends_at_the_whole_source() -> None:
    seen: list[Progress] = []
    ingest(Recorder(), io.BytesIO(b'{"a":1}\n' * 10), progress=seen.append)
    assert (seen[-1].taken_bytes, seen[-1].accepted) == (80, 10)


def test_small_reads_of_a_pipe_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b"2026-05-01 00:00:%02d INFO line\n  more\n" % (i % 60) for i in range(100))
    whole, pieces = Recorder(), Recorder()
    ingest(whole, io.BytesIO(data))
    monkeypatch.setattr(sources, "CHUNK_BYTES", 7)
    report = ingest(pieces, io.BytesIO(data))
    assert whole.records == pieces.records
    assert report.accepted + report.joined == report.lines == 200


def test_a_real_store_takes_and_gives_back_each_record(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b'{"id":1,"ts":"2026-05-01T08:00:00Z","msg":"a 1"}\nbad\n'
        b'{"id":2,"ts":"2026-05-01T08:00:01Z","msg":"a 2"}\n'
    )
    ring = Ring.open(tmp_path / "ring", decoder=Decoder())
    report = ingest(ring, path)
    assert _counts(report) == (2, 1, 0)
    assert [r.record for r in ring.rejects()] == [b"bad"]
    ring.close()
    ring = Ring.open(tmp_path / "ring", decoder=Decoder())
    assert ingest(ring, path).skipped_bytes == path.stat().st_size
    snapshot = ring.snapshot()
    assert snapshot.n_rows == 2
    assert sorted(v for part in snapshot.parts for v in part.column("msg#s").to_pylist()) == ["a 1", "a 2"]
    snapshot.close()
    ring.close()


def test_strict_stores_what_stands_before_the_fault_and_no_more(tmp_path: Path) -> None:
    import treering as tr

    file = tmp_path / "rows.jsonl"
    file.write_text('{"id":1}\n{"id":2}\nnot json\n{"id":3}\n', encoding="utf-8")
    with tr.open(tmp_path / "ring") as store:
        with pytest.raises(InputError, match=r"rows\.jsonl:3: .*what stands before it is stored"):
            store.ingest(file, strict=True, embed=False)
        assert [row["id"] for row in store.query("sort by seq fields id")] == [1, 2]
        file.write_text('{"id":1}\n{"id":2}\n{"id":4}\n{"id":3}\n', encoding="utf-8")
        assert store.ingest(file, strict=True, embed=False).accepted == 2
        assert [row["id"] for row in store.query("sort by seq fields id")] == [1, 2, 4, 3]


def test_a_map_to_no_canonical_field_is_refused_with_the_nearest(tmp_path: Path) -> None:
    import treering as tr

    file = tmp_path / "rows.jsonl"
    file.write_text('{"answer":"x"}\n', encoding="utf-8")
    with tr.open(tmp_path / "ring") as store, pytest.raises(ConfigError, match="did you mean response"):
        store.ingest(file, map={"respons": "answer"}, embed=False)


def test_an_empty_path_is_refused_and_a_store_is_no_source(tmp_path: Path) -> None:
    import treering as tr

    (tmp_path / "rows.jsonl").write_text('{"id":1}\n', encoding="utf-8")
    with tr.open(tmp_path / "ring") as store:
        with pytest.raises(InputError, match="an empty path"):
            store.ingest("", embed=False)
        assert store.ingest(tmp_path, embed=False).accepted == 1
