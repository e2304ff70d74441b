"""Texts to vectors, head entropies and path codes in one pass. Importing this loads torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from treering.storage.batch import Keys, ModelInfo, Vectors
from treering.storage.errors import ModelError
from treering.storage.fixed_point import quantise

from . import calibration, corpus, heads, path
from .calibration import Calibration
from .light import QUERY_CACHE
from .model import PLAIN_STAGES, ModelFiles, describe, locate
from .tokens import Tokenizer, Tokens

Floats = npt.NDArray[np.float32]

BATCH_TOKENS = 2048
"""Padded tokens of one batch: 1,024 was a third slower, 4,096 and more 35 % and more (2 cores)."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What the transformer gave for one batch.

    rows: which texts. pooled: float32 (b, dim), unit length. lengths: tokens with special ones; n_tokens:
    without. states: float32 (b, longest, dim), padded at the end. bits: float32 (b, layers * heads), see
    `_entropies`. states and bits are None where only vectors were asked for.
    """

    rows: npt.NDArray[np.intp]
    pooled: Floats
    lengths: npt.NDArray[np.intp]
    n_tokens: npt.NDArray[np.intp]
    states: Floats | None
    bits: Floats | None


class Transformer:
    """The network with its tokenizer and its own way of pooling."""

    def __init__(self, files: ModelFiles, *, dtype: torch.dtype | None = None) -> None:
        self.files = files
        self.dtype = dtype or best_dtype()
        self._tokenizer = Tokenizer(files)
        torch.set_num_threads(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
        self._network, self._stages = _load(files, self.dtype)

    def passes(self, texts: Sequence[str], *, vectors_only: bool = False) -> Iterator[Pass]:
        """Give every text's outcome, in batches of similar length, longest first."""
        tokens = self._tokenizer(texts)
        with torch.inference_mode():
            for rows in batches([len(t) for t in tokens]):
                yield self._run(rows, [tokens[row] for row in rows], vectors_only=vectors_only)

    def _run(self, rows: npt.NDArray[np.intp], tokens: Sequence[Tokens], *, vectors_only: bool) -> Pass:
        inputs, is_text = _pad(tokens, self.files)
        # Fused attention keeps no weights, so the eager one runs whenever entropies are wanted.
        out = self._network(**inputs, output_attentions=not vectors_only)
        mask = inputs["attention_mask"]
        states = out.last_hidden_state.float() * mask[:, :, None]
        return Pass(
            rows=rows,
            pooled=self._pool(states, mask),
            lengths=mask.sum(dim=1).numpy(),
            n_tokens=is_text.sum(dim=1).numpy(),
            states=None if vectors_only else states.numpy(),
            bits=None if vectors_only else _entropies(_attentions(out, self.files), is_text).numpy(),
        )

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> Floats:
        if self._stages is not None:
            features = {"token_embeddings": states, "attention_mask": mask}
            for stage in self._stages:
                features = stage(features)
            pooled = features["sentence_embedding"]
        elif self.files.pooling == "cls":
            pooled = states[:, 0]
        else:
            pooled = states.sum(dim=1) / mask.sum(dim=1, keepdim=True)
        unit: Floats = torch.nn.functional.normalize(pooled, dim=1).numpy()
        if not np.isfinite(unit).all():
            raise ModelError(
                f"{self.files.model_id} gave a vector that is not finite; its weights are damaged"
            )
        return unit


class Embedder:
    """The embedding model, ready for many texts."""

    def __init__(self, files: ModelFiles | None = None, *, dtype: torch.dtype | None = None) -> None:
        self._transformer = Transformer(files or locate(), dtype=dtype)
        self._constants = _constants(self._transformer)
        self._cached = lru_cache(QUERY_CACHE)(self._encode_query)

    @property
    def info(self) -> ModelInfo:
        """The model, as a store remembers it."""
        dtype = str(self._transformer.dtype).removeprefix("torch.")
        return describe(self._transformer.files, self._constants, dtype=dtype)

    def encode(self, texts: Sequence[str], keys: Keys) -> Vectors:
        """Give the vectors of `texts`, whose keys are `keys`, in that order.

        Any string has a vector, the empty one too; what lies beyond the model's window is not read.
        """
        if len(texts) != len(keys):
            raise ValueError(f"{len(texts)} texts for {len(keys)} keys")
        info = self.info
        n_heads, n_qls = info.n_layers * info.n_heads, len(info.qls_scale)
        result = Vectors.blank(keys, info.dim, n_heads=n_heads, n_qls=n_qls)
        for done in self._transformer.passes(self._prompted(texts)):
            self._fill(result, done)
        return result

    def encode_vectors(self, texts: Sequence[str]) -> Floats:
        """Give vectors alone, float32 (texts, dim), unit length."""
        result = np.empty((len(texts), self.info.dim), np.float32)
        for done in self._transformer.passes(self._prompted(texts), vectors_only=True):
            result[done.rows] = done.pooled
        return result

    def encode_query(self, text: str) -> Floats:
        """Give a query's vector, float32 (dim), unit length and read-only (it is kept)."""
        return self._cached(text)

    def _encode_query(self, text: str) -> Floats:
        prompted = self._transformer.files.query_prompt + text
        vector: Floats = next(self._transformer.passes([prompted], vectors_only=True)).pooled[0]
        vector.setflags(write=False)
        return vector

    def _prompted(self, texts: Sequence[str]) -> Sequence[str]:
        prompt = self._transformer.files.text_prompt
        return [prompt + text for text in texts] if prompt else texts

    def _fill(self, result: Vectors, done: Pass) -> None:
        assert done.states is not None and done.bits is not None
        result.values[done.rows], result.step[done.rows] = quantise(done.pooled)
        result.heads[done.rows] = heads.encode_bits(done.bits)
        result.n_tokens[done.rows] = done.n_tokens
        sharpest = heads.sharpest(done.bits, done.n_tokens, self._constants.heads, n_heads=self.info.n_heads)
        result.head[done.rows], result.second[done.rows] = sharpest
        signature = path.signatures(done.states, done.lengths, self._constants.basis)
        result.qls[done.rows] = path.encode(signature, self._constants.qls_scale)


def calibrate(transformer: Transformer, texts: Sequence[str]) -> tuple[Floats, Floats, calibration.HeadFit]:
    """Fit a model's constants on `texts`: basis, signature scales, head fit."""
    kept: list[tuple[Pass, Floats]] = []
    for done in transformer.passes(texts):
        assert done.states is not None
        real = np.arange(done.states.shape[1]) < done.lengths[:, None]
        kept.append((done, done.states[real]))
    basis = calibration.fit_basis(np.concatenate([states for _, states in kept]))
    signature = np.concatenate([path.signatures(_states(p), p.lengths, basis) for p, _ in kept])
    bits = np.concatenate([p.bits for p, _ in kept if p.bits is not None])
    n_tokens = np.concatenate([p.n_tokens for p, _ in kept])
    return basis, calibration.fit_scales(signature), calibration.fit_heads(bits, n_tokens)


def batches(lengths: Sequence[int]) -> Iterator[npt.NDArray[np.intp]]:
    """Give rows in batches of at most `BATCH_TOKENS` padded tokens (or one text), longest first."""
    order = np.argsort(-np.asarray(lengths, np.intp), kind="stable")
    start = 0
    while start < len(order):
        size = max(1, BATCH_TOKENS // max(1, lengths[int(order[start])]))
        yield order[start : start + size]
        start += size


def best_dtype() -> torch.dtype:
    """Give bfloat16 where the processor computes with it, else float32, which is faster than emulating it."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return torch.float32  # no such list on this system, so nothing is known of its units
    return torch.bfloat16 if "avx512_bf16" in flags or "amx_bf16" in flags else torch.float32


def _constants(transformer: Transformer) -> Calibration:
    files = transformer.files
    try:
        return calibration.load(files.sha256, is_default=files.is_default)
    except ModelError:
        if files.is_default:
            raise
    fitted = calibrate(transformer, corpus.texts())
    constants = calibration.derived(*fitted, files.sha256, corpus.CORPUS_ID)
    calibration.keep(files.sha256, constants)
    return constants


def _load(files: ModelFiles, dtype: torch.dtype) -> tuple[Any, Any]:
    """The network, and the model's further stages where plain pooling is not all of them."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # loading takes a moment; a bar on stderr would be the library's, not ours
    if files.pooling in ("mean", "cls") and set(files.modules) <= PLAIN_STAGES:
        from transformers import AutoModel

        network = AutoModel.from_pretrained(
            str(files.transformer), attn_implementation="eager", dtype=dtype, local_files_only=True
        )
        return network.eval(), None
    from sentence_transformers import SentenceTransformer

    options = {"attn_implementation": "eager", "dtype": dtype}
    stages = list(SentenceTransformer(str(files.folder), device="cpu", model_kwargs=options).eval())
    return stages[0].auto_model, [stage.float() for stage in stages[1:]]


def _pad(tokens: Sequence[Tokens], files: ModelFiles) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Give the network's inputs, and which tokens are text rather than special or padding."""
    shape = (len(tokens), max(len(t) for t in tokens))
    ids = np.full(shape, int(files.config.get("pad_token_id") or 0), np.int64)
    types, mask, is_text = (np.zeros(shape, np.int64) for _ in range(3))
    for row, token in enumerate(tokens):
        n = len(token)
        ids[row, :n], types[row, :n], mask[row, :n] = token.ids, token.types, 1
        is_text[row, :n] = 1 - np.asarray(token.special, np.int64)
    inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
    if int(files.config.get("type_vocab_size") or 0) > 1:
        inputs["token_type_ids"] = torch.from_numpy(types)
    return inputs, torch.from_numpy(is_text)


def _attentions(out: Any, files: ModelFiles) -> Sequence[torch.Tensor]:
    if not out.attentions:
        raise ModelError(f"{files.model_id} gives no attention weights; name another model")
    weights: Sequence[torch.Tensor] = out.attentions
    return weights


def _entropies(attentions: Sequence[torch.Tensor], is_text: torch.Tensor) -> torch.Tensor:
    """Give the attention entropy of every head in bits, float32 (texts, layers * heads).

    Rows and keys that are special tokens or padding are left out and each row is renormalised over the keys
    that stay; the mean is over rows. With p = a / s, s = sum of a: H = log2 s - (sum of a log2 a) / s.
    Texts under 2 tokens give 0.
    """
    keys = is_text.float()[:, None, :, None]
    rows = is_text.float()[:, None, :]
    n_rows = rows.sum(dim=2).clamp(min=1)
    layers = []
    for attention in attentions:
        weights = attention.float()
        total = (weights @ keys).squeeze(-1).clamp(min=1e-30)
        spread = (torch.special.entr(weights) @ keys).squeeze(-1)
        entropy = (torch.log(total) + spread / total) / float(np.log(2))
        layers.append((entropy * rows).sum(dim=2) / n_rows)
    return torch.cat(layers, dim=1).clamp(min=0)


def _states(done: Pass) -> Floats:
    assert done.states is not None
    return done.states
