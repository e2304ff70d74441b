"""Compiled scans over int8 vectors. Import this only where numba may be loaded (`scores` decides).

One row is `width / 64` VNNI instructions where the processor has AVX-512 VNNI, else a plain loop; both give
the same integers. Codes stay signed: each byte is flipped by 0x80, which adds 128, and 128 * sum(query) is
taken off again.

Source: Intel SDM, VPDPBUSD; the intrinsic is inline assembly because LLVM's own changed its types between
versions.
"""

# numba types its decorators by hand and fills in the first argument of an intrinsic itself.
# mypy: disable-error-code="untyped-decorator,call-arg"
from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.core.extending import intrinsic

from .scores import LANES

BLOCK = 64
"""Bytes of one AVX-512 register; rows are padded to a multiple of it."""

UNROLLED = 6
"""Blocks multiplied without a branch: one row of 384 dimensions."""

AHEAD = 16
"""Rows between the one that is read and the one that is asked for from memory."""


def _has_vnni() -> bool:
    if config.CPU_NAME or config.CPU_FEATURES:  # compiled for another processor than this one
        return False
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512vnni") and features.get("avx512bw"))


HAS_VNNI = _has_vnni()
"""Whether the fast dot product can run here."""

if HAS_VNNI:
    llvm.initialize_native_asmparser()


@intrinsic
def _vnni_dot(typing: Any, codes: Any, row: Any, query: Any) -> Any:
    """Sum of (codes[row] + 128) * query as int32; 0 where there is no VNNI."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not HAS_VNNI:
            return ir.Constant(ir.IntType(32), 0)
        rows = context.make_array(signature.args[0])(context, builder, args[0])
        wanted = context.make_array(signature.args[2])(context, builder, args[2])
        width = builder.extract_value(rows.shape, 1)
        base = builder.ptrtoint(rows.data, width.type)
        start = builder.add(base, builder.mul(builder.sext(args[1], width.type), width))
        return _emit_dot(builder, start, builder.ptrtoint(wanted.data, width.type), width)

    return types.int32(codes, row, query), generate


def _emit_dot(builder: Any, start: Any, query: Any, width: Any) -> Any:
    """Multiply a row block by block and sum its 16 lanes."""
    lanes, bytes_ = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), BLOCK)
    pointer = bytes_.as_pointer()
    flip = ir.Constant(bytes_, [0x80] * BLOCK)
    multiply = ir.InlineAsm(
        ir.FunctionType(lanes, [lanes, bytes_, bytes_]), "vpdpbusd $3, $2, $0", "=v,0,v,v"
    )
    total = cgutils.alloca_once(builder, lanes)
    builder.store(ir.Constant(lanes, [0] * 16), total)

    def block(offset: Any) -> None:
        codes = builder.load(builder.inttoptr(builder.add(start, offset), pointer), align=1)
        wanted = builder.load(builder.inttoptr(builder.add(query, offset), pointer), align=1)
        builder.store(builder.call(multiply, [builder.load(total), builder.xor(codes, flip), wanted]), total)

    _emit_blocks(builder, width, block)
    return _sum_lanes(builder, builder.load(total))


def _emit_blocks(builder: Any, width: Any, block: Any) -> None:
    """Call `block` for each 64 bytes of a row: `UNROLLED` without a branch, then the rest one by one."""
    at = cgutils.alloca_once(builder, width.type)
    builder.store(ir.Constant(width.type, 0), at)
    for n_blocks in (UNROLLED, 1):
        size = ir.Constant(width.type, n_blocks * BLOCK)
        test, body, done = (builder.append_basic_block(name) for name in ("test", "blocks", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        following = builder.add(builder.load(at), size)
        builder.cbranch(builder.icmp_signed("<=", following, width), body, done)
        builder.position_at_end(body)
        for i in range(n_blocks):
            block(builder.add(builder.load(at), ir.Constant(width.type, i * BLOCK)))
        builder.store(following, at)
        builder.branch(test)
        builder.position_at_end(done)


def _sum_lanes(builder: Any, lanes: Any) -> Any:
    """Sum of the 16 int32 of a vector, by halves."""
    n = 16
    while n > 1:
        n //= 2
        mask = ir.Constant(ir.VectorType(ir.IntType(32), n), list(range(n)))
        upper = ir.Constant(ir.VectorType(ir.IntType(32), n), list(range(n, 2 * n)))
        low = builder.shuffle_vector(lanes, ir.Constant(lanes.type, ir.Undefined), mask)
        high = builder.shuffle_vector(lanes, ir.Constant(lanes.type, ir.Undefined), upper)
        lanes = builder.add(low, high)
    return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))


@intrinsic
def _prefetch(typing: Any, codes: Any, row: Any) -> Any:
    """Ask for a row from memory ahead of its use; any row number may be asked for."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if HAS_VNNI:
            rows = context.make_array(signature.args[0])(context, builder, args[0])
            width = builder.extract_value(rows.shape, 1)
            base = builder.ptrtoint(rows.data, width.type)
            start = builder.add(base, builder.mul(builder.sext(args[1], width.type), width))
            _emit_prefetch(builder, start, width)
        return context.get_dummy_value()

    return types.void(codes, row), generate


def _emit_prefetch(builder: Any, start: Any, width: Any) -> None:
    signature = ir.FunctionType(ir.VoidType(), [width.type])
    fetch = ir.InlineAsm(signature, "prefetcht0 ($0)", "r", side_effect=True)
    _emit_blocks(builder, width, lambda offset: builder.call(fetch, [builder.add(start, offset)]))


CODES = types.Array(types.int8, 2, "C", readonly=True)
QUERY = types.Array(types.int8, 1, "C", readonly=True)
FLOATS = types.Array(types.float32, 1, "C", readonly=True)
BOOLS = types.Array(types.boolean, 1, "C", readonly=True)
IDS = types.Array(types.int32, 1, "C", readonly=True)
WRITTEN = types.Array(types.float32, 1, "C")
WRITTEN_IDS = types.Array(types.int32, 1, "C")
WRITTEN_INTS = types.Array(types.int32, 1, "C")


@njit(types.int32(CODES, types.int64, QUERY), cache=True, nogil=True)
def _plain_dot(codes: Any, row: Any, query: Any) -> Any:
    total = np.int32(0)
    for j in range(codes.shape[1]):
        total += np.int32(np.int16(codes[row, j]) * np.int32(query[j]))
    return total


@njit(types.void(CODES, QUERY, types.boolean, WRITTEN_INTS), cache=True, nogil=True)
def int_dots(codes: Any, query: Any, vnni: Any, out: Any) -> None:
    """Integer dot products of all rows with the query into `out`; vnni: use the processor's instruction."""
    offset = np.int32(0)
    for j in range(len(query)):
        offset += np.int32(128) * np.int32(query[j])
    for i in range(codes.shape[0]):
        out[i] = _vnni_dot(codes, i, query) - offset if vnni else _plain_dot(codes, i, query)


@njit(
    types.void(CODES, FLOATS, BOOLS, IDS, types.boolean, QUERY, types.float32, types.boolean, WRITTEN),
    cache=True,
    nogil=True,
)
def score(
    codes: Any,
    scale: Any,
    have: Any,
    ids: Any,
    use_ids: Any,
    query: Any,
    query_scale: Any,
    vnni: Any,
    out: Any,
) -> None:
    """Approximate cosines into `out` (-inf where there is no vector), of rows `ids` or of all rows."""
    offset = np.int32(0)
    for j in range(len(query)):
        offset += np.int32(128) * np.int32(query[j])
    for j in range(len(out)):
        i = np.int64(ids[j]) if use_ids else j
        if vnni:
            _prefetch(codes, np.int64(ids[min(j + AHEAD, len(ids) - 1)]) if use_ids else j + AHEAD)
        if not have[i]:
            out[j] = -np.inf
            continue
        dot = _vnni_dot(codes, i, query) - offset if vnni else _plain_dot(codes, i, query)
        out[j] = np.float32(dot) * (scale[i] * query_scale)


@njit(types.void(WRITTEN, types.float32), cache=True, nogil=True)
def _replace_least(heap: Any, value: Any) -> None:
    """Put `value` in the place of the least of a min-heap."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@njit(
    types.int64(
        *(CODES, FLOATS, FLOATS, BOOLS, IDS, types.boolean, QUERY),
        *(
            types.float32,
            types.float32,
            types.float32,
            types.float32,
            types.boolean,
            WRITTEN,
            WRITTEN_IDS,
            WRITTEN,
        ),
    ),
    cache=True,
    nogil=True,
)
def select(
    codes: Any,
    scale: Any,
    err: Any,
    have: Any,
    ids: Any,
    use_ids: Any,
    query: Any,
    query_scale: Any,
    slope: Any,
    slack: Any,
    floor: Any,
    vnni: Any,
    lowest: Any,
    out_ids: Any,
    out_upper: Any,
) -> Any:
    """Rows whose upper bound reaches the k-th best lower bound so far, with their bounds; gives their number.

    The true score of row i lies within slope * err[i] + slack of its approximate score. lowest: float32 (k),
    work space, filled with -inf by the caller: a heap of the k best lower bounds. floor: scores below it are
    not wanted. out_ids, out_upper: as long as there are rows to scan.
    """
    offset = np.int32(0)
    for j in range(len(query)):
        offset += np.int32(128) * np.int32(query[j])
    n = len(out_ids)
    wanted = max(floor, lowest[0])
    found = 0
    for j in range(n):
        i = np.int64(ids[j]) if use_ids else j
        if vnni:
            _prefetch(codes, np.int64(ids[min(j + AHEAD, n - 1)]) if use_ids else j + AHEAD)
        if not have[i]:
            continue
        dot = _vnni_dot(codes, i, query) - offset if vnni else _plain_dot(codes, i, query)
        near = np.float32(dot) * (scale[i] * query_scale)
        margin = slope * err[i] + slack
        if near + margin < wanted:
            continue
        out_ids[found] = i
        out_upper[found] = near + margin
        found += 1
        if near - margin > lowest[0]:
            _replace_least(lowest, near - margin)
            wanted = max(floor, lowest[0])
    return found


@njit(
    types.void(CODES, CODES, FLOATS, IDS, types.Array(types.float64, 1, "C", readonly=True), WRITTEN),
    cache=True,
    nogil=True,
)
def rescore(codes: Any, rest: Any, scale: Any, ids: Any, query: Any, out: Any) -> None:
    """Exact scores of the vectors `ids` into `out`, from both planes, as `scores.Scorer.exact` defines them.

    query: float64 (dim). No `fastmath`: the sums must have the order, and so the bits, of the plain way.
    """
    sums = np.empty(LANES, np.float64)
    for j in range(len(ids)):
        i = np.int64(ids[j])
        step = scale[i] / np.float32(256.0)
        sums[:] = 0.0
        for start in range(0, rest.shape[1], LANES):
            low = rest[i, start : start + LANES]
            high, wanted = codes[i, start : start + LANES], query[start : start + LANES]
            for lane in range(len(low)):
                value = np.float32(high[lane]) * np.float32(256.0) + np.float32(low[lane])
                sums[lane] += np.float64(value * step) * wanted[lane]
        half = LANES // 2
        while half:
            for lane in range(half):
                sums[lane] += sums[lane + half]
            half //= 2
        out[j] = sums[0]


def dots(
    codes: npt.NDArray[np.int8], query: npt.NDArray[np.int8], *, vnni: bool = HAS_VNNI
) -> npt.NDArray[np.int32]:
    """Exact integer dot products of int8 rows (n, width) with an int8 query, width a multiple of 64."""
    out = np.empty(len(codes), np.int32)
    int_dots(codes, query, vnni and HAS_VNNI, out)
    return out
