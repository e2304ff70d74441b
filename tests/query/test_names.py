"""Names as written to stored columns."""

from __future__ import annotations

import pytest

from treering.indexer.levels import code_of_word
from treering.indexer.signals import SIGNALS
from treering.query.aliases import ALIASES
from treering.query.ast import Compare, Name
from treering.query.bound import Column
from treering.query.levels import LEVEL_WORDS
from treering.query.names import Catalog, fold_name
from treering.query.parse import parse
from treering.query.scopes import TableScope
from treering.storage.errors import QueryError
from treering.storage.part import FieldStats
from treering.storage.schema import FIELDS


def catalog(*physical: str, n_rows: int = 10, **maxima: float) -> Catalog:
    return Catalog(
        {name: FieldStats(5, 0, maxima.get(name.partition("#")[0])) for name in physical}, n_rows, 0, 100
    )


def resolve(names: Catalog, text: str) -> Column:
    return names.resolve(Name(text[1:-1], True) if text.startswith("`") else Name(text))


def test_every_alias_means_a_field_or_signal() -> None:
    assert {target for target in ALIASES.values() if target not in FIELDS and target not in SIGNALS} == set()


def test_every_unquoted_severity_word_has_a_severity() -> None:
    assert [word for word in LEVEL_WORDS if not code_of_word(word)] == []


def test_an_exact_stored_name_wins_over_an_alias() -> None:
    stored = catalog("hallucination_rate#f", "hallucination_score", "hallucination#f")
    assert resolve(stored, "hallucination_rate") == Column(
        "hallucination_rate", ("hallucination_rate#f",), "number"
    )
    assert resolve(stored, "hallucination").physical == ("hallucination#f",)
    assert resolve(catalog("hallucination_score"), "hallucination_rate").physical == ("hallucination_score",)
    assert resolve(catalog("hallucination_score"), "幻觉率").physical == ("hallucination_score",)


def test_a_path_brings_the_canonical_field_that_it_feeds() -> None:
    stored = catalog("model#s", "gen_ai.request.model#s", "request_model")
    assert resolve(stored, "model").physical == ("model#s", "request_model")
    # A path with a dot is one source's own spelling, and means that source's field alone.
    assert resolve(stored, "gen_ai.request.model").physical == ("gen_ai.request.model#s",)
    assert resolve(stored, "模型").physical == ("request_model",)
    assert resolve(stored, "`model`").physical == ("model#s",)


def test_a_stored_message_is_not_mixed_with_bodies_made_of_other_fields() -> None:
    stored = catalog("message#s", "body")
    assert resolve(stored, "message").physical == ("message#s",)
    assert resolve(stored, "body").physical == ("body",)
    assert resolve(catalog("body"), "message").physical == ("body",)


def test_a_field_in_another_unit_stands_alone() -> None:
    stored = catalog("latency_ms#i", "e2e_latency_s")
    assert resolve(stored, "latency_ms").physical == ("latency_ms#i",)
    assert resolve(stored, "latency").physical == ("e2e_latency_s",)


def test_a_field_that_changes_type_is_all_of_its_columns() -> None:
    stored = catalog("score#f", "score#s", "score#b", "score.name#s", "n#i", "n#f", "n#z", "tags#[s]")
    assert resolve(stored, "score") == Column("score", ("score#f", "score#b", "score#s"), "mixed")
    assert resolve(stored, "n").type == "number"
    assert resolve(stored, "tags").type == "list"
    assert resolve(stored, "score.name").physical == ("score.name#s",)
    assert stored.below(resolve(stored, "score")) == ("score.name#s",)


def test_hyphen_underscore_and_case_are_folded_where_one_field_is_meant() -> None:
    stored = catalog("attention-collapse#f", "Status_Code#i", "a_b#i", "A-B#i", "attention_collapse")
    assert resolve(stored, "status-code").physical == ("Status_Code#i",)
    assert resolve(stored, "attention-collapse").physical == ("attention-collapse#f",)
    assert resolve(stored, "a_b").physical == ("a_b#i",)
    assert resolve(stored, "a-b").physical == ("a_b#i",)
    with pytest.raises(QueryError, match="`A-B` or `a_b`"):
        resolve(stored, "a_B")
    with pytest.raises(QueryError):
        resolve(stored, "`status-code`")


def test_a_known_name_that_no_event_carries_is_known() -> None:
    stored = catalog("x#i")
    for name in (
        "attention_collapse",
        "attention-collapse",
        "hallucination",
        "kv_cache_hit_ratio",
        "延迟",
        "level",
    ):
        assert resolve(stored, name).type == "none"


def test_another_name_of_the_same_thing_is_found() -> None:
    stored = catalog("attention_collapse_score#f", "prompt_tokens#i", "kv_hit#f")
    assert resolve(stored, "attention-collapse").physical == ("attention_collapse_score#f",)
    assert resolve(stored, "input_tokens").physical == ("prompt_tokens#i",)
    assert resolve(stored, "kv_cache_hit_ratio").physical == ()  # a ratio may be stored as percent


def test_an_unknown_name_gets_the_nearest_ones_and_a_caret() -> None:
    stored = catalog("metrics.speed#f", "hallucination_score", "temperature#f")
    with pytest.raises(QueryError, match="did you mean temperature") as caught:
        stored.resolve(Name("temprature", position=7))
    assert caught.value.position == 7
    with pytest.raises(QueryError, match=r"metrics\.speed"):
        resolve(stored, "speed")
    with pytest.raises(QueryError, match="hallucination"):
        resolve(stored, "halucination")
    with pytest.raises(QueryError, match="treering fields"):
        resolve(stored, "zzzzqqq")


def test_an_empty_store_knows_no_names_and_refuses_none() -> None:
    assert resolve(Catalog({}, 0), "anything") == Column("anything", (), "none")


def test_event_time_is_ts_and_the_original_field_stands_in_backticks() -> None:
    stored = catalog("ts", "ts#s", "time#s", "timestamp#i", timestamp=1.7e9)
    for name in ("ts", "time", "Timestamp", "时间"):
        assert resolve(stored, name) == Column("ts", ("ts",), "ts")
    assert resolve(stored, "`time`").physical == ("time#s",)
    assert resolve(stored, "`ts`").physical == ("ts#s",)
    assert resolve(catalog("time#f", time=0.9), "time").physical == ("time#f",)


def test_level_is_the_ordered_severity_and_the_word_as_it_came() -> None:
    stored = catalog("level", "level#s", "severity", "risk.level#s")
    assert resolve(stored, "level") == Column("level", ("level", "level#s", "severity"), "level")
    assert resolve(stored, "级别").type == "level"
    assert resolve(stored, "`level`").physical == ("level#s",)
    assert resolve(stored, "risk.level") == Column("risk.level", ("risk.level#s",), "text")


@pytest.mark.parametrize(
    "field", ["user", "order", "foo-bar", "avg model score", "1st", "a:b", "$ref", "and", "true", "日志级别"]
)
def test_every_awkward_name_is_reached_in_backticks(field: str) -> None:
    stored = catalog(f"{field}#s", "level")
    where = parse(f'`{field}` = "v"').where
    assert isinstance(where, Compare)
    assert stored.resolve(where.field).physical == (f"{field}#s",)


def test_parts_are_put_together_without_reading_them() -> None:
    class Held:
        def __init__(self, fields: dict[str, FieldStats], n_rows: int, t_min: int, t_max: int) -> None:
            self.fields, self.n_rows, self.t_min, self.t_max = fields, n_rows, t_min, t_max

    parts = [
        Held({"a#i": FieldStats(3, 1, 9), "b#s": FieldStats(1)}, 4, 10, 20),
        Held({"a#i": FieldStats(2, -5, 2)}, 2, 15, 99),
        Held({}, 0, 0, 0),
    ]
    whole = Catalog.of(parts)  # type: ignore[arg-type]
    assert (whole.n_rows, whole.t_min, whole.t_max) == (6, 10, 99)
    assert whole.fields["a#i"] == FieldStats(5, -5, 9)
    assert dict(whole.fields) == {"a#i": FieldStats(5, -5, 9), "b#s": FieldStats(1)}
    assert "c#i" not in whole.fields


def test_behind_statistics_only_their_columns_have_names() -> None:
    types = {"ts": "ts", "model": "text", "count": "number", "p95(x)": "number"}
    table = TableScope({name: Column(name, (name,), kind) for name, kind in types.items()})
    assert table.resolve(Name("count", True)) == Column("count", ("count",), "number")
    assert table.resolve(Name("Model")) == Column("model", ("model",), "text")
    with pytest.raises(QueryError, match=r"ts, model, count, p95\(x\)"):
        table.resolve(Name("latency"))


def test_folding_a_name_gives_what_it_means_without_a_store() -> None:
    assert fold_name("Attention-Collapse") == "attention_collapse"
    assert fold_name("幻觉") == fold_name("hallucination_rate") == "hallucination_score"
    assert fold_name("my.Field-x") == "my.field_x"
