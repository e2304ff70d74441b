from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.indexer.clocks import Clock
from treering.indexer.lineheads import BY_NAME, detect, find
from treering.indexer.text_columns import text_columns
from treering.indexer.textlog import JOIN_LINES, TextReader
from treering.storage.batch import Source

_LATEST_S = int(datetime(2026, 8, 5, tzinfo=UTC).timestamp())


@dataclass(frozen=True)
class Event:
    line: int
    origin: int
    ts: str
    record: bytes


def _read(
    text: bytes, *, step: int = 1 << 20, join: bool = True, headed: bool = True
) -> tuple[list[Event], int, int]:
    formats = detect(text.split(b"\n"))
    source = Source("x.log", "text", {"formats": [f.name for f in formats]})
    reader = TextReader(source, formats, Clock(latest_s=_LATEST_S), first_ns=0, headed=headed, join=join)
    batches = [reader.feed(text[i : i + step]) for i in range(0, len(text), step)] + [reader.finish()]
    events = []
    for batch in batches:
        raw = batch.raw
        for i in range(raw.n_rows):
            at = datetime.fromtimestamp(int(raw.ts_ns[i]) / 1e9, UTC).replace(tzinfo=None).isoformat()
            events.append(Event(int(raw.line[i]), int(raw.ts_origin[i]), at, raw.record(i)))
            start = int(raw.offset[i])
            first = raw.record(i).split(b"\n")[0]
            assert text[start : start + len(first)] == first
    assert batches[-1].offset == len(text)
    return events, sum(b.n_joined for b in batches), sum(b.n_lines for b in batches)


@pytest.mark.parametrize(
    ("line", "name", "ts", "said", "body"),
    [
        (
            b"(APIServer pid=23) INFO 08-01 21:24:09 [loggers.py:273] Engine 000: ok",
            "vllm",
            "2026-08-01T21:24:09",
            {"severity": b"INFO", "process": b"APIServer", "pid": b"23", "logger": b"loggers.py:273"},
            "Engine 000: ok",
        ),
        (
            b"(Worker pid=312) (Worker_TP0 pid=313) WARNING 08-01 21:24:09 [a/b.py:2] m",
            "vllm",
            "2026-08-01T21:24:09",
            {"severity": b"WARNING", "process": b"Worker_TP0", "pid": b"313", "logger": b"a/b.py:2"},
            "m",
        ),
        (
            b"svc-1  | (EngineCore pid=7) ERROR 08-01 21:24:09 [core.py:1] m",
            "vllm",
            "2026-08-01T21:24:09",
            {
                "service_name": b"svc-1",
                "process": b"EngineCore",
                "pid": b"7",
                "severity": b"ERROR",
                "logger": b"core.py:1",
            },
            "m",
        ),
        (
            b"INFO 06-10 06:16:16 [__init__.py:243] Automatically",
            "vllm",
            "2026-06-10T06:16:16",
            {"severity": b"INFO", "logger": b"__init__.py:243"},
            "Automatically",
        ),
        (
            b"INFO 12-27 16:38:01 metrics.py:467] Avg",
            "vllm",
            "2025-12-27T16:38:01",
            {"severity": b"INFO", "logger": b"metrics.py:467"},
            "Avg",
        ),
        (
            b"[2026-08-01 23:43:46 DP0 TP1] Prefill batch",
            "bracket",
            "2026-08-01T23:43:46",
            {"process": b"DP0 TP1"},
            "Prefill batch",
        ),
        (b"[2026-08-01 23:43:46] Decode batch", "bracket", "2026-08-01T23:43:46", {}, "Decode batch"),
        (
            b"[2025-06-27 00:37:17,262] INFO: routing",
            "bracket",
            "2025-06-27T00:37:17.262000",
            {"severity": b"INFO"},
            "routing",
        ),
        (
            b"2025-04-14T15:51:31.134585Z  INFO text_generation_launcher: Args {",
            "tracing",
            "2025-04-14T15:51:31.134585",
            {"severity": b"INFO", "logger": b"text_generation_launcher"},
            "Args {",
        ),
        (
            b"2025-04-14T15:52:02.679061Z ERROR text_router::server: router/src/server.rs:1672: Failed",
            "tracing",
            "2025-04-14T15:52:02.679061",
            {"severity": b"ERROR", "logger": b"text_router::server"},
            "Failed",
        ),
        (
            b"I0622 22:55:20.225446 6548 metrics.cc:228] Collecting",
            "glog",
            "2026-06-22T22:55:20.225446",
            {"severity": b"I", "pid": b"6548", "logger": b"metrics.cc:228"},
            "Collecting",
        ),
        (
            b"[rank0]:[W610 06:17:01.666789213 ProcessGroupNCCL.cpp:1476] Warning: x",
            "glog",
            "2026-06-10T06:17:01.666789",
            {"severity": b"W", "logger": b"ProcessGroupNCCL.cpp:1476"},
            "Warning: x",
        ),
        (
            b"2021-06-22T22:55:20Z I 6548 metrics.cc:228] m",
            "glog_iso",
            "2021-06-22T22:55:20",
            {"severity": b"I", "pid": b"6548", "logger": b"metrics.cc:228"},
            "m",
        ),
        (
            b"2021-06-22 22:55:20.728939: I tensorflow/core/a.cc:49] Opened",
            "tensorflow",
            "2021-06-22T22:55:20.728939",
            {"severity": b"I", "logger": b"tensorflow/core/a.cc:49"},
            "Opened",
        ),
        (
            b"2015-07-29 17:41:44,747 - INFO  [Peer[id=1]/0:0:2181:Fast@774] - Notification",
            "zookeeper",
            "2015-07-29T17:41:44.747000",
            {"severity": b"INFO", "logger": b"Peer[id=1]/0:0:2181:Fast@774"},
            "Notification",
        ),
        (
            b"2026-08-01 21:21:58,722 - INFO - autotuner.py:1351 - flashinfer",
            "python_dash",
            "2026-08-01T21:21:58.722000",
            {"severity": b"INFO", "logger": b"autotuner.py:1351"},
            "flashinfer",
        ),
        (
            b"2026-08-01 21:21:58,722 - app.db - ERROR - gone",
            "python_name",
            "2026-08-01T21:21:58.722000",
            {"severity": b"ERROR", "logger": b"app.db"},
            "gone",
        ),
        (
            b"2026-08-01 21:21:58.722 | INFO     | mod:func:12 - done",
            "loguru",
            "2026-08-01T21:21:58.722000",
            {"severity": b"INFO", "logger": b"mod:func:12"},
            "done",
        ),
        (
            b"081109 203615 148 INFO dfs.DataNode$X: Packet",
            "hdfs",
            "2008-11-09T20:36:15",
            {"pid": b"148", "severity": b"INFO", "logger": b"dfs.DataNode$X"},
            "Packet",
        ),
        (
            b"- 1117838570 2005.06.03 R02-M1 2005-06-03-15.42.50.675872 R02-M1 RAS KERNEL INFO cache",
            "bgl",
            "2005-06-03T22:42:50.675872",
            {"label": b"-", "node": b"R02-M1", "stream": b"RAS", "logger": b"KERNEL", "severity": b"INFO"},
            "cache",
        ),
        (
            b"n.log.1 2017-05-16 00:00:00.008 25746 INFO nova.wsgi [req-38-a b c - - -] GET",
            "openstack",
            "2017-05-16T00:00:00.008000",
            {"pid": b"25746", "severity": b"INFO", "logger": b"nova.wsgi", "request_id": b"req-38-a"},
            "GET",
        ),
        (
            b"Jun 14 15:16:01 combo sshd(pam_unix)[19939]: failed",
            "syslog",
            "2026-06-14T15:16:01",
            {"host": b"combo", "process": b"sshd(pam_unix)", "pid": b"19939"},
            "failed",
        ),
        (
            b"17/06/09 20:10:40 INFO executor.Backend: Got",
            "spark",
            "2017-06-09T20:10:40",
            {"severity": b"INFO", "logger": b"executor.Backend"},
            "Got",
        ),
        (
            b"2026-05-01 16:54:29 +0200 sched[869] DEBUG: b 2",
            "iso",
            "2026-05-01T14:54:29",
            {"process": b"sched", "pid": b"869", "severity": b"DEBUG"},
            "b 2",
        ),
        (b"2026-05-01T08:00:02Z warn: disk", "iso", "2026-05-01T08:00:02", {"severity": b"warn"}, "disk"),
        (
            b"2026-05-01 08:00:02 worker 3 raised ERROR now",
            "iso",
            "2026-05-01T08:00:02",
            {"severity": b"ERROR"},
            "worker 3 raised ERROR now",
        ),
        (
            b"2025-11-03T04:05:06.123456789Z stderr F plain INFO text",
            "container",
            "2025-11-03T04:05:06.123457",
            {"stream": b"stderr", "severity": b"INFO"},
            "plain INFO text",
        ),
        (
            b'10.0.0.1 - - [01/May/2026:08:00:00 +0200] "GET / HTTP/1.1" 200',
            "access",
            "2026-05-01T06:00:00",
            {},
            '10.0.0.1 - - [01/May/2026:08:00:00 +0200] "GET / HTTP/1.1" 200',
        ),
        (
            b"job 7 at 2026-05-01T08:00:00Z finished",
            "inner",
            "2026-05-01T08:00:00",
            {},
            "job 7 at 2026-05-01T08:00:00Z finished",
        ),
    ],
)
def test_every_head_is_understood(line: bytes, name: str, ts: str, said: dict[str, bytes], body: str) -> None:
    formats = detect([line])
    fmt = find(line, formats)
    assert fmt is not None and fmt.name == name
    match = fmt.pattern.match(line)
    assert match is not None and fmt.said(match.group(*fmt.roles)) == said
    ((event,), joined, lines) = _read(line)
    assert (event.ts, event.origin, event.record, joined, lines) == (ts, 0, line, 0, 1)
    assert text_columns([line], [f.name for f in formats])["body"].to_pylist() == [body]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'INFO:     127.0.0.1:58778 - "POST /v1 HTTP/1.1" 200 OK', "uvicorn"),
        (b"(APIServer pid=3) INFO:     Started server process [3]", "uvicorn"),
        (b"mew0:64904:64904 [0] NCCL INFO Bootstrap: Using", "nccl"),
        (b"(EngineCore pid=3) Loading weights", "prefix"),
    ],
)
def test_heads_without_a_time_take_the_line_before(line: bytes, name: str) -> None:
    assert find(line, detect([line])) is BY_NAME[name]
    events, _, _ = _read(b"INFO 06-10 06:16:16 [a.py:1] first\n" + line + b"\n")
    assert [(e.ts, e.origin) for e in events] == [("2026-06-10T06:16:16", 0), ("2026-06-10T06:16:16", 1)]


_BARE = b"""2026-05-01T08:00:02Z ERROR worker failed id=9
Traceback (most recent call last):
  File "/srv/a.py", line 3, in <module>
    1/0
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/b.py", line 8, in run
ValueError: wrapped
2026-05-01T08:00:03Z INFO next
"""


def test_a_bare_traceback_with_its_cause_is_one_event() -> None:
    events, joined, lines = _read(_BARE)
    assert [e.line for e in events] == [1, 12]
    assert (joined, lines) == (10, 12)
    assert events[0].record == _BARE.rpartition(b"\n2026")[0]


def test_joining_can_be_switched_off() -> None:
    events, joined, _ = _read(_BARE, join=False)
    assert (len(events), joined) == (10, 2)  # the two blank lines belong to their neighbour all the same


def test_a_traceback_with_repeated_heads_is_one_event() -> None:
    head = b"ERROR 05-01 08:00:00 [async_llm.py:55] "
    text = b"".join(
        head + line + b"\n"
        for line in (b"task failed", b"Traceback (most recent call last):", b"  File x", b"E: y")
    )
    events, joined, _ = _read(text + b"ERROR 05-01 08:00:01 [async_llm.py:55] another\n")
    assert [e.line for e in events] == [1, 5]
    assert joined == 3
    assert text_columns([events[0].record], ["vllm"])["body"].to_pylist() == [
        "task failed\nTraceback (most recent call last):\n  File x\nE: y"
    ]


def test_interleaved_workers_keep_their_tracebacks_apart() -> None:
    def said(worker: int, text: bytes) -> bytes:
        return b"(Worker_TP%d pid=%d) ERROR 05-01 08:00:00 [exec.py:9] %s" % (worker, worker, text)

    steps = [b"failed", b"Traceback (most recent call last):", b"  File a", b"RuntimeError: boom"]
    text = b"\n".join(said(worker, step) for step in steps for worker in (0, 1, 2)) + b"\n"
    for step in (1 << 20, 37):
        events, joined, _ = _read(text, step=step)
        assert joined == 9
        assert [e.record for e in events] == [b"\n".join(said(w, s) for s in steps) for w in (0, 1, 2)]


def test_a_join_does_not_reach_over_the_bounded_distance() -> None:
    head = b"ERROR 05-01 08:00:00 [a.py:5] "
    between = b"INFO 05-01 08:00:00 [b.py:6] tick\n" * (JOIN_LINES + 5)
    text = head + b"Traceback (most recent call last):\n" + between + head + b"unrelated\n"
    events, joined, _ = _read(text)
    assert joined == 0 and events[-1].record == head + b"unrelated"


def test_lines_known_to_stand_alone_are_entries() -> None:
    text = (
        b"[2026-08-01 23:37:38] start\n"
        b"/x/launch.py:56: UserWarning: old\n  warnings.warn(\n"
        b"  2%|#         | 1/51 [00:00<?, ?it/s]\r  4%|#   | 2/51 [00:00<?, ?it/s]\n"
        b"[transformers] Unrecognized keys\n"
        b"[2026-08-01 23:37:39] args {\n    a: 1\n}\nplain continuation\n"
    )
    events, joined, lines = _read(text)
    assert [e.line for e in events] == [1, 2, 4, 5, 6]
    assert joined + len(events) == lines == 9


def test_a_log_without_times_has_an_event_a_line_dated_by_the_file() -> None:
    text = (
        b"h:1:2 [0] NCCL INFO a\n  table 1 2\nTraceback (most recent call last):\n  File x\nE: y\n\nplain\n"
    )
    events, joined, lines = _read(text, headed=False)
    assert [e.line for e in events] == [1, 2, 3, 7]
    assert {e.origin for e in events} == {2}
    assert joined + len(events) == lines


def test_escapes_and_redraws_are_kept_in_the_record_and_gone_from_the_text() -> None:
    text = (
        b"\x1b[1;36m(EngineCore pid=4711)\x1b[0;0m INFO 05-01 08:00:00 [l.py:257] "
        b"rate \x1b[33m812.4\x1b[0m t/s\n"
        b"INFO 05-01 08:00:01 [l.py:2] load 10%\rload 50%\rload 100% done\n"
        b"INFO 05-01 08:00:01 [l.py:2] \x1b]8;;file:///a\x07link\x1b]8;;\x07 \x1b]0;title\x07x\n"
    )
    events, _, _ = _read(text)
    columns = text_columns([e.record for e in events], ["vllm"])
    assert columns["body"].to_pylist() == ["rate 812.4 t/s", "load 100% done", "link x"]
    assert columns["process"].to_pylist() == ["EngineCore", None, None]
    assert b"\n".join(e.record for e in events) + b"\n" == text


def test_bytes_that_are_no_utf8_are_replaced_in_the_text_only() -> None:
    head = b"INFO 05-01 08:00:01 [l.py:2] "
    records = [head + b"a\xff", head + b"ok\xc3", head + b"\xa9 split", head + "é".encode()]
    assert text_columns(records, ["vllm"])["body"].to_pylist() == ["a\ufffd", "ok\ufffd", "\ufffd split", "é"]


def test_levels_come_from_heads_or_from_telling_beginnings() -> None:
    records = [
        b"INFO 05-01 08:00:01 [l.py:2] x",
        b"Warning: y",
        b"a.b.CudaError: z",
        b"Traceback (most recent call last):\nE",
        b"hm",
    ]
    assert text_columns(records, ["vllm"])["level"].to_pylist() == [3, 4, 5, 5, None]


def test_a_huge_line_is_one_event() -> None:
    text = b"INFO 05-01 08:00:01 [l.py:2] " + b"x" * 3_000_000 + b"\nINFO 05-01 08:00:02 [l.py:2] y\n"
    events, _, _ = _read(text, step=65536)
    assert [len(e.record) for e in events] == [3_000_029, 30]


def test_crlf_ends_are_no_part_of_records() -> None:
    events, _, _ = _read(b"INFO 05-01 08:00:01 [l.py:2] a\r\nINFO 05-01 08:00:02 [l.py:2] b\r\n")
    assert [e.record[-3:] for e in events] == [b"] a", b"] b"]


_PIECES = st.sampled_from(
    [
        b"INFO 05-01 08:00:00 [a.py:1] m",
        b"(W pid=1) ERROR 05-01 08:00:00 [a.py:1] Traceback (most recent call last):",
        b"(W pid=1) ERROR 05-01 08:00:00 [a.py:1]   File",
        b"(V pid=2) ERROR 05-01 08:00:00 [a.py:1] Traceback (most recent call last):",
        b"(W pid=1) plain",
        b"(W pid=1) ",
        b"Traceback (most recent call last):",
        b"  indented",
        b"E: x",
        b"",
        b"\r 5%|x | 1/2 [0<1]",
        b"INFO:     1.2.3.4 - GET",
        b"2026-05-01 08:00:02 UTC x",
        b"INFO 13-45 08:00:00 [a.py:1] no date",
        b"\xff\xfe",
    ]
)


@given(st.lists(_PIECES, max_size=40), st.integers(1, 200), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_line_is_in_one_event_whatever_the_chunks(
    lines: list[bytes], step: int, join: bool, torn: bool
) -> None:
    text = b"\n".join(lines) + (b"" if torn else b"\n")
    if not text:
        return
    events, joined, n_lines = _read(text, step=step, join=join)
    assert len(events) + joined == n_lines == text.count(b"\n") + (not text.endswith(b"\n"))
    kept = sorted(part for e in events for part in e.record.split(b"\n") if part.strip())
    assert kept == sorted(line.removesuffix(b"\r") for line in lines if line.strip())
    assert (events, joined) == _read(text, join=join)[:2]
