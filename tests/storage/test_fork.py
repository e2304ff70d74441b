"""A store in a process that was forked from the one that opened it: it does nothing there, and breaks nothing here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import treering as tr
from tests.kernel import run

FORK = """
import json, os, signal, sys, threading, time
import treering as tr

path = sys.argv[1]

def row(n):
    return {"n": n, "ts": 1_777_593_600 + n, "message": f"text {n}"}

def said(act):
    try:
        return repr(act())
    except tr.TreeringError as error:
        return f"{type(error).__name__}: {error}"

def child(act, *, leaves=os._exit):
    \"\"\"Do something in a child; gives what it returned.\"\"\"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w") as out:
            try:
                json.dump(act(), out)
            except BaseException as error:
                json.dump(f"raised {error!r}", out)
        leaves(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(told)

def numbers(store):
    return sorted(row["n"] for row in store.query("fields n"))

def files():
    return {
        os.path.join(place, name): os.stat(os.path.join(place, name)).st_size
        for place, _, names in os.walk(path)
        for name in names
    }
"""


def forked(program: str, path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run(FORK + program, path).stdout)
    return told


def stored(path: Path) -> list[int]:
    assert tr.check(path, deep=True).is_clean
    with tr.open(path, "r") as store:
        return sorted(row["n"] for row in store.query("fields n"))


def test_a_child_that_leaves_the_store_changes_nothing_and_lets_nobody_in(tmp_path: Path) -> None:
    told = forked(
        """
def life(number, leave, leaves):
    global path
    path = f"{sys.argv[1]}-{number}"
    store = tr.open(path)
    store.append([row(0)])
    before = files()

    def leave_and_look():
        leave(store)
        return said(lambda: tr.open(path).close())

    refused = child(leave_and_look, leaves=leaves)
    same = files() == before
    for n in range(1, 5):
        store.append([row(n)])
    store.close()
    return {"refused": refused, "same": same}

ways = [lambda store: store.close(), lambda store: store.__exit__(None, None, None), lambda store: None]
lives = [life(2 * n + k, way, end) for n, way in enumerate(ways) for k, end in enumerate((os._exit, sys.exit))]
print(json.dumps({"lives": lives}))
""",
        tmp_path / "ring",
    )
    assert len(told["lives"]) == 6
    for number, life in enumerate(told["lives"]):
        assert life["same"] and "writes to it" in life["refused"], life
        assert stored(tmp_path / f"ring-{number}") == [0, 1, 2, 3, 4]


def test_every_call_in_a_child_says_in_one_line_who_opened_the_store(tmp_path: Path) -> None:
    told = forked(
        """
store = tr.open(path)
store.append([row(n) for n in range(3)])
store.settle()
store.append([row(3)])
before = files()
calls = {
    "append": lambda: store.append([row(9)]),
    "ingest": lambda: store.ingest([row(9)], embed=False),
    "flush": store.flush,
    "settle": store.settle,
    "embed": store.embed,
    "compact": store.compact,
    "query": lambda: store.query("fields n").to_list(),
    "explain": lambda: store.explain("n = 1"),
    "sql": lambda: store.sql("select n from events"),
    "fields": store.fields,
    "stats": store.stats,
    "rejects": lambda: list(store.rejects()),
    "delete": lambda: store.delete("n = 1"),
    "preview": lambda: store.delete("n = 1", dry_run=True),
    "expire": lambda: store.expire(older_than="1d"),
    "audit": store.audit,
    "check": store.check,
    "repair": lambda: store.check(repair=True),
    "backup": lambda: store.backup(path + "-copy"),
    "reembed": lambda: store.reembed("none"),
    "abort_reembed": store.abort_reembed,
}
lines = child(lambda: {name: said(call) for name, call in calls.items()})
same = files() == before
store.append([row(4)])
after = numbers(store)
store.close()
print(json.dumps({"pid": os.getpid(), "lines": lines, "same": same, "after": after}))
""",
        tmp_path / "ring",
    )
    lines = told["lines"]
    assert isinstance(lines, dict) and len(lines) == 21
    for name, line in lines.items():
        assert f"opened in process {told['pid']}" in line, (name, line)
        assert line.startswith("StoreError: ") and "open it again here" in line and "\n" not in line
    assert told["same"] and told["after"] == [0, 1, 2, 3, 4]
    assert stored(tmp_path / "ring") == [0, 1, 2, 3, 4]
    assert not (tmp_path / "ring-copy").exists()


def test_events_of_a_child_that_appends_are_never_acknowledged(tmp_path: Path) -> None:
    told = forked(
        """
store = tr.open(path)
store.append([row(0)])
lines = child(lambda: [said(lambda: store.append([row(100 + n)])) for n in range(5)])
store.append([row(1)])
store.close()
print(json.dumps({"lines": lines}))
""",
        tmp_path / "ring",
    )
    assert all(line.startswith("StoreError") for line in told["lines"])
    assert stored(tmp_path / "ring") == [0, 1]


def test_a_call_in_a_child_does_not_wait_for_a_thread_that_only_the_parent_has(tmp_path: Path) -> None:
    told = forked(
        """
store = tr.open(path)
store.append([row(0)])
held, may_go = threading.Event(), threading.Event()

def hold():
    with store._ring._mutex, store._ring._writer.changing:
        held.set()
        may_go.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
lines = child(lambda: [said(store.flush), said(store.compact), said(store.close)])
may_go.set()
thread.join()
store.close()
print(json.dumps({"lines": lines}))
""",
        tmp_path / "ring",
    )
    first, second, closed = told["lines"]
    assert "opened in process" in first and "opened in process" in second and closed == "None"
    assert stored(tmp_path / "ring") == [0]


def test_a_child_that_lives_on_keeps_no_store_locked(tmp_path: Path) -> None:
    """Neither when the parent closes the store, nor when it is killed."""
    told = forked(
        """
def sleeper():
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid

store = tr.open(path)
store.append([row(0)])
first = sleeper()
store.close()
with tr.open(path) as again:
    again.append([row(1)])

read, write = os.pipe()
killed = os.fork()
if killed == 0:
    writer = tr.open(path)
    writer.append([row(2)])
    os.write(write, str(sleeper()).encode())
    os.close(write)
    signal.pause()
second = int(os.read(read, 20))
os.kill(killed, signal.SIGKILL)
os.waitpid(killed, 0)
with tr.open(path) as again:
    again.append([row(3)])
for pid in (first, second):
    os.kill(pid, signal.SIGKILL)
os.waitpid(first, 0)
print(json.dumps({}))
""",
        tmp_path / "ring",
    )
    assert told == {}
    assert stored(tmp_path / "ring") == [0, 1, 2, 3]


def test_a_reader_and_its_answers_work_in_both_processes_and_close_for_one(tmp_path: Path) -> None:
    told = forked(
        """
with tr.open(path) as store:
    store.append([row(n) for n in range(4)])
reader = tr.open(path, "r")
answer = reader.query("n >= 1 fields n, message")

def look():
    seen = [numbers(reader), [row["n"] for row in answer]]
    reader.close()
    return seen

mine = child(look, leaves=sys.exit)
with tr.open(path) as store:
    store.append([row(4)])
    store.compact()
theirs = [numbers(reader), [row["n"] for row in answer]]
reader.close()
print(json.dumps({"child": mine, "parent": theirs}))
""",
        tmp_path / "ring",
    )
    assert told == {"child": [[0, 1, 2, 3], [1, 2, 3]], "parent": [[0, 1, 2, 3, 4], [1, 2, 3]]}


def test_what_an_answer_of_a_child_needs_stays_when_the_parent_is_done_with_it(tmp_path: Path) -> None:
    told = forked(
        """
with tr.open(path) as store:
    store.append([row(n) for n in range(4)])
reader = tr.open(path, "r")
answer = reader.query("fields n, message")
go_on, may_go_on = os.pipe()
result, give = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(go_on, 1)
    os.write(give, json.dumps([row["message"] for row in answer]).encode())
    os._exit(0)
del answer
reader.close()
with tr.open(path) as store:
    receipt = store.delete("n = 1")
os.write(may_go_on, b".")
seen = json.loads(os.read(result, 1000))
os.waitpid(pid, 0)
with tr.open(path) as store:
    left = store.compact().held
print(json.dumps({"erased": receipt.erased, "seen": seen, "left": left}))
""",
        tmp_path / "ring",
    )
    assert told == {"erased": False, "seen": [f"text {n}" for n in range(4)], "left": 0}


def test_a_child_does_not_remove_the_index_of_raw_files_that_the_parent_asks(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text("".join(json.dumps({"n": n, "ts": 1_777_593_600 + n}) + "\n" for n in range(4)))
    told = forked(
        """
import tempfile

tempfile.tempdir = os.path.dirname(path)
before = os.listdir(tempfile.tempdir)
answer = tr.query_files("fields n", path)
there = set(os.listdir(tempfile.tempdir)) - set(before)
child(lambda: None, leaves=sys.exit)
left = there & set(os.listdir(tempfile.tempdir))
seen = [row["n"] for row in answer]
del answer
print(json.dumps({"left": left == there, "seen": seen, "after": os.listdir(tempfile.tempdir) == before}))
""",
        log,
    )
    assert told == {"left": True, "seen": [0, 1, 2, 3], "after": True}


def test_a_store_in_a_bucket_is_of_the_process_that_opened_it_also_to_read(tmp_path: Path) -> None:
    told = forked(
        """
from obstore.store import MemoryStore
from tests.storage.buckets import ROOT, keys, object_files
from tests.storage.records import decode, raw_batch, stored_numbers
from treering.storage.ring import Ring

store = MemoryStore()
writer = Ring.open(ROOT, decoder=decode, files=object_files(store))
writer.append(raw_batch(range(3)))
writer.flush()
reader = Ring.open(ROOT, "r", decoder=decode, files=object_files(store))
unread = reader.snapshot()
calls = {
    "write": lambda: writer.append(raw_batch([9])),
    "read": lambda: stored_numbers(reader),
    "look": lambda: reader.model,
    "fetch": lambda: [part.column("body") for part in unread.parts],
    "close": lambda: [writer.close(), reader.close()],
}
lines = child(lambda: {name: said(call) for name, call in calls.items()})
writer.append(raw_batch(range(3, 5)))
writer.close()
print(json.dumps({"lines": lines, "after": stored_numbers(reader)}))
""",
        tmp_path,
    )
    closed = told["lines"].pop("close")
    assert closed == "[None, None]"
    assert all("opened in process" in line for line in told["lines"].values()), told["lines"]
    assert told["after"] == [0, 1, 2, 3, 4]
