"""The vector of one query without torch: the BERT encoder in numpy, its weights mapped from the file.

A command that asks one question should not wait seconds for a library that is only needed to embed many
texts. Models of another make are handed to the full embedder.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.storage.batch import ModelInfo
from treering.storage.errors import ModelError
from treering.storage.shortage import shortage_told

from . import calibration
from .model import PLAIN_STAGES, ModelFiles, locate, model_info
from .tokens import Tokenizer, Tokens

Floats = npt.NDArray[np.float32]

QUERY_CACHE = 256
"""Query vectors kept by text."""


class QueryEncoder(Protocol):
    """Whatever gives query vectors."""

    @property
    def info(self) -> ModelInfo:
        """The model."""
        ...

    def encode_query(self, text: str) -> Floats:
        """Give the text's vector, float32 (dim), unit length."""
        ...


def load_query_encoder(name: str | None = None) -> QueryEncoder:
    """Give the lightest encoder that computes this model's query vectors.

    Raises
    ------
    ModelError
        The model is nowhere to be had.
    """
    files = locate(name)
    if fits(files) and calibration.is_known(files.sha256, is_default=files.is_default):
        return LightEncoder(files)
    with shortage_told("while the model was loaded"):
        from .embedder import Embedder

        return Embedder(files)


def fits(files: ModelFiles) -> bool:
    """Whether the numpy encoder computes this model: BERT, mean pooling, one float32 safetensors file."""
    config = files.config
    return (
        config.get("model_type") == "bert"
        and str(config.get("dtype", config.get("torch_dtype", "float32"))) == "float32"
        and set(files.modules) <= PLAIN_STAGES
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and files.pooling == "mean"
        and (files.transformer / "model.safetensors").is_file()
    )


class LightEncoder:
    """Query vectors of a BERT model with mean pooling, computed in float32 on one text at a time."""

    def __init__(self, files: ModelFiles) -> None:
        self.info = model_info(files)
        self._tokenizer = Tokenizer(files)
        self._prompt = files.query_prompt
        self._bert = Bert(files)
        self._cached: Callable[[str], Floats] = lru_cache(QUERY_CACHE)(self._encode)

    def encode_query(self, text: str) -> Floats:
        """Give the text's vector, float32 (dim), unit length and read-only (it is kept)."""
        return self._cached(text)

    def _encode(self, text: str) -> Floats:
        tokens = self._tokenizer([self._prompt + text])[0]
        pooled = self._bert.states(tokens).mean(axis=0)
        vector: Floats = (pooled / np.linalg.norm(pooled)).astype(np.float32)
        vector.setflags(write=False)
        return vector


class Bert:
    """The encoder of Devlin et al. 2019 (post-norm, learned positions, exact GELU), as in `transformers`."""

    def __init__(self, files: ModelFiles) -> None:
        self._weights = _map_weights(files)
        self._n_layers, self._n_heads = files.n_layers, files.n_heads
        self._epsilon = float(files.config.get("layer_norm_eps", 1e-12))

    def states(self, tokens: Tokens) -> Floats:
        """Give the last layer's token states, float32 (tokens, dim)."""
        w = self._weights
        ids, types = np.asarray(tokens.ids), np.asarray(tokens.types)
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + w["embeddings.token_type_embeddings.weight"][types]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self._n_layers):
            x = self._layer(x, f"encoder.layer.{layer}.")
        return x

    def _layer(self, x: Floats, at: str) -> Floats:
        attended = self._dense(self._attend(x, at + "attention.self."), at + "attention.output.dense")
        x = self._norm(x + attended, at + "attention.output.LayerNorm")
        inner = _gelu(self._dense(x, at + "intermediate.dense"))
        return self._norm(x + self._dense(inner, at + "output.dense"), at + "output.LayerNorm")

    def _attend(self, x: Floats, at: str) -> Floats:
        n, dim = x.shape
        # (tokens, dim) -> (heads, tokens, dim of a head)
        query, key, value = (
            self._dense(x, at + part).reshape(n, self._n_heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(dim // self._n_heads))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return np.ascontiguousarray(mixed.transpose(1, 0, 2)).reshape(n, dim)

    def _dense(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[name + ".weight"].T + self._weights[name + ".bias"]

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        normed: Floats = centred / scale * self._weights[name + ".weight"] + self._weights[name + ".bias"]
        return normed


def _gelu(x: Floats) -> Floats:
    return x * np.float32(0.5) * (np.float32(1) + _erf(x * np.float32(np.sqrt(0.5))))


def _erf(x: Floats) -> Floats:
    """Error function to 1.5e-7. Source: Abramowitz and Stegun, 7.1.26."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    series = np.zeros_like(t)
    for term in terms:
        series = (series + np.float32(term)) * t
    signed: Floats = np.copysign(1 - series * np.exp(-size * size), x)
    return signed


def _map_weights(files: ModelFiles) -> Mapping[str, Floats]:
    """Views of the float32 tensors of a safetensors file, which stays mapped while they live."""
    path = files.transformer / "model.safetensors"
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    weights: dict[str, Floats] = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        low, high = entry["data_offsets"]
        flat = np.frombuffer(data, np.float32, count=(high - low) // 4, offset=start + low)
        weights[name.removeprefix("bert.")] = flat.reshape(entry["shape"])
    if "embeddings.word_embeddings.weight" not in weights:
        raise ModelError(f"{path}: has no float32 word embeddings; name a model in float32")
    return weights
