"""Every known head of a line gives its time and what it says; lines without one are dated by others."""

import pytest

from tests.indexer.reading_text import read_text
from treering.indexer.lineheads import BY_NAME, detect, find
from treering.indexer.text_columns import text_columns


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
    ((event,), joined, lines) = read_text(line)
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
    events, _, _ = read_text(b"INFO 06-10 06:16:16 [a.py:1] first\n" + line + b"\n")
    assert [(e.ts, e.origin) for e in events] == [("2026-06-10T06:16:16", 0), ("2026-06-10T06:16:16", 1)]


def test_levels_come_from_heads_or_from_telling_beginnings() -> None:
    records = [
        b"INFO 05-01 08:00:01 [l.py:2] x",
        b"Warning: y",
        b"a.b.CudaError: z",
        b"Traceback (most recent call last):\nE",
        b"hm",
    ]
    assert text_columns(records, ["vllm"])["level"].to_pylist() == [3, 4, 5, 5, None]
