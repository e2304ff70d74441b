"""What is said of an erasure: before it, to who has to be sure, and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.query.cells import dumps, visible

from .wording import held_line, plural, span

if TYPE_CHECKING:
    from treering.query.receipts import Receipt

EXAMPLE_CHARACTERS = 200
"""How much of an event is shown."""


def preview_lines(receipt: Receipt) -> list[str]:
    """Give what a dry run says."""
    lines = [_counted(receipt, "would go")]
    if receipt.first_ns is not None and receipt.last_ns is not None:
        lines.append(span(receipt.first_ns, receipt.last_ns))
    for example in receipt.examples:
        text = visible(dumps(example))
        lines.append(f"  {text[:EXAMPLE_CHARACTERS]}{'…' if len(text) > EXAMPLE_CHARACTERS else ''}")
    return lines + _hints(receipt)


def receipt_lines(receipt: Receipt) -> list[str]:
    """Give what stands at the end of an erasure."""
    lines = [_counted(receipt, "gone"), *_hints(receipt)]
    if receipt.vectors:
        lines.append(f"to be made again of what is left: {plural(receipt.vectors, 'vector')}")
    lines += [f"error: {visible(text)}" for text in receipt.damaged]
    if receipt.waiting:
        lines.append(held_line(receipt.waiting))
    if receipt.id:
        erased = "erased from every file" if receipt.erased else "not erased from every file yet"
        lines.append(f"receipt {receipt.id}, version {receipt.version}: {erased}")
    return lines


def _counted(receipt: Receipt, verb: str) -> str:
    what = [plural(receipt.events, "event")]
    what += [plural(receipt.rejects, "rejected record")] if receipt.rejects else []
    n_segments = receipt.segments_dropped + len(receipt.rewritten)
    return f"{' and '.join(what)} in {plural(n_segments, 'segment')} {verb}"


def _hints(receipt: Receipt) -> list[str]:
    undated = f"{plural(receipt.undated, 'file')} of rejects kept: nobody knows when they were written"
    return [f"hint: {hint}" for hint in receipt.hints] + ([undated] if receipt.undated else [])
