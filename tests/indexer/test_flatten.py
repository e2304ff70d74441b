import base64
import math
from typing import Any

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


def test_dots_and_nesting_are_one_path_and_the_dotted_key_wins() -> None:
    found = _columns({"a": {"b": 1}}, {"a.b": 2}, {"a": {"b": 3}, "a.b": 4}, {"a.b": 6, "a": {"b": "five"}})
    assert found["a.b#i"] == [1, 2, 4, 6]
    assert "a.b#s" not in found


def test_arrays_of_objects_are_lists_without_indexes() -> None:
    found = _columns({"docs": [{"rank": 1, "text": "a"}, {"rank": 2}, {"text": "c", "tags": ["x", "y"]}]})
    assert found == {"docs.rank#[i]": [[1, 2]], "docs.text#[s]": [["a", "c"]], "docs.tags#[s]": [["x", "y"]]}


def test_nested_number_lists_are_one_flat_list_and_mixed_ones_are_texts() -> None:
    found = _columns({"m": [[1, 2.5], [3]], "x": [1, "a", None, True], "e": [], "big": [2**70], "n": [None]})
    assert found == {
        "m#[f]": [[1.0, 2.5, 3.0]],
        "x#[s]": [["1", "a", None, "true"]],
        "e#[s]": [[]],
        "big#[z]": [[str(2**70)]],
    }


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
