"""Lines of a text log become events: what belongs together is joined, and every byte is in one of them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.indexer.reading_text import read_text
from treering.indexer.text_columns import text_columns
from treering.indexer.textlog import JOIN_LINES

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
    events, joined, lines = read_text(_BARE)
    assert [e.line for e in events] == [1, 12]
    assert (joined, lines) == (10, 12)
    assert events[0].record == _BARE.rpartition(b"\n2026")[0]


def test_joining_can_be_switched_off() -> None:
    events, joined, _ = read_text(_BARE, join=False)
    assert (len(events), joined) == (10, 2)  # the two blank lines belong to their neighbour all the same


def test_a_traceback_with_repeated_heads_is_one_event() -> None:
    head = b"ERROR 05-01 08:00:00 [async_llm.py:55] "
    text = b"".join(
        head + line + b"\n"
        for line in (b"task failed", b"Traceback (most recent call last):", b"  File x", b"E: y")
    )
    events, joined, _ = read_text(text + b"ERROR 05-01 08:00:01 [async_llm.py:55] another\n")
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
        events, joined, _ = read_text(text, step=step)
        assert joined == 9
        assert [e.record for e in events] == [b"\n".join(said(w, s) for s in steps) for w in (0, 1, 2)]


def test_a_join_does_not_reach_over_the_bounded_distance() -> None:
    head = b"ERROR 05-01 08:00:00 [a.py:5] "
    between = b"INFO 05-01 08:00:00 [b.py:6] tick\n" * (JOIN_LINES + 5)
    text = head + b"Traceback (most recent call last):\n" + between + head + b"unrelated\n"
    events, joined, _ = read_text(text)
    assert joined == 0 and events[-1].record == head + b"unrelated"


def test_lines_known_to_stand_alone_are_entries() -> None:
    text = (
        b"[2026-08-01 23:37:38] start\n"
        b"/x/launch.py:56: UserWarning: old\n  warnings.warn(\n"
        b"  2%|#         | 1/51 [00:00<?, ?it/s]\r  4%|#   | 2/51 [00:00<?, ?it/s]\n"
        b"[transformers] Unrecognized keys\n"
        b"[2026-08-01 23:37:39] args {\n    a: 1\n}\nplain continuation\n"
    )
    events, joined, lines = read_text(text)
    assert [e.line for e in events] == [1, 2, 4, 5, 6]
    assert joined + len(events) == lines == 9


def test_a_log_without_times_has_an_event_a_line_dated_by_the_file() -> None:
    text = (
        b"h:1:2 [0] NCCL INFO a\n  table 1 2\nTraceback (most recent call last):\n  File x\nE: y\n\nplain\n"
    )
    events, joined, lines = read_text(text, headed=False)
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
    events, _, _ = read_text(text)
    columns = text_columns([e.record for e in events], ["vllm"])
    assert columns["body"].to_pylist() == ["rate 812.4 t/s", "load 100% done", "link x"]
    assert columns["process"].to_pylist() == ["EngineCore", None, None]
    assert b"\n".join(e.record for e in events) + b"\n" == text


def test_bytes_that_are_no_utf8_are_replaced_in_the_text_only() -> None:
    head = b"INFO 05-01 08:00:01 [l.py:2] "
    records = [head + b"a\xff", head + b"ok\xc3", head + b"\xa9 split", head + "é".encode()]
    assert text_columns(records, ["vllm"])["body"].to_pylist() == ["a\ufffd", "ok\ufffd", "\ufffd split", "é"]


def test_a_huge_line_is_one_event() -> None:
    text = b"INFO 05-01 08:00:01 [l.py:2] " + b"x" * 3_000_000 + b"\nINFO 05-01 08:00:02 [l.py:2] y\n"
    events, _, _ = read_text(text, step=65536)
    assert [len(e.record) for e in events] == [3_000_029, 30]


def test_crlf_ends_are_no_part_of_records() -> None:
    events, _, _ = read_text(b"INFO 05-01 08:00:01 [l.py:2] a\r\nINFO 05-01 08:00:02 [l.py:2] b\r\n")
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
@examples(150)
def test_every_line_is_in_one_event_whatever_the_chunks(
    lines: list[bytes], step: int, join: bool, torn: bool
) -> None:
    text = b"\n".join(lines) + (b"" if torn else b"\n")
    if not text:
        return
    events, joined, n_lines = read_text(text, step=step, join=join)
    assert len(events) + joined == n_lines == text.count(b"\n") + (not text.endswith(b"\n"))
    kept = sorted(part for e in events for part in e.record.split(b"\n") if part.strip())
    assert kept == sorted(line.removesuffix(b"\r") for line in lines if line.strip())
    assert (events, joined) == read_text(text, join=join)[:2]
