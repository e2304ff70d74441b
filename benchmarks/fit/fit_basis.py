"""Fits the token-path basis and the signature scales of the default model, and reports order and recall.

    python -m benchmarks.fit.fit_basis [--data DIR] [--dry-run]

Order (S71): is "First A; afterwards B." nearer to "A, then B." than to "B, then A."? Recall: how many of
the ten nearest texts by cosine are among the 100 nearest by code.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.fit import texts
from treering.indexer import calibration, corpus, path
from treering.indexer.embedder import Transformer, calibrate
from treering.indexer.model import locate
from treering.storage.signature import dequantise

OUT = Path(calibration.__file__).parent / "data" / calibration.SHIPPED
CLAUSES = (
    "the connection to the store was reset",
    "the scheduler retried the request",
    "the worker ran out of memory",
    "the operator restarted the node",
    "the cache was emptied",
    "the model answered in the wrong language",
    "the certificate expired",
    "the queue grew beyond its limit",
    "the user cancelled the stream",
    "the checkpoint was written to disk",
    "the guard blocked the answer",
    "the load balancer dropped a replica",
)
FRAMES = (("", ""), ("Last night at the site in Oslo, ", " That is all we know so far."))


def main() -> None:
    options = texts.arguments(__doc__ or "")
    transformer = Transformer(locate())
    sample, note = texts.full_corpus(options.data)
    basis, scale, heads = calibrate(transformer, sample)
    constants = calibration.shipped(basis, scale, kept_heads() or heads, f"basis: {note}")
    if not options.dry_run:
        OUT.write_bytes(calibration.dump(constants))
    print(f"{note}: basis {constants.basis_id}, calibration {constants.calibration_id}, {OUT.name}")
    report(transformer, constants, options.data)


def kept_heads() -> calibration.HeadFit | None:
    """The head fit that is already shipped; `fit_heads` makes it."""
    return calibration.load(locate().sha256, is_default=True).heads if OUT.exists() else None


def report(transformer: Transformer, constants: calibration.Calibration, data: Path) -> None:
    for name, (before, after) in zip(("plain", "framed"), FRAMES, strict=True):
        cosine, area = order_test(transformer, constants, before, after)
        print(f"order, {name}: right by cosine {cosine:.2f}, by areas {area:.2f}")
    sets = {"generated": corpus.texts(1200, seed=99)}
    if data.is_dir():
        sets["LogHub exemplars"] = [text for _, text in texts.loghub_exemplars(data)]
    for name, held_out in sets.items():
        vectors, codes, n_cut = encode(transformer, constants, held_out)
        print(
            f"{name}: {len(held_out)} texts, recall@10 in 100 "
            f"by level 1 {recall(vectors, codes[:, :16]):.2f}, "
            f"by all {recall(vectors, codes):.2f}, values beyond int8 {n_cut:.2%}"
        )


def order_test(
    transformer: Transformer, constants: calibration.Calibration, before: str, after: str
) -> tuple[float, float]:
    """Share of pairs in which the paraphrase is nearer than the swap, by cosine and by areas."""
    pairs = random.Random(1).sample(list(itertools.permutations(CLAUSES, 2)), 60)
    forms = (
        [f"{before}First {a}; afterwards {b}.{after}" for a, b in pairs],
        [f"{before}{a}, then {b}.{after}" for a, b in pairs],
        [f"{before}{b}, then {a}.{after}" for a, b in pairs],
    )
    (x, xa), (y, ya), (z, za) = (
        (v, unit(c[:, 16:])) for v, c, _ in (encode(transformer, constants, f) for f in forms)
    )
    by_cosine = (x * y).sum(1) > (x * z).sum(1)
    by_area = (xa * ya).sum(1) > (xa * za).sum(1)
    return float(by_cosine.mean()), float(by_area.mean())


def encode(
    transformer: Transformer, constants: calibration.Calibration, sample: list[str]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], float]:
    """Unit vectors, codes times scale, share of values that did not fit a code."""
    n = len(sample)
    vectors, values = np.empty((n, transformer.files.dim), np.float32), np.empty((n, 136))
    for done in transformer.passes(sample):
        assert done.states is not None
        vectors[done.rows] = done.pooled
        values[done.rows] = path.signatures(done.states, done.lengths, constants.basis)
    cut = np.abs(values) > 127.5 * constants.qls_scale
    codes = dequantise(path.encode(values, constants.qls_scale), constants.qls_scale.astype(np.float64))
    return vectors, codes, float(cut.mean())


def recall(vectors: npt.NDArray[np.float32], codes: npt.NDArray[np.float64]) -> float:
    rows = np.arange(0, len(vectors), max(1, len(vectors) // 300))
    near = np.argsort(-(vectors[rows] @ vectors.T), axis=1)[:, 1:11]
    gap = ((codes[rows, None, :] - codes[None, :, :]) ** 2).sum(2)
    found = np.argsort(gap, axis=1)[:, :101]
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(near, found, strict=True)]))


def unit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    length: npt.NDArray[np.float64] = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.maximum(length, 1e-12)


if __name__ == "__main__":
    main()
