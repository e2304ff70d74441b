"""Deletion and expiry as a user asks for them: what goes, what is refused, and what the receipt says."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering as tr
from tests.indexer.letters import INFO, Letters
from tests.storage.words import files_with
from treering.indexer.fill import fill
from treering.query.receipts import Receipt, parse_size
from treering.query.store import Store
from treering.storage.cleaner import Cleaner
from treering.storage.errors import ConfigError, DamageError, QueryError, StoreError

Event = dict[str, Any]
SECRET = "zqalice"


def events(n: int = 12) -> list[Event]:
    users = ("zqalice", "bob", "carol")
    return [
        {
            "ts": f"2026-05-01T00:00:{i:02d}Z",
            "msg": f"{users[i % 3]} asked {i} times",
            "user": users[i % 3],
            "prompt": f"I am {users[i % 3]}",
            "tags": [users[i % 3], "all"],
            "trace_id": f"trace-{users[i % 3]}-{i}",
            "n": i,
        }
        for i in range(n)
    ]


def write(path: Path, rows: list[Event], broken: str = "") -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + broken)
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Twelve events of three users, and one record of Alice that is no event; all in the log."""
    path = write(tmp_path / "a.jsonl", events(), '{"user": "zqalice", broken\n')
    with tr.open(tmp_path / "ring") as one:
        assert one.ingest(path, embed=False).rejected == 1
        yield one


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of queries are encoded as those of events are here: by a model that counts letters."""
    monkeypatch.setattr("treering.indexer.light.load_query_encoder", lambda model: _Encoder())


def numbers(store: Store, query: str = "") -> list[int]:
    return [row["n"] for row in store.query(f"{query} sort by seq")]


def test_what_matches_goes_and_the_rest_stays(store: Store) -> None:
    receipt = store.delete("user = $u or body has $u", params={"u": SECRET})
    assert (receipt.events, receipt.rejects, receipt.erased, receipt.is_dry_run) == (4, 1, True, False)
    assert numbers(store) == [i for i in range(12) if i % 3]
    assert list(store.rejects()) == []
    assert files_with(store.path, SECRET) == set()
    assert receipt.first_ns == 1777593600 * 10**9 and receipt.last_ns == receipt.first_ns + 9 * 10**9
    assert receipt.version <= store.stats()["manifest_version"]


def test_every_way_of_looking_forgets_what_went(store: Store) -> None:
    store.delete('user = "zqalice"')
    assert store.query("count by user").to_list() == [
        {"user": "bob", "count": 4},
        {"user": "carol", "count": 4},
    ]
    assert store.sql("SELECT count(*) c FROM events").to_pylist() == [{"c": 8}]
    assert store.stats()["rows"] == 8
    assert {field.name: field.n for field in store.fields()}["user"] == 8
    shown = json.dumps([field.examples for field in store.fields()]) + json.dumps(store.query("").to_list())
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("n >= 6", [0, 1, 2, 3, 4, 5]),
        ("n in (1, 2)", [0, *range(3, 12)]),
        ('tags has "bob"', [i for i in range(12) if i % 3 != 1]),
        ('"Asked 7"', [i for i in range(12) if i != 7]),
        ("msg =~ /asked 1[01]/", list(range(10))),
        ("since 2026-05-01T00:00:10Z", list(range(10))),
        ("between 2026-05-01T00:00:01Z and 2026-05-01T00:00:03Z and n != 2", [0, *range(2, 12)]),
        ("ts exists", []),
        ("not user = \"bob\"", [1, 4, 7, 10]),
        ("nothing_here_is missing", None),
        ({"filter": {"n": {">": 2}}}, [0, 1, 2]),
        (tr.where(tr.col("n") > 2), [0, 1, 2]),
    ],
)  # fmt: skip
def test_a_deletion_takes_what_the_same_query_finds(store: Store, query: Any, left: list[int] | None) -> None:
    if left is None:
        with pytest.raises(QueryError, match="no field nothing_here_is"):
            store.delete(query)
        return
    found = [row["n"] for row in store.query(query)]
    assert sorted([*found, *left]) == list(range(12))
    preview = store.delete(query, dry_run=True)
    assert (preview.events, numbers(store)) == (len(found), list(range(12)))
    assert store.delete(query).events == len(found)
    assert numbers(store) == left


@pytest.mark.parametrize(
    ("query", "message", "at"),
    [
        ("", "`ts exists` is every event", None),
        ("*", "`ts exists` is every event", None),
        ("exact", "`ts exists` is every event", None),
        ("n > 1 top 5 by n", "leave out `top` or `bottom`", 6),
        ("n > 1 top-k n", "leave out `top` or `bottom`", 6),
        ("limit > 1 limit 5", "leave out `limit`", 10),
        ("n > 1 limit all", "leave out `limit`", 6),
        ("n > 1 offset 5", "leave out `offset`", 6),
        ("n > 1 sort by n", "leave out `sort by`", 6),
        ("n > 1 fields n", "leave out `fields`", 6),
        ("n > 1 count by user", "not statistics", 6),
        ("n > 1 p95(n)", "not statistics", 6),
        ("n > 1 limit 5 | n > 2", "one stage", 14),
        ('n > 1 ~ "text"', "give it a threshold", 6),
        ('like trace_id:"trace-bob-1"', "leave out `like`", 0),
        ("user = 1 sort by ts top 3", None, None),
        ({"filter": {"n": 1}, "limit": 3}, "leave out `limit`", None),
        (tr.where(tr.col("n") > 1).top(3, by="n"), "leave out `top`", None),
    ],
)  # fmt: skip
def test_what_is_no_mere_condition_is_refused(
    store: Store, query: Any, message: str | None, at: int | None
) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        store.delete(query)
    if at is not None:
        assert caught.value.position == at
        assert str(caught.value).split("\n")[-1] == " " * (at + 2) + "^"
    assert numbers(store) == list(range(12)) and store.audit() == []


def test_a_condition_on_vectors_that_are_to_come_is_refused(store: Store) -> None:
    for query in ('~ "hello" > 0.5', "attention_collapse > 0.5", "attention_collapse missing"):
        with pytest.raises(QueryError, match="run `treering embed` first"):
            store.delete(query)
    assert len(numbers(store)) == 12


def test_a_condition_on_meaning_takes_what_it_finds(store: Store) -> None:
    store.flush()
    fill(store._ring, Letters())
    query = 'user = "bob" ~ "bob asked 1 times" > 0.9'
    found = sorted(row["n"] for row in store.query(query))
    assert found
    assert store.delete(query).events == len(found)
    assert numbers(store) == [i for i in range(12) if i not in found]


class _Encoder:
    info = INFO

    def encode_query(self, text: str) -> Any:
        return Letters().encode_vectors([text])[0]


def test_a_dry_run_says_what_would_go_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    store.flush()
    files = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}
    receipt = store.delete('user = "zqalice"', dry_run=True)
    assert receipt.is_dry_run and (receipt.events, len(receipt.rewritten), receipt.segments_dropped) == (
        4,
        1,
        0,
    )
    assert [row["n"] for row in receipt.examples] == [0, 3, 6]
    with tr.open(store.path, "r") as reader:
        assert reader.delete('user = "zqalice"', dry_run=True) == receipt
        with pytest.raises(StoreError, match="is open to read"):
            reader.delete('user = "zqalice"')
    assert {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()} == files


def test_what_was_deleted_is_not_taken_in_again_unless_told_to(store: Store, tmp_path: Path) -> None:
    store.delete('user = "zqalice"')
    path = str(tmp_path / "a.jsonl")
    assert store.ingest(path, embed=False).accepted == 0 and len(numbers(store)) == 8
    assert store.ingest(path, embed=False, again=True).accepted == 12


# -- rejects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "goes"),
    [
        ('body has "zqalice"', True),
        ('"ZQALICE"', True),
        ("source_line = 13", True),
        ("source_line < 13", False),
        ('source =~ /a.jsonl$/', True),
        ('user = "zqalice"', False),
        ("n missing", True),
        ('not user = "bob"', True),
        ("ts exists", False),
        ('last 9999d body has "zqalice"', False),
        ('user = "bob" or body has "broken"', True),
        ('not ~ "x" > 0.5 body has "zqalice"', False),
    ],
)  # fmt: skip
def test_rejects_go_as_rows_that_have_a_place_and_a_body_alone(store: Store, query: str, goes: bool) -> None:
    store.flush()
    fill(store._ring, Letters())
    assert store.delete(query, dry_run=True).rejects == goes
    assert store.delete(query).rejects == goes
    assert [len(list(store.rejects())), store.stats()["rejected"]] == [1 - goes] * 2


def test_rejects_go_from_a_store_without_events(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"n": 1}], '{"zqalice\n{"bob\n')
    with tr.open(tmp_path / "ring") as store:
        store.ingest(path, embed=False)
        store.delete("n = 1")
        assert store.delete('body has "zqalice"').rejects == 1
        assert [one.record for one in store.rejects()] == [b'{"bob']


# -- expiry -------------------------------------------------------------------------------------------------


def test_by_age_nothing_older_stays_and_nothing_younger_goes(store: Store) -> None:
    for seconds in (3600, 3601, 3606, 3612):
        now = 1777593600 * 10**9 + seconds * 10**9
        preview = store.expire(older_than="1h", now=now, dry_run=True)
        receipt = store.expire(older_than="1h", now=now)
        assert receipt.events == preview.events
        assert numbers(store) == list(range(seconds - 3600, 12))
    assert store.stats()["segments"] == 0


def test_events_from_the_future_do_not_expire_by_age(store: Store) -> None:
    store.append([{"ts": "2066-01-01T00:00:00Z", "n": 99}])
    store.expire(older_than="1d", now="2027-01-01T00:00:00Z")
    assert numbers(store) == [99]


def test_by_size_the_oldest_go(store: Store) -> None:
    store.flush()
    store.append([{"ts": "2026-05-02T00:00:00Z", "n": 50}])
    store.flush()
    sizes = sum(path.stat().st_size for path in (store.path / "seg").rglob("*.arrow"))
    assert store.expire(max_bytes=10 * sizes).events == 0
    assert store.expire(max_bytes=sizes - 1, dry_run=True).events == 12
    assert store.expire(max_bytes=sizes - 1).segments_dropped == 1
    assert numbers(store) == [50]
    assert store.expire(max_bytes="0").events == 1


def test_expiry_by_a_condition_is_a_deletion_by_another_name(store: Store) -> None:
    receipt = store.expire(query='user = "bob"')
    assert (receipt.action, receipt.events, store.audit()[0].action) == ("expire", 4, "expire")
    assert numbers(store, 'user = "bob"') == []


def test_an_expiry_takes_exactly_one_rule(store: Store) -> None:
    for given_ in ({}, {"older_than": "1d", "max_bytes": 5}, {"query": "n = 1", "older_than": "1d"}):
        with pytest.raises(ConfigError, match="one of older_than, max_bytes and query"):
            store.expire(**given_)
    with pytest.raises(QueryError, match="no duration"):
        store.expire(older_than="soon")
    for size in ("much", "-5", "5XB", "", -5, True):
        with pytest.raises(ConfigError, match="is no size"):
            store.expire(max_bytes=size)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("10", 10),
        (10, 10),
        ("1.5 KB", 1500),
        ("2kib", 2048),
        ("10GB", 10**10),
        ("3M", 3_000_000),
        ("1TiB", 2**40),
    ],
)
def test_sizes_are_read_as_they_are_written(text: str | int, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


# -- the account --------------------------------------------------------------------------------------------


def test_the_audit_tells_of_each_act_without_values_of_parameters(store: Store) -> None:
    first = store.delete("user = $u", params={"u": "bob"})
    second = store.expire(older_than="1h", now="2026-05-01T01:00:06Z")
    store.delete("n = 1000")
    records = store.audit(verify=True, head=first.audit_hash)
    assert [(one.action, one.details["id"], one.hash) for one in records] == [
        ("delete", first.id, first.audit_hash),
        ("expire", second.id, second.audit_hash),
    ]
    assert records[0].details["query"] == "user = $u" and "bob" not in json.dumps(records[0].to_json())
    with tr.open(store.path, "r") as reader:
        assert reader.audit(verify=True) == records
    with pytest.raises(DamageError, match="no record has the hash"):
        store.audit(head="0" * 64)


def test_a_receipt_is_json(store: Store) -> None:
    receipt = store.delete('user = "bob"')
    told = json.loads(json.dumps(receipt.to_json()))
    assert Receipt(**told).to_json() == told


def test_an_open_answer_keeps_files_and_the_receipt_says_so(store: Store) -> None:
    store.flush()
    answer = store.query("")
    receipt = store.delete('user = "zqalice"')
    assert not receipt.erased and receipt.waiting > 0
    assert len(answer.to_list()) == 12
    del answer
    assert store.delete('user = "zqalice"').erased
    assert files_with(store.path, f"{SECRET} asked") == set()


EVERYTHING = (
    *(
        "sort by seq",
        "count by user",
        "count by user every 5s",
        "p50(n), sum(n), distinct(user)",
        "top 3 by n",
    ),
    *(
        '"asked 1"',
        'tags has "carol"',
        'trace_id = "trace-bob-4"',
        "user exists count",
        "n > 3 | count by tags",
    ),
    *(
        "bottom 2 by n",
        "since 2026-05-01T00:00:05Z count",
        '~ "carol asked 2 times" limit 5',
        "count by level",
    ),
)
"""Queries by every kind of plan."""


def test_between_commit_and_rewrite_every_answer_is_that_of_after(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.flush()
    fill(store._ring, Letters())
    store.append(events()[:3])
    with monkeypatch.context() as patch:
        patch.setattr(Cleaner, "clean", lambda self: ({}, ()))
        store.delete('user = "zqalice"')
    with tr.open(store.path, "r") as reader:
        between = told(reader)
    store.delete("n = 1000")
    assert list(store.path.rglob("del-*")) == []
    assert told(store) == between


def told(store: Store) -> list[Any]:
    """All that can be asked of a store, but for what is told of its files."""
    stats = store.stats()
    facts = [
        stats[name]
        for name in ("rows", "t_min_ns", "t_max_ns", "vectors", "templates", "pending", "rejected")
    ]
    answers = [store.query(query).to_list() for query in EVERYTHING]
    return [facts, answers, store.fields(), store.sql("SELECT * FROM events ORDER BY seq").to_pylist()]


# -- against a list -----------------------------------------------------------------------------------------

WORDS = ("alpha", "beta", "gamma")
TESTS: dict[str, Callable[[Event], bool]] = {
    "n > 3": lambda e: e["n"] > 3,
    "n <= 1": lambda e: e["n"] <= 1,
    'user = "alpha"': lambda e: e["user"] == "alpha",
    'user != "beta"': lambda e: e["user"] != "beta",
    "user missing": lambda e: e["user"] is None,
    '"gamma 2"': lambda e: "gamma 2" in e["msg"],
    'tags has "beta"': lambda e: "beta" in e["tags"],
    'n = 2 or user = "gamma"': lambda e: e["n"] == 2 or e["user"] == "gamma",
    "between 2026-05-01T00:00:02Z and 2026-05-01T00:00:05Z": lambda e: "02" <= e["ts"][17:19] < "05",
    "not (n > 1 and tags exists)": lambda e: not (e["n"] > 1 and e["tags"] is not None),
}
"""Queries, and the same in Python."""

EVENT = st.builds(
    lambda second, word, user, n, tags: {
        "ts": f"2026-05-01T00:00:{second:02d}Z",
        "msg": f"{word} {n} was asked",
        "user": user,
        "n": n,
        "tags": tags,
    },
    st.integers(0, 9),
    st.sampled_from(WORDS),
    st.sampled_from([None, *WORDS]),
    st.integers(0, 5),
    st.lists(st.sampled_from(WORDS), max_size=2),
)
STEP = st.one_of(
    st.lists(EVENT, min_size=1, max_size=6),
    st.sampled_from(["flush", "embed", "reopen", "compact"]),
    st.sampled_from(sorted(TESTS)).map(lambda query: ("delete", query)),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(STEP, max_size=6), st.lists(EVENT, min_size=1, max_size=8), *[st.sampled_from(sorted(TESTS))] * 2
)
def test_deletions_are_those_of_a_list(steps: list[Any], last: list[Event], first: str, second: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        store, model = tr.open(Path(name) / "ring"), list[Event]()
        for step in [*steps, last, ("delete", first), "embed", ("delete", second), "embed"]:
            if isinstance(step, tuple):
                model = _delete(store, step[1], model)
            elif isinstance(step, list):
                store.append(step)
                model += step
            elif step == "reopen":
                store.close()
                store = tr.open(Path(name) / "ring")
            else:
                _do(store, step)
            assert rows_of(store) == model
        check_vectors(store)
        store.close()


def _delete(store: Store, query: str, model: list[Event]) -> list[Event]:
    """Delete in both, and give what is left in the model."""
    if model and "user" in query and all(event["user"] is None for event in model):
        with pytest.raises(QueryError, match="no field user"):
            store.delete(query)
        return model
    kept = [event for event in model if not TESTS[query](event)]
    assert store.delete(query).events == len(model) - len(kept)
    return kept


def _do(store: Store, step: str) -> None:
    store.flush()
    if step == "embed":
        assert fill(store._ring, Letters()).finished
    elif step == "compact":
        store._ring.compact()


def rows_of(store: Store) -> list[Event]:
    """All events in the order of arrival."""
    rows = store.query("sort by seq").to_list()
    return [{name: row.get(name) for name in ("ts", "msg", "user", "n", "tags")} for row in rows]


def check_vectors(store: Store) -> None:
    """Every vector is that of the text of an event that is there."""
    with store._ring.snapshot() as snapshot:
        texts = {
            seq: body
            for part in snapshot.parts
            for seq, body in zip(part.seq.tolist(), part.column("body").to_pylist(), strict=True)
        } if snapshot.n_rows else {}  # fmt: skip
        for part in snapshot.parts:
            table = part.vectors()
            assert table.have.all()
            made = Letters().encode_vectors([texts[seq] for seq in table.exemplar.tolist()])
            assert np.allclose(table.exact(np.arange(len(table))), made, atol=1e-3)
