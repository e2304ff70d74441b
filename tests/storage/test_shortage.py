"""Memory that ran out is told from every other error, whichever library says it."""

import pyarrow as pa
import pytest

from treering.storage.errors import DamageError, ShortageError
from treering.storage.shortage import is_shortage, shortage_told


class _OfDuckDB(Exception):
    __module__ = "_duckdb"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        _OfDuckDB("Out of Memory Error: Allocation failure"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("libx.so: cannot allocate memory in static TLS block"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        ),
        RuntimeError("std::bad_alloc"),
        ShortageError("memory ran out"),
    ],
)
def test_what_means_that_memory_ran_out(error: Exception) -> None:
    assert is_shortage(error)
    with pytest.raises(ShortageError, match=r"memory ran out"), shortage_told("while it was tried"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        ImportError("No module named 'torch'"),
        RuntimeError("out of order"),
        _OfDuckDB("Binder Error: no such column"),
        ValueError("out of memory"),
        DamageError("a file is damaged: out of memory"),
    ],
)
def test_what_does_not(error: Exception) -> None:
    assert not is_shortage(error)
    with pytest.raises(type(error)) as caught, shortage_told("while it was tried"):
        raise error
    assert caught.value is error


def test_one_line_says_what_was_done_and_what_helps() -> None:
    with pytest.raises(ShortageError) as caught, shortage_told("while the model was loaded"):
        raise MemoryError
    assert str(caught.value).startswith(
        "memory ran out while the model was loaded: end other programs, or raise"
    )
    assert "\n" not in str(caught.value) and isinstance(caught.value, MemoryError)
