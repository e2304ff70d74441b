"""One writer for each format that goes into files and pipes; all but parquet and arrow write row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from .answer import Answer
from .cells import cell, dumps, plain

Writer = Callable[[Answer, IO[bytes]], None]


def write_jsonl(answer: Answer, file: IO[bytes]) -> None:
    """One strict JSON object a line."""
    for row in answer.rows():
        file.write(dumps(row).encode() + b"\n")


def write_json(answer: Answer, file: IO[bytes]) -> None:
    """One array of objects, an object a line."""
    lead = b"["
    for row in answer.rows():
        file.write(lead + b"\n" + dumps(row).encode())
        lead = b","
    file.write(b"[]\n" if lead == b"[" else b"\n]\n")


def write_csv(answer: Answer, file: IO[bytes]) -> None:
    """CSV after RFC 4180 with LF: missing is nothing, empty text is `""`, lists and objects are JSON."""
    _write_lines(answer, file, separator=",", quote=_csv_field)


def write_tsv(answer: Answer, file: IO[bytes]) -> None:
    r"""Tab separated, one line a row: tab, line feed, return and backslash are written `\t \n \r \\`."""
    _write_lines(answer, file, separator="\t", quote=_tsv_field)


def _write_lines(
    answer: Answer, file: IO[bytes], *, separator: str, quote: Callable[[str | None], str]
) -> None:
    def line(values: Iterable[str | None]) -> bytes:
        # A lone half surrogate has no UTF-8; its escape keeps the row.
        return (separator.join(quote(v) for v in values) + "\n").encode("utf-8", "backslashreplace")

    columns = answer.columns()
    file.write(line(columns))
    for row in answer.rows():
        file.write(line(plain(row.get(column)) for column in columns))


def _csv_field(value: str | None) -> str:
    if value is None:
        return ""
    if value and not any(c in value for c in ',"\r\n'):
        return value
    return '"' + value.replace('"', '""') + '"'


def _tsv_field(value: str | None) -> str:
    if value is None:
        return ""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def write_md(answer: Answer, file: IO[bytes]) -> None:
    """A Markdown table; control characters are shown escaped."""

    def line(values: Iterable[str]) -> bytes:
        return ("| " + " | ".join(value.replace("|", "\\|") for value in values) + " |\n").encode()

    columns = answer.columns()
    file.write(line(cell(column) for column in columns))
    file.write(line("---" for _ in columns))
    for row in answer.rows():
        file.write(line(cell(row.get(column)) for column in columns))


def write_parquet(answer: Answer, file: IO[bytes]) -> None:
    """Parquet, zstd."""
    import pyarrow.parquet as pq

    pq.write_table(answer.to_arrow(), file, compression="zstd")


def write_arrow(answer: Answer, file: IO[bytes]) -> None:
    """Arrow IPC file (Feather version 2)."""
    import pyarrow as pa

    table = answer.to_arrow()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[str, Writer] = {
    "jsonl": write_jsonl,
    "json": write_json,
    "csv": write_csv,
    "tsv": write_tsv,
    "md": write_md,
    "parquet": write_parquet,
    "arrow": write_arrow,
}
"""Writers by format; `table` is drawn by `table.py`."""

BINARY = frozenset({"parquet", "arrow"})
"""Formats that a terminal cannot show."""

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".md": "md",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""Format by the ending of a file's name."""
