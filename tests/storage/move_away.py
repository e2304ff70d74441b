"""A small store on its way to another model, and what is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.storage.records import MODEL, vectors_of
from tests.storage.words import Row, embed, open_words, stored, words
from treering.storage.audit import check_chain
from treering.storage.batch import Keys, Vectors
from treering.storage.moving import Anew, Mover
from treering.storage.part import Part
from treering.storage.ring import Ring

OTHER = replace(MODEL, model_id="other", dim=16, basis_id="basis 2")
SECRET = "zqalice"


Holding = tuple[list[Row], str | None, dict[str, bytes | None], set[float]]
"""Events, model, the codes of the vector of each first word, values of a signal made of vectors."""


def renew(part: Part) -> Anew:
    """Nothing of these signals was there before vectors were."""
    return Anew({"attention_collapse": None, "attention_source": None})


def other_vectors(keys: Keys) -> Vectors:
    """Vectors of the other model."""
    old = vectors_of(keys)
    return replace(
        Vectors.of(keys, np.hstack([0 * old.exact(), -old.exact()])),
        heads=old.heads,
        n_tokens=old.n_tokens,
        head=old.head,
        second=old.second,
        qls=old.qls,
    )


def embed_anew(ring: Ring) -> int:
    """Do what `fill` does, with the other model; give how many texts were embedded."""
    n_texts = 0
    for segment in ring.unfinished():
        keys = segment.vectors().key[~segment.vectors().have]
        found, known = ring.lookup(keys)
        ring.add_late(segment.id, vectors=known)
        n_texts += int(np.count_nonzero(~found))
        signals = {"attention_collapse": pa.array(np.full(segment.n_rows, 0.75))}
        ring.add_late(segment.id, vectors=other_vectors(keys[~found]), signals=signals, signals_done=True)
    ring.fold()
    return n_texts


def move(ring: Ring) -> int:
    """Move a store; give how many texts were embedded."""
    mover = ring.mover(OTHER, renew)
    try:
        assert mover.catch_up()
        n_texts = embed_anew(ring.shadow(mover))
        assert mover.swap()
    finally:
        mover.close()
    return n_texts


def holding(ring: Ring) -> Holding:
    """What is in a store; its audit record is whole."""
    check_chain(*ring.audit())
    vectors: dict[str, bytes | None] = {}
    signals: set[float] = set()
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            table = part.vectors()
            for body, vec in zip(part.column("body").to_pylist(), part.vec_of_row().tolist(), strict=True):
                code = table.codes[vec, : table.dim].tobytes() if table.have[vec] else None
                assert vectors.setdefault(body.split()[0], code) == code
            if "attention_collapse" in part.fields:
                signals |= set(part.column("attention_collapse").to_pylist())
        model = snapshot.model
    return stored(ring), None if model is None else model.model_id, vectors, signals


def build_small(path: Path) -> None:
    """Make a store with a folded segment, a young one, and an event that only the log has."""
    with open_words(path) as ring:
        ring.append(words([(10, "login zqalice"), (20, "login bob"), (30, "paid bob")]))
        ring.flush()
        embed(ring)
        ring.fold()
        ring.append(words([(45, "paid zqalice")]))
        ring.flush()
        embed(ring)
        ring.append(words([(50, "last carol")]))


def begun(ring: Ring) -> Mover:
    """A move that has caught up and embedded all."""
    mover = ring.mover(OTHER, renew)
    assert mover.catch_up()
    embed_anew(ring.shadow(mover))
    return mover
