"""A store that was moved to another model is the store that was embedded with it from the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.indexer.letters import INFO, Letters
from tests.indexer.moves import DAY_NS, OTHER, RECORDS, Make, Others, content, embedded, fresh
from treering.indexer import fill as fill_module
from treering.indexer.decode import Decoder
from treering.indexer.fill import fill
from treering.indexer.reembed import reembed
from treering.indexer.tables import TableOptions, table_batches, to_table
from treering.storage.batch import ModelInfo
from treering.storage.errors import DamageError, ModelError
from treering.storage.ring import Ring


def test_a_moved_store_equals_one_of_that_model_from_the_start(make: Make) -> None:
    load = embedded(make)
    load(RECORDS[:4])
    report = reembed(load.ring, Others())
    assert report.finished and report.was_moved and not report.was_restarted
    assert (report.old, report.new, report.rows) == (INFO.model_id, OTHER.model_id, len(RECORDS) + 4)
    assert load.ring.model == OTHER and load.ring.unfinished() == []
    assert content(load.ring) == content(fresh(make, [RECORDS, RECORDS[:4]]))


def test_signals_that_the_new_model_cannot_give_do_not_stay(make: Make) -> None:
    load = embedded(make)
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
    load = embedded(make)
    load.ring.compact()
    before = content(load.ring)
    reembed(load.ring, Others())
    assert content(load.ring) != before
    reembed(load.ring, Letters())
    assert content(load.ring) == before
    assert [record.action for record in load.ring.audit()[0]] == ["reembed", "reembed"]


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
    load = embedded(make)
    old = content(load.ring)
    report = reembed(load.ring, Others(), budget=0.0)
    assert (report.finished, report.was_moved, report.texts) == (False, False, 0)
    assert content(load.ring) == old
    assert reembed(load.ring, Others()).finished and load.ring.model == OTHER


def test_another_model_than_the_one_that_was_begun_begins_anew(make: Make) -> None:
    load = embedded(make)
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    third = replace(OTHER, model_id="letters@third")
    report = reembed(load.ring, Others(third))
    assert report.finished and report.was_restarted and load.ring.model == third


def test_what_was_begun_can_be_dropped(make: Make) -> None:
    load = embedded(make)
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
    load = embedded(make)
    load.ring.close()
    path = next(load.ring.path.glob("seg/*/text.arrow"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with Ring.open(load.ring.path, "w", decoder=Decoder()) as ring:
        with pytest.raises(DamageError, match=r"text\.arrow"):
            reembed(ring, Others())
        assert ring.model == INFO
