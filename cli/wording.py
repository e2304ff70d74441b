"""Numbers and times as sentences say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treering.indexer.fill import FillReport
    from treering.indexer.reembed import ReembedReport


def plural(n: int, word: str) -> str:
    """Give `1 event`, `1,200 events`."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def moment(ns: int) -> str:
    """Give int64 nanoseconds since 1970 UTC as RFC 3339 in UTC."""
    from datetime import UTC, datetime

    seconds, fraction = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def span(first_ns: int, last_ns: int) -> str:
    """Give `from FIRST to LAST`, both inclusive."""
    return f"from {moment(first_ns)} to {moment(last_ns)}"


def held_line(n_files: int) -> str:
    """Say that files would be gone but for readers of older versions."""
    return (
        f"readers still hold {plural(n_files, 'old file')}, to go when they are done "
        "(--wait SECONDS waits for that)"
    )


def embedded_line(report: FillReport | ReembedReport) -> str:
    """Say how many texts got their vector, and how fast."""
    rate = f" ({report.texts / report.seconds:,.0f} texts/s)" if report.texts and report.seconds else ""
    return (
        f"embedded {plural(report.texts, 'text')} for {plural(report.rows, 'event')} "
        f"in {report.seconds:.1f} s{rate}"
    )
