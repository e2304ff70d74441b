import base64
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.indexer.blobs import mark_blobs
from treering.indexer.flatten import Flattener


def _columns(*records: dict[str, Any]) -> dict[str, list[Any]]:
    flat = Flattener()
    for row, record in enumerate(records):
        flat.add(row, record)
    return {name: array.to_pylist() for name, array in flat.arrays(len(records)).items()}


def test_each_type_of_a_path_has_its_own_column() -> None:
    found = _columns(
        {"v": 1}, {"v": 0.5}, {"v": "x"}, {"v": True}, {"v": None}, {"v": {}}, {"v": [1]}, {"v": 2**63}
    )
    assert found == {
        "v#i": [1, None, None, None, None, None, None, None],
        "v#f": [None, 0.5, None, None, None, None, None, None],
        "v#s": [None, None, "x", None, None, None, None, None],
        "v#b": [None, None, None, True, None, None, None, None],
        "v#o": [None, None, None, None, None, True, None, None],
        "v#[i]": [None, None, None, None, None, None, [1], None],
        "v#z": [None, None, None, None, None, None, None, "9223372036854775808"],
    }


def test_dots_and_nesting_are_one_path_and_the_dotted_key_is_its_value() -> None:
    found = _columns({"a": {"b": 1}}, {"a.b": 2}, {"a": {"b": 3}, "a.b": 4}, {"a.b": 6, "a": {"b": "five"}})
    assert found == {
        "a.b#i": [1, 2, 4, 6],
        "a.b#[i]": [None, None, [3], None],
        "a.b#[s]": [None, None, None, ["five"]],
    }


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"a.b": 1, "a": {"b": 1}}, {"#i": 1}),
        ({"a.b": 1, "a": {"b": True}}, {"#i": 1, "#[b]": [True]}),
        ({"a.b": [1, "x"], "a": {"b": 2}}, {"#[i]": [1, None, 2], "#[s]": [None, "x", None]}),
        ({"a.b": 1, "a": {"b": [2, None, 0.5, "y"]}}, {"#i": 1, "#[i]": [2, None, None, None],
         "#[f]": [None, None, 0.5, None], "#[s]": [None, None, None, "y"]}),
        ({"a.b": 2**70, "a": {"b": 2**71}}, {"#z": str(2**70), "#[z]": [str(2**71)]}),
        ({"a.b": {}, "a": {"b": 5}}, {"#o": True, "#[i]": [5]}),
        ({"a.b": 5, "a": {"b": {}}}, {"#i": 5}),
        ({"a.b": None, "a": {"b": 5}}, {"#i": 5}),
        ({"a": {"b": 1, "b.c": 2}, "a.b": {"c": 3}}, {"#i": 1, ".c#i": 3, ".c#[i]": [2]}),
        ({"a": {"b.c": 1, "b": {"c": 2}}, "a.b.c": 3}, {".c#i": 3, ".c#[i]": [1, 2]}),
        ({"a": [{"b": 1}, {"b": 2}], "a.b": 3}, {"#i": 3, "#[i]": [1, 2]}),
    ],
)  # fmt: skip
def test_what_both_spellings_hold_is_kept(record: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _columns(record) == {"a.b" + name: [value] for name, value in expected.items()}


def test_arrays_of_objects_are_lists_without_indexes() -> None:
    found = _columns({"docs": [{"rank": 1, "text": "a"}, {"rank": 2}, {"text": "c", "tags": ["x", "y"]}]})
    assert found == {"docs.rank#[i]": [[1, 2]], "docs.text#[s]": [["a", "c"]], "docs.tags#[s]": [["x", "y"]]}


def test_nested_number_lists_are_one_flat_list_and_mixed_ones_a_list_for_each_type() -> None:
    found = _columns({"m": [[1, 2.5], [3]], "x": [1, "a", None, True, 2.5], "e": [], "n": [None]})
    assert found == {
        "m#[f]": [[1.0, 2.5, 3.0]],
        "x#[i]": [[1, None, None, None, None]],
        "x#[f]": [[None, None, None, None, 2.5]],
        "x#[b]": [[None, None, None, True, None]],
        "x#[s]": [[None, "a", None, None, None]],
        "e#[s]": [[]],
    }


def test_whole_numbers_in_lists_are_exact() -> None:
    found = _columns({"big": [2**70, 1], "odd": [2**53 + 1, 0.5], "deep": [[2**64], {"x": 2**65}]})
    assert found == {
        "big#[z]": [[str(2**70), "1"]],
        "odd#[i]": [[2**53 + 1, None]],
        "odd#[f]": [[None, 0.5]],
        "deep#[z]": [[str(2**64)]],
        "deep.x#[z]": [[str(2**65)]],
    }


_MEMBERS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
)


@given(st.lists(_MEMBERS, max_size=6))
def test_the_lists_of_a_mixed_list_give_it_back(items: list[Any]) -> None:
    found = {name.removeprefix("l"): values[0] for name, values in _columns({"l": items}).items()}
    if all(item is None for item in items):
        assert found == ({} if items else {"#[s]": []})
        return
    assert all(len(values) == len(items) for values in found.values())
    read = {"#[z]": int}
    back: list[Any] = [None] * len(items)
    for name, values in found.items():
        for at, value in enumerate(values):
            if value is not None:
                assert back[at] is None
                back[at] = read.get(name, lambda same: same)(value)
    assert back == items
    of_numbers = {type(item) for item in items} <= {int, float, type(None)}
    assert of_numbers or [type(item) for item in back] == [type(item) for item in items]


def test_odd_names_are_kept() -> None:
    found = _columns({"": 1, "a#b": 2, "日志": 3, "x y": 4})
    assert found == {"#i": [1], "a#b#i": [2], "日志#i": [3], "x y#i": [4]}


def test_nan_is_a_value_and_null_is_none() -> None:
    values = _columns({"v": math.nan}, {"v": None})["v#f"]
    assert math.isnan(values[0]) and values[1] is None


def test_depth_is_bounded_without_loss() -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = {"k": deep}
    found = _columns(deep)
    ((name, values),) = found.items()
    assert name.endswith("#s") and name.count("k") < 100 and '"end"' in values[0]


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.lists(st.dictionaries(st.text(alphabet="ab.", max_size=3), _JSON, max_size=4), min_size=1, max_size=4)
)
def test_a_row_fills_at_most_one_column_of_a_scalar_path(records: list[dict[str, Any]]) -> None:
    found = _columns(*records)
    scalars = {name: values for name, values in found.items() if not name.endswith("]")}
    for path in {name.rpartition("#")[0] for name in scalars}:
        same = [values for name, values in scalars.items() if name.rpartition("#")[0] == path]
        for row in range(len(records)):
            assert sum(values[row] is not None for values in same) <= 1


def test_payloads_become_markers_with_type_size_and_hash() -> None:
    picture = b"\x89PNG" + bytes(range(256)) * 4
    encoded = base64.b64encode(picture).decode()
    with_uri, bare = f"see data:image/png;base64,{encoded} here", f"x {encoded} y"
    assert mark_blobs(with_uri).startswith("see <image/png 1.0 KiB sha256:")
    assert mark_blobs(bare)[2:-2] == mark_blobs(with_uri)[4:-5]
    prose = "plain words go on and on " * 40 + "a" * 300
    assert mark_blobs(prose) == prose
    assert _columns({"img": bare})["img#s"] == [mark_blobs(bare)]
