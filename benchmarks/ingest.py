"""Raw log lines in: how fast they are acknowledged, how fast every vector is there, beside the encoder's own rate."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import treering as tr

from .events import make_lines


@dataclass(slots=True)
class LineLoad:
    """One run over a file of log lines.

    acknowledged_per_s: lines a second until all are durable. filled_per_s: until every vector is there and segments
    are ordered. miss_share: embedded texts / events. encoder_per_s: texts a second of the encoder alone on the texts
    that missed. bytes_per_event: on disk, all files; text_bytes_per_event: of it the compressed text file.
    """

    label: str
    lines: int
    acknowledged_per_s: float
    filled_per_s: float
    miss_share: float
    encoder_per_s: float
    bytes_per_event: float
    text_bytes_per_event: float

    @property
    def bound_per_s(self) -> float:
        """The smaller of encoder rate / miss share and the acknowledged rate."""
        if not self.miss_share:
            return self.acknowledged_per_s
        return min(self.acknowledged_per_s, self.encoder_per_s / self.miss_share)


def measure_lines(n: int, *, seed: int = 7) -> list[LineLoad]:
    """Load the same kind of log twice: into a new store (cold), then a second day into the same store (warm)."""
    loads = []
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        ring = directory / "ring"
        for label, day in (
            ("cold: new store, model load included", seed),
            ("warm: same store and process", seed + 1),
        ):
            file = directory / f"{day}.log"
            file.write_bytes(make_lines(n, seed=day))
            with tr.open(ring) as store:
                before = sum(f.stat().st_size for f in ring.rglob("*") if f.is_file())
                start = time.perf_counter()
                summary = store.ingest(str(file), year=2026, embed=True)
                seconds = time.perf_counter() - start
            sizes = {f: f.stat().st_size for f in ring.rglob("*") if f.is_file()}
            text = sum(size for f, size in sizes.items() if f.name == "text.arrow")
            loads.append(
                LineLoad(
                    label,
                    summary.accepted,
                    summary.accepted / summary.read_s,
                    summary.accepted / seconds,
                    summary.miss_share,
                    encoder_rate(file),
                    (sum(sizes.values()) - before) / summary.accepted,
                    text / summary.accepted,
                )
            )
    return loads


def encoder_rate(file: Path, *, texts: int = 600) -> float:
    """Texts a second of the encoder alone, model loaded, on distinct lines of the file."""
    import numpy as np

    from treering.indexer.embedder import Embedder
    from treering.storage.batch import KEY

    lines = file.read_text().split("\n")
    chosen = [line.partition("] ")[2] for line in lines[:: max(1, len(lines) // texts)] if line][:texts]
    embedder = Embedder()
    keys = np.zeros(len(chosen), KEY)
    embedder.encode(chosen[:32], keys[:32])
    start = time.perf_counter()
    embedder.encode(chosen, keys)
    return len(chosen) / (time.perf_counter() - start)
