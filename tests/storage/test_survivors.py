"""What is left of a segment with a deletion: every look is that of the segment without the rows, and needs no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.random_batches import values
from tests.storage.rich_segment import PART, assert_same, flip, opened, rich_segment
from treering.storage.deletion import Gone, read_deletion, write_deletion
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.meta import SegmentMeta
from treering.storage.part import Slice
from treering.storage.rows import Rows
from treering.storage.segment import Segment
from treering.storage.survivors import Survivors

N_ROWS = PART.n_rows
GONE = np.sort(np.random.default_rng(5).choice(N_ROWS, 700, replace=False)).astype(np.int32)
LEFT = np.setdiff1d(np.arange(N_ROWS), GONE)
FORGOTTEN = np.arange(0, 400, 9, dtype=np.int32)


def column(name: str) -> Callable[[Rows], Any]:
    return lambda part: values(part.column(name))


def some_rows(name: str) -> Callable[[Rows], Any]:
    rows = np.array([5299, 0, 3000])
    return lambda part: values(part.column(name, rows))


def texts_of(part: Rows) -> Any:
    found = part.parts()
    return [found.row, found.field, found.chunk, found.key, found.primary]


def uses(part: Rows) -> Any:
    """Every use of a vector, by key: in the order of the postings."""
    found = part.postings()
    key = part.vector_keys()[np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))]
    return [key, found.row, found.field]


def primary_keys(part: Rows) -> Any:
    vec = part.vec_of_row()
    return [vec >= 0, part.vector_keys()[vec][vec >= 0]]


def templates(part: Rows) -> Any:
    of_row = part.template_of_row()
    return [of_row >= 0, part.template_keys()[of_row][of_row >= 0]]


LOOKS: dict[str, Callable[[Rows], Any]] = {
    **{name: column(name) for name in ("ts", "seq", "score", *PART.fields)},
    **{f"some of {name}": some_rows(name) for name in ("a#f", "model#s", "request_id", "body", "record")},
    "ids": lambda part: column_of_codes(part, "request_id"),
    "models": lambda part: column_of_codes(part, "model#s"),
    "numbers": lambda part: list(part.numbers("a#f"))[:1],
    "texts": texts_of,
    "uses": uses,
    "primary": primary_keys,
    "templates": templates,
    "template_rows": lambda part: list(part.template_rows()),
    "keys": lambda part: part.vector_keys(),
    "counts": lambda part: {name: part.fields[name].n for name in part.fields},
    "have": lambda part: part.vectors().have,
    "exact": lambda part: part.vectors().exact(np.array([0, 399, 200])),
    "filter": lambda part: [part.may_hold("request_id", f"req-{i:012x}") for i in range(0, 6000, 7)],
}


def column_of_codes(part: Rows, name: str) -> Any:
    found = part.codes(name)
    if found is None:
        return None
    codes, dictionary = found
    # Nothing that only rows had that are gone.
    assert sorted(set(codes[codes >= 0].tolist())) == list(range(len(dictionary)))
    return dictionary.take(pa.array(codes, mask=codes < 0)).to_pylist()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("whole") / "s"
    segment = opened(directory, rich_segment(directory))
    return {name: look(segment) for name, look in LOOKS.items()}


def without_gone(name: str, seen: Any) -> Any:
    """What a look at a whole segment sees, without the rows that are gone: by plain Python."""
    if name.startswith("some of "):
        every = values(PART.column(name.removeprefix("some of ")))
        return [every[row] for row in LEFT[[5299, 0, 3000]]]
    place = np.full(N_ROWS, -1)
    place[LEFT] = np.arange(len(LEFT))
    if name in ("texts", "uses"):
        at = 0 if name == "texts" else 1
        kept = place[seen[at]] >= 0
        return [place[one[kept]].astype(np.int32) if i == at else one[kept] for i, one in enumerate(seen)]
    if name in ("primary", "templates"):
        has, keys = seen
        whole = np.zeros(N_ROWS, keys.dtype)
        whole[has] = keys
        return [has[LEFT], whole[LEFT][has[LEFT]]]
    if name == "numbers":
        return [seen[0][LEFT]]
    if name in ("keys", "exact", "filter"):
        return seen
    if name == "have":
        have = seen.copy()
        have[FORGOTTEN] = False
        return have
    if name == "counts":
        return dict.fromkeys(seen, len(LEFT))  # there is no row without a value
    if name == "template_rows":
        offsets, rows = seen
        groups = [place[rows[lo:hi]] for lo, hi in pairwise(offsets)]
        left = [group[group >= 0] for group in groups if (group >= 0).any()]
        return [np.cumsum([0, *map(len, left)]).astype(np.int64), np.concatenate(left).astype(np.int32)]
    return None if seen is None else [seen[row] for row in LEFT]


def survivors(directory: Path, meta: SegmentMeta, gone: Callable[[], Gone] | None = None) -> Survivors:
    known = Gone(GONE, FORGOTTEN)
    return Survivors(Segment.open(OS_FILES, directory, meta), len(GONE), gone or (lambda: known), None)


def test_every_look_is_that_of_the_segment_without_the_rows(tmp_path: Path, whole: dict[str, Any]) -> None:
    part = survivors(tmp_path / "s", rich_segment(tmp_path / "s"))
    for name, look in LOOKS.items():
        assert_same(look(part), without_gone(name, whole[name]))
    assert part.n_rows == len(LEFT) == sum(s.hi - s.lo for s in part.slices)
    assert (part.t_min, part.t_max) == (min(part.ts), max(part.ts))
    assert part.n_vectors == len({key.tobytes() for key in part.parts().key})
    assert_same(part.rows_of_segment(np.array([3, 0])), LEFT[[3, 0]].astype(np.int32))


def test_rows_of_a_shard_stay_together_and_one_without_rows_is_gone(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    segment = Segment.open(OS_FILES, tmp_path / "s", meta)
    segment._slices = (Slice(0, 0, 10), Slice(1, 10, 30), Slice(4, 30, N_ROWS))  # as if it had shards
    gone = Gone(np.array([0, 5, *range(10, 30), 99], np.int32), np.empty(0, np.int32))
    part = Survivors(segment, len(gone.rows), lambda: gone, None)
    assert part.slices == (Slice(0, 0, 8), Slice(4, 8, N_ROWS - 23))


def flipping(share: float) -> Callable[[Path], object]:
    return lambda path: flip(path, int(path.stat().st_size * share))


DAMAGES: dict[str, Callable[[Path], object]] = {
    **{f"flip {share}": flipping(share) for share in (0.02, 0.2, 0.4, 0.6, 0.8, 0.98)},
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "missing": Path.unlink,
}
KINDS = ("hot", "text", "vec", "parts", "post", "patt", "late-0000")


def looked(look: Callable[[Rows], Any], part: Rows) -> Any:
    try:
        return look(part)
    except DamageError as error:
        return error


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_fails_only_where_that_at_the_whole_segment_does(
    tmp_path: Path, whole: dict[str, Any], kind: str, damage: str
) -> None:
    meta = rich_segment(tmp_path / "s")
    DAMAGES[damage](tmp_path / "s" / f"{kind}.arrow")
    segment, part = opened(tmp_path / "s", meta), survivors(tmp_path / "s", meta)
    failed = {name for name, look in LOOKS.items() if isinstance(looked(look, part), DamageError)}
    assert damage != "missing" or bool(failed) == (kind not in ("post", "patt"))
    for name, look in LOOKS.items():
        found, of_segment = looked(look, part), looked(look, segment)
        if not isinstance(found, DamageError):
            if name == "counts" or (
                name == "template_rows" and isinstance(looked(templates, part), DamageError)
            ):
                continue  # told without the file, and wider than need be
            assert_same(found, without_gone(name, whole[name]))
        else:
            needs_order = name in ("template_rows",)
            assert isinstance(of_segment, DamageError) or needs_order, name
            assert found.segment_id == meta.id
    for name, stats in part.fields.items():
        assert 0 < stats.n <= part.n_rows
        assert stats.n == part.n_rows or isinstance(looked(column(name), part), DamageError)
    assert part.t_min >= meta.t_min and part.t_max <= meta.t_max


def test_of_a_column_that_cannot_be_read_neither_all_nor_no_rows_are_said_to_have_a_value(
    tmp_path: Path,
) -> None:
    meta = rich_segment(tmp_path / "s")
    (tmp_path / "s" / "hot.arrow").unlink()

    def counted(n_left: int, n_of_segment: int) -> int:
        segment = Segment.open(OS_FILES, tmp_path / "s", meta)
        stats = segment.fields["a#f"]
        segment.__dict__["fields"] = {"a#f": type(stats)(n_of_segment)}
        gone = Gone(np.arange(n_left, N_ROWS, dtype=np.int32), np.empty(0, np.int32))
        return Survivors(segment, N_ROWS - n_left, lambda: gone, None).fields["a#f"].n

    assert counted(50, N_ROWS) == 50  # every row of the segment has one
    assert counted(50, 1) == 1
    assert counted(50, N_ROWS - 1) == 49
    assert counted(50, 50) == 49
    with pytest.raises(DamageError):
        counted(1, 10)


def test_where_the_deletion_cannot_be_read_no_row_is_shown(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    meta = rich_segment(directory)
    path = directory / "del-0000.arrow"
    deletion = write_deletion(OS_FILES, path, Gone(GONE, FORGOTTEN))
    meta = replace(meta, deleted=deletion)
    data = path.read_bytes()
    flipped = [data[:i] + bytes([data[i] ^ 4]) + data[i + 1 :] for i in range(9, len(data), 401)]
    for damaged in (data[:-1], b"", None, *flipped):
        path.unlink(missing_ok=True)
        if damaged is not None:
            path.write_bytes(damaged)
        part = survivors(directory, meta, lambda: read_deletion(OS_FILES, directory, meta))
        for name, look in LOOKS.items():
            found = looked(look, part)
            if name in ("keys", "filter", "counts"):
                continue
            assert isinstance(found, DamageError), name
            assert found.segment_id == meta.id and found.path == path
            assert f"{len(LEFT):,} events of segment {meta.id}" in str(found)
        assert (part.n_rows, part.t_min, part.t_max) == (len(LEFT), meta.t_min, meta.t_max)
    path.write_bytes(data)
    assert len(part.seq) == len(LEFT)  # a file that was brought back is read
