from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.arrow_files import written
from treering.storage.ipc_layout import batch_ranges, dictionary_ranges, footer_range, n_buffers, read_blocks

CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "int": (pa.int64(), st.integers(-9, 9)),
    "float": (pa.float32(), st.floats(-1, 1, width=32)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=5)),
    "long text": (pa.large_string(), st.text(max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "key": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "list": (pa.list_(pa.int16()), st.lists(st.integers(0, 9), max_size=3)),
    "long list": (pa.large_list(pa.string()), st.lists(st.text(max_size=2), max_size=3)),
    "fixed list": (pa.list_(pa.float64(), 2), st.lists(st.floats(-1, 1), min_size=2, max_size=2)),
    "code": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "bc"])),
    "other code": (pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["x", "yz", ""])),
    "none": (pa.null(), st.none()),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.RecordBatch]:
    names = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=6, unique=True))
    batches = []
    for n_rows in draw(st.lists(st.integers(0, 5), min_size=1, max_size=1)):
        columns = []
        for name in names:
            kind, cells = CELLS[name]
            rows = draw(st.lists(st.one_of(st.none(), cells), min_size=n_rows, max_size=n_rows))
            columns.append(pa.array(rows, kind))
        batches.append(pa.RecordBatch.from_arrays(columns, names=names))
    return batches


def leaves(array: pa.Array) -> Iterator[pa.Buffer | None]:
    """The buffers of a column as they lie in a batch: those of its dictionary are elsewhere."""
    yield from array.buffers()


@given(tables())
def test_ranges_are_where_arrow_reads_its_buffers(batches: list[pa.RecordBatch]) -> None:
    file = written(batches)
    blocks = read_blocks(file)
    reader = pa.ipc.open_file(file)
    assert len(blocks.batches) == reader.num_record_batches == len(batches)
    for number, block in enumerate(blocks.batches):
        ranges = batch_ranges(file, block)
        batch = reader.get_batch(number)
        assert len(ranges) == sum(n_buffers(column.type) for column in batch.columns)
        place = 0
        for column in batch.columns:
            own = ranges[place : place + n_buffers(column.type)]
            place += len(own)
            for (start, end), buffer in zip(own, leaves(column), strict=False):
                if buffer is not None and end > start:
                    assert start == buffer.address - file.address
                    assert end <= block.end
                    assert buffer.size <= end - start + 7


@given(tables())
def test_dictionaries_are_numbered_in_the_order_of_their_columns(batches: list[pa.RecordBatch]) -> None:
    file = written(batches)
    coded = [
        column
        for column in pa.ipc.open_file(file).get_batch(0).columns
        if pa.types.is_dictionary(column.type)
    ]
    assert len(read_blocks(file).dictionaries) == len(coded)
    for block in read_blocks(file).dictionaries:
        number, ranges = dictionary_ranges(file, block)
        for (start, end), buffer in zip(ranges, coded[number].dictionary.buffers(), strict=True):
            if buffer is not None and end > start:
                assert start == buffer.address - file.address


def test_everything_that_a_column_of_a_compressed_batch_needs_is_in_its_ranges() -> None:
    rng = np.random.default_rng(0)
    columns = {"a": pa.array(rng.integers(0, 9, 5000)), "b": pa.array([f"{i} text" * 9 for i in range(5000)])}
    batch = pa.RecordBatch.from_pydict(columns)
    file = written([batch.slice(i, 1000) for i in range(0, 5000, 1000)], "lz4")
    blocks = read_blocks(file)
    for number, block in enumerate(blocks.batches):
        for place, name in enumerate(columns):
            first = 2 * place
            kept = batch_ranges(file, block)[first : first + n_buffers(columns[name].type)]
            # Whatever is not in them may be anything.
            scrambled = bytearray(file.to_pybytes())
            scrambled[block.body : block.end] = rng.bytes(block.body_bytes)
            for start, end in kept:
                scrambled[start:end] = file.slice(start, end - start).to_pybytes()
            options = pa.ipc.IpcReadOptions(included_fields=[place])
            found = pa.ipc.open_file(pa.py_buffer(bytes(scrambled)), options=options).get_batch(number)
            assert found.column(0).equals(columns[name].slice(1000 * number, 1000))


def test_the_footer_ends_before_its_length() -> None:
    file = written([pa.RecordBatch.from_pydict({"a": pa.array([1])})])
    start, end = footer_range(file)
    assert 0 < start < end == file.size - 10
    assert int.from_bytes(file.slice(end, 4).to_pybytes(), "little") == end - start
