"""A store that was moved to another model is the store that was embedded with it from the start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tests.indexer.test_fill import ANSWERS, INFO, Letters
from treering.indexer import fill as fill_module
from treering.indexer.decode import Decoder
from treering.indexer.fill import fill
from treering.indexer.ingest import IngestOptions, ingest
from treering.indexer.reembed import reembed
from treering.indexer.tables import TableOptions, table_batches, to_table
from treering.storage.batch import Keys, ModelInfo, Vectors
from treering.storage.cut import Cut, State, cut_older
from treering.storage.eraser import Act, Erased
from treering.storage.errors import DamageError, ModelError
from treering.storage.part import VectorTable
from treering.storage.ring import Ring

OTHER = replace(INFO, model_id="letters@other", dim=48, basis_id="b2", calibration_id="c2")
RECORDS: list[dict[str, Any]] = [
    *ANSWERS,
    {"message": "took 5 ms", "response_coherence": 0.5},
    {"response": "Of its own.", "prompt": "Whose?", "response_coherence": 0.75},
    {"response": "Yes.", "context": ["No."], "logprobs": {"content": [{"token": "Y", "logprob": -1.0}]}},
]
HOURS_NS = 3600 * 10**9
DAY_NS = 1_777_593_600 * 10**9
"""2026-05-01 in UTC."""


class Others(Letters):
    """Another model: letter counts of 48 places, the other way round."""

    def __init__(self, info: ModelInfo = OTHER, *, fails_after: int | None = None) -> None:
        super().__init__(info, fails_after=fails_after)
        self.before: Callable[[], None] = lambda: None

    def encode(self, texts: list[str], keys: Keys) -> Vectors:
        self.before()
        vectors = super().encode(texts, keys)
        vectors.heads[:] = 32
        return vectors

    def encode_vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        counts = np.full((len(texts), 48), 0.02, np.float32)
        for row, text in enumerate(texts):
            for sign in text.lower():
                counts[row, -ord(sign) % 48] += 1
        unit: npt.NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit


class Loader:
    """Puts records into a store, each call an hour later and into a segment of its own."""

    def __init__(self, ring: Ring, folder: Path) -> None:
        self.ring, self.folder = ring, folder
        self.n_calls = 0

    def __call__(self, records: Sequence[dict[str, Any]], *, flushes: bool = True) -> None:
        hour, self.n_calls = self.n_calls, self.n_calls + 1
        lines = [
            json.dumps({"ts": f"2026-05-01T{hour:02}:00:{at:02}Z", "n": at, **record})
            for at, record in enumerate(records)
        ]
        path = self.folder / f"{self.ring.path.name}-{hour}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        ingest(self.ring, [str(path)], options=IngestOptions())
        if flushes:
            self.ring.flush()


Make = Callable[[str], Loader]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes stores, which are closed at the end."""
    rings: list[Ring] = []

    def _make(name: str) -> Loader:
        rings.append(Ring.open(tmp_path / name, "w", decoder=Decoder()))
        return Loader(rings[-1], tmp_path)

    yield _make
    for ring in rings:
        ring.close()


def content(ring: Ring) -> dict[int, dict[str, Any]]:
    """All columns of each event but its source, and the exact vector of each of its texts, by number."""
    found: dict[int, dict[str, Any]] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            names = [name for name in part.fields if name != "source"]
            columns = {name: part.column(name).to_pylist() for name in names}
            table, texts = part.vectors(), part.parts()
            places = {key.tobytes(): at for at, key in enumerate(table.key)}
            for row, seq in enumerate(part.seq.tolist()):
                held = {name: values[row] for name, values in columns.items() if values[row] is not None}
                mine = np.flatnonzero(texts.row == row).tolist()
                held["texts"] = [
                    (
                        int(texts.field[one]),
                        int(texts.chunk[one]),
                        bool(texts.primary[one]),
                        *exact(table, places[texts.key[one].tobytes()]),
                    )
                    for one in mine
                ]
                found[seq] = held
    return found


def exact(table: VectorTable, at: int) -> tuple[Any, ...]:
    """A vector of a dictionary, bit by bit."""
    names = ("rest", "heads", "qls", "scale", "n_tokens", "head")
    codes = table.codes[at, : table.dim].tobytes()
    return bool(table.have[at]), codes, *(getattr(table, name)[at].tobytes() for name in names)


def fresh(make: Make, batches: Sequence[Sequence[dict[str, Any]]]) -> Ring:
    """A store that had the other model from the start."""
    load = make("fresh")
    for batch in batches:
        load(batch)
    fill(load.ring, Others())
    return load.ring


def test_a_moved_store_equals_one_of_that_model_from_the_start(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    load(RECORDS[:4])
    report = reembed(load.ring, Others())
    assert report.finished and report.was_moved and not report.was_restarted
    assert (report.old, report.new, report.rows) == (INFO.model_id, OTHER.model_id, len(RECORDS) + 4)
    assert load.ring.model == OTHER and load.ring.unfinished() == []
    assert content(load.ring) == content(fresh(make, [RECORDS, RECORDS[:4]]))


def test_signals_that_the_new_model_cannot_give_do_not_stay(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    before = [row.get("hallucination_method") for _, row in sorted(content(load.ring).items())]
    reembed(load.ring, Others())
    after = [row.get("hallucination_method") for _, row in sorted(content(load.ring).items())]
    assert before.count("grounded") == 2 and after.count("grounded") == 0
    # What a producer gave stays, and where there was none the log-probabilities speak again.
    assert before[2] == after[2] == "producer"
    assert after[8] == "logprob" and content(load.ring)[7]["response_coherence"] == 0.75
    reembed(load.ring, Letters())
    assert [row.get("hallucination_method") for _, row in sorted(content(load.ring).items())] == before


def test_there_and_back_is_where_it_began(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    load.ring.compact()
    before = content(load.ring)
    reembed(load.ring, Others())
    assert content(load.ring) != before
    reembed(load.ring, Letters())
    assert content(load.ring) == before
    assert [record.action for record in load.ring.audit()[0]] == ["reembed", "reembed"]


def test_readers_see_the_old_store_until_they_see_the_new_one(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    old, seen = content(load.ring), []
    with Ring.open(load.ring.path, "r", decoder=Decoder()) as reader:

        def look() -> None:
            seen.append((content(reader) == old, reader.model))

        others = Others()
        others.before = look
        held = reader.snapshot()
        reembed(load.ring, others)
        assert set(seen) == {(True, INFO)}
        assert content(reader) == content(load.ring) != old and reader.model == OTHER
        # One who looked before goes on to see what was there.
        assert held.model == INFO and {part.vectors().dim for part in held.parts} == {INFO.dim}
        held.close()


@pytest.mark.parametrize("n_batches", range(5))
def test_a_move_that_was_interrupted_goes_on_with_what_was_done(
    make: Make, n_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 4)
    load = make("moved")
    load(RECORDS)
    load(RECORDS[:4])
    fill(load.ring, Letters())
    old = content(load.ring)
    first = Others(fails_after=n_batches)
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, first)
    assert content(load.ring) == old and load.ring.model == INFO
    state = load.ring.move_state()
    assert state is not None and (state.model, state.n_rows) == (OTHER, len(RECORDS) + 4)
    load.ring.close()
    with Ring.open(load.ring.path, "w", decoder=Decoder()) as ring:
        second = Others()
        report = reembed(ring, second)
        assert report.finished and not report.was_restarted and len(first.seen) == 4 * n_batches
        assert not set(first.seen) & set(second.seen)
        assert content(ring) == content(fresh(make, [RECORDS, RECORDS[:4]]))
        assert ring.move_state() is None and not (ring.path / "reembed").exists()


def test_a_budget_stops_it_and_keeps_what_is_done(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    old = content(load.ring)
    report = reembed(load.ring, Others(), budget=0.0)
    assert (report.finished, report.was_moved, report.texts) == (False, False, 0)
    assert content(load.ring) == old
    assert reembed(load.ring, Others()).finished and load.ring.model == OTHER


def test_events_and_folds_that_come_meanwhile_are_taken_along(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 8)
    load = make("moved")
    batches = [RECORDS[at:] for at in range(3)]
    for batch in batches:
        load(batch)
    fill(load.ring, Letters())
    others = Others()

    def meanwhile() -> None:
        if load.n_calls < 8:
            batch = [{"message": f"number {'abcdefgh'[load.n_calls]} came meanwhile"}, *RECORDS[:2]]
            batches.append(batch)
            load(batch, flushes=load.n_calls % 2 == 0)
            load.ring.compact()

    others.before = meanwhile
    assert reembed(load.ring, others).finished
    assert len(batches) > 4 and load.ring.unfinished() == []
    assert content(load.ring) == content(fresh(make, batches))


def test_events_that_never_cease_to_come_do_not_keep_it_from_its_end(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    others = Others()

    def meanwhile() -> None:
        if load.ring.model == INFO:
            load([{"message": "abcdefgh"[load.n_calls] * 20}])

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert report.finished and load.ring.unfinished() == [] and load.ring.model == OTHER
    assert len(content(load.ring)) == len(RECORDS) + load.n_calls - 1


def older(hours: int) -> Callable[[State], Cut]:
    """A plan to take what is older than so many hours of that day."""
    return lambda state: cut_older(state, DAY_NS + hours * HOURS_NS)


def holding(path: Path, word: bytes) -> list[str]:
    """Files that hold these bytes; young texts are too short to be packed."""
    return [str(file) for file in path.rglob("*") if file.is_file() and word in file.read_bytes()]


def test_a_deletion_meanwhile_takes_what_was_made_of_its_events_along(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 4)
    load = make("moved")
    load([{"message": f"zqalice was here as number {word}"} for word in "abcdefghij"])
    load(RECORDS)
    fill(load.ring, Letters())
    others, erased = Others(), list[Erased]()

    def meanwhile() -> None:
        if len(others.seen) >= 8 and not erased:
            assert [name for name in holding(load.ring.path, b"zqalice") if "/reembed/" in name]
            erased.append(load.ring.erase(older(1), Act("expire", {})))
            assert holding(load.ring.path, b"zqalice") == []

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert erased[0].is_erased and not erased[0].is_shadow_dropped
    assert report.finished and not report.was_restarted
    assert sorted(content(load.ring)) == list(range(10, 10 + len(RECORDS)))
    assert holding(load.ring.path, b"zqalice") == [] and load.ring.unfinished() == []


def test_a_deletion_between_two_runs_lets_the_second_go_on(make: Make) -> None:
    load = make("moved")
    load([{"message": "zqalice was here"}])
    load(RECORDS)
    fill(load.ring, Letters())
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    assert not load.ring.erase(older(1), Act("expire", {})).is_shadow_dropped
    assert load.ring.move_state() is not None
    report = reembed(load.ring, Others())
    assert report.finished and not report.was_restarted
    assert len(content(load.ring)) == len(RECORDS)


def test_a_shadow_that_was_dropped_meanwhile_is_begun_anew(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    others, dropped = Others(), list[bool]()

    def meanwhile() -> None:
        if not dropped:
            dropped.append(load.ring.abort_move())

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert dropped == [True] and report.finished and report.was_restarted and load.ring.model == OTHER


def test_a_deletion_that_finds_nothing_leaves_what_was_done(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    assert not load.ring.erase(older(0), Act("expire", {})).is_shadow_dropped
    assert load.ring.move_state() is not None


def test_another_model_than_the_one_that_was_begun_begins_anew(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    third = replace(OTHER, model_id="letters@third")
    report = reembed(load.ring, Others(third))
    assert report.finished and report.was_restarted and load.ring.model == third


def test_what_was_begun_can_be_dropped(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    old = content(load.ring)
    assert not load.ring.abort_move()
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    assert load.ring.abort_move() and not load.ring.abort_move()
    assert content(load.ring) == old and load.ring.move_state() is None


def test_the_model_that_the_store_has_needs_no_move(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    report = reembed(load.ring, Letters())
    assert (report.old, report.was_moved, report.finished) == (None, False, True)
    old = content(load.ring)
    report = reembed(load.ring, Letters())
    assert (report.old, report.was_moved, report.texts) == (INFO.model_id, False, 0)
    assert content(load.ring) == old and load.ring.audit()[0] == []


def test_fill_with_the_old_model_stops_when_the_store_was_moved_under_it(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    load([{"message": "a text of its own"}])
    same_size = Letters(replace(INFO, model_id="letters@of-the-same-size"))

    class Slow(Letters):
        def encode(self, texts: list[str], keys: Keys) -> Vectors:
            reembed(load.ring, same_size)
            return super().encode(texts, keys)

    with pytest.raises(ModelError, match="of-the-same-size"):
        fill(load.ring, Slow())
    assert load.ring.model == same_size.info and load.ring.unfinished() == []


def given_table(n: int) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([DAY_NS + at for at in range(n)], pa.timestamp("ns", "UTC")),
            "message": [f"number {at % 3} came" for at in range(n)],
            "response": [f"The answer is {at}." if at % 2 else None for at in range(n)],
        }
    )


def test_vectors_that_were_given_are_given_up_only_when_told_so(make: Make) -> None:
    load, plain = make("moved"), make("plain")
    table = given_table(12)
    rng = np.random.default_rng(5)
    vectors = pa.array([row.tolist() for row in rng.normal(size=(12, 8))], pa.list_(pa.float32()))
    load.ring.set_model(ModelInfo("given:8", 8, 0, 0, 0, "none", "none", (1.0,) * 136))
    for ring, one in ((load.ring, table.append_column("vector", vectors)), (plain.ring, table)):
        for part in table_batches(to_table(one), TableOptions()):
            ring.append_columns(part.batch, part.vectors)
        ring.flush()
    with pytest.raises(ModelError, match="came with its events"):
        reembed(load.ring, Others())
    assert load.ring.move_state() is None
    assert reembed(load.ring, Others(), drops_given=True).finished
    fill(plain.ring, Others())
    moved, expected = content(load.ring), content(plain.ring)
    assert moved == expected and len(moved[1]["texts"]) == 2


def test_damage_of_the_store_is_named_and_nothing_is_moved(make: Make) -> None:
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    load.ring.close()
    path = next(load.ring.path.glob("seg/*/text.arrow"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with Ring.open(load.ring.path, "w", decoder=Decoder()) as ring:
        with pytest.raises(DamageError, match=r"text\.arrow"):
            reembed(ring, Others())
        assert ring.model == INFO
