"""Fits how each head's attention entropy grows with length; reports how evenly heads share texts (S70).

    python -m benchmarks.fit.fit_heads [--data DIR] [--dry-run]

Log lines are what fills shards by template, so the fit is made on them: answers among them moved the
largest shard of LogHub's exemplars from 20 % to 23 %.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.fit import texts
from benchmarks.fit.fit_basis import OUT
from treering.indexer import calibration, corpus, heads
from treering.indexer.embedder import Transformer
from treering.indexer.model import locate


def main() -> None:
    options = texts.arguments(__doc__ or "")
    transformer = Transformer(locate())
    sample, note = texts.log_corpus(options.data)
    bits, n_tokens = entropies(transformer, sample)
    fit = calibration.fit_heads(bits, n_tokens)
    if not options.dry_run:
        OUT.write_bytes(calibration.dump(with_heads(fit, note)))
    print(f"{note}: mean r of entropy with log2 tokens {correlation(bits, n_tokens):.2f}")
    sets = {"generated": corpus.texts(1200, seed=99)}
    if options.data.is_dir():
        sets["LogHub exemplars"] = [text for _, text in texts.loghub_exemplars(options.data)]
    for name, held_out in sets.items():
        report(name, *entropies(transformer, held_out), fit, transformer.files.n_heads)


def with_heads(fit: calibration.HeadFit, note: str) -> calibration.Calibration:
    """The shipped constants with another head fit."""
    old = calibration.load(locate().sha256, is_default=True)
    return calibration.shipped(
        old.basis, old.qls_scale, fit, f"{old.fitted_on.partition('; heads: ')[0]}; heads: {note}"
    )


def entropies(
    transformer: Transformer, sample: list[str]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    bits = np.empty((len(sample), transformer.files.n_layers * transformer.files.n_heads), np.float32)
    n_tokens = np.empty(len(sample), np.intp)
    for done in transformer.passes(sample):
        bits[done.rows], n_tokens[done.rows] = done.bits, done.n_tokens
    return bits, n_tokens


def correlation(bits: npt.NDArray[np.float32], n_tokens: npt.NDArray[np.intp]) -> float:
    many = n_tokens >= 2
    lengths = np.log2(n_tokens[many])
    return float(
        np.mean([np.corrcoef(lengths, bits[many, h])[0, 1] for h in range(bits.shape[1] - 12, bits.shape[1])])
    )


def report(
    name: str,
    bits: npt.NDArray[np.float32],
    n_tokens: npt.NDArray[np.intp],
    fit: calibration.HeadFit,
    n_heads: int,
) -> None:
    calibrated, _ = heads.sharpest(bits, n_tokens, fit, n_heads=n_heads)
    raw = bits[:, -n_heads:].argmin(axis=1)
    for how, head in (("calibrated", calibrated), ("raw", raw)):
        largest, effective = balance(np.asarray(head)[n_tokens >= 2], n_heads)
        print(
            f"{name}: {len(bits)} texts, {how}: largest shard {largest:.1%}, "
            f"{effective:.1f} effective of {n_heads}"
        )


def balance(head: npt.NDArray[np.integer], n_heads: int) -> tuple[float, float]:
    """Share of the largest shard, and 2 to the entropy of the shares."""
    share = np.bincount(head, minlength=n_heads) / len(head)
    used = share[share > 0]
    return float(share.max()), float(2 ** -(used * np.log2(used)).sum())


if __name__ == "__main__":
    main()
