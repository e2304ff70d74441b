"""Another model of letters, records that both embed, and all that a store holds of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.indexer.letters import ANSWERS, INFO, Letters
from treering.indexer.fill import fill
from treering.indexer.ingest import IngestOptions, ingest
from treering.storage.batch import Keys, ModelInfo, Vectors
from treering.storage.part import VectorTable
from treering.storage.ring import Ring

OTHER = replace(INFO, model_id="letters@other", dim=48, basis_id="b2", calibration_id="c2")


RECORDS: list[dict[str, Any]] = [
    *ANSWERS,
    {"message": "took 5 ms", "response_coherence": 0.5},
    {"response": "Of its own.", "prompt": "Whose?", "response_coherence": 0.75},
    {"response": "Yes.", "context": ["No."], "logprobs": {"content": [{"token": "Y", "logprob": -1.0}]}},
]


HOURS_NS = 3600 * 10**9


DAY_NS = 1_777_593_600 * 10**9
"""2026-05-01 in UTC."""


class Others(Letters):
    """Another model: letter counts of 48 places, the other way round."""

    def __init__(self, info: ModelInfo = OTHER, *, fails_after: int | None = None) -> None:
        super().__init__(info, fails_after=fails_after)
        self.before: Callable[[], None] = lambda: None

    def encode(self, texts: list[str], keys: Keys) -> Vectors:
        self.before()
        vectors = super().encode(texts, keys)
        vectors.heads[:] = 32
        return vectors

    def encode_vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        counts = np.full((len(texts), 48), 0.02, np.float32)
        for row, text in enumerate(texts):
            for sign in text.lower():
                counts[row, -ord(sign) % 48] += 1
        unit: npt.NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit


class Loader:
    """Puts records into a store, each call an hour later and into a segment of its own."""

    def __init__(self, ring: Ring, folder: Path) -> None:
        self.ring, self.folder = ring, folder
        self.n_calls = 0

    def __call__(self, records: Sequence[dict[str, Any]], *, flushes: bool = True) -> None:
        hour, self.n_calls = self.n_calls, self.n_calls + 1
        lines = [
            json.dumps({"ts": f"2026-05-01T{hour:02}:00:{at:02}Z", "n": at, **record})
            for at, record in enumerate(records)
        ]
        path = self.folder / f"{self.ring.path.name}-{hour}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        ingest(self.ring, [str(path)], options=IngestOptions())
        if flushes:
            self.ring.flush()


Make = Callable[[str], Loader]
"""Makes a store of a name."""


def content(ring: Ring) -> dict[int, dict[str, Any]]:
    """All columns of each event but its source, and the exact vector of each of its texts, by number."""
    found: dict[int, dict[str, Any]] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            names = [name for name in part.fields if name != "source"]
            columns = {name: part.column(name).to_pylist() for name in names}
            table, texts = part.vectors(), part.parts()
            places = {key.tobytes(): at for at, key in enumerate(table.key)}
            for row, seq in enumerate(part.seq.tolist()):
                held = {name: values[row] for name, values in columns.items() if values[row] is not None}
                mine = np.flatnonzero(texts.row == row).tolist()
                held["texts"] = [
                    (
                        int(texts.field[one]),
                        int(texts.chunk[one]),
                        bool(texts.primary[one]),
                        *exact(table, places[texts.key[one].tobytes()]),
                    )
                    for one in mine
                ]
                found[seq] = held
    return found


def exact(table: VectorTable, at: int) -> tuple[Any, ...]:
    """A vector of a dictionary, bit by bit."""
    names = ("rest", "heads", "qls", "scale", "n_tokens", "head")
    codes = table.codes[at, : table.dim].tobytes()
    return bool(table.have[at]), codes, *(getattr(table, name)[at].tobytes() for name in names)


def fresh(make: Make, batches: Sequence[Sequence[dict[str, Any]]]) -> Ring:
    """A store that had the other model from the start."""
    load = make("fresh")
    for batch in batches:
        load(batch)
    fill(load.ring, Others())
    return load.ring


def embedded(make: Make) -> Loader:
    """A store whose records the first model embedded."""
    load = make("moved")
    load(RECORDS)
    fill(load.ring, Letters())
    return load
