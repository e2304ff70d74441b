"""Attention collapse: how sharp attention has become in the last layers, and how far it fell from the first.

Ĥ_l is the mean over heads and rows of H(row) / log2(allowed keys) at layer l, 0..1.
`attention_collapse` = 1 - mean Ĥ over the last third of the layers (rounded up);
`attention_entropy_decay` = (Ĥ_first - Ĥ_last) / max(Ĥ_first, ε), negative where attention widens.
The serving model's attention (`producer`) and the embedding model's (`index`) are different quantities: the
label
`attention_source` says which it is. Source: systems catalogue, section 2 and S74.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import UInt8s

from .columns import Bools, Floats, first_number, list_numbers
from .heads import decode_bits

EPSILON = 0.01
"""Smallest first-layer entropy that the decay is divided by, 1 % of the possible."""

PRODUCER, INDEX = "producer", "index"

_PARENTS = ("", "metrics.", "signals.", "scores.", "attributes.")
_COLLAPSE = ("attention_collapse", "attention_collapse_score")
_DECAY = ("attention_entropy_decay",)


@dataclass(frozen=True, slots=True)
class Attention:
    """Both signals by row, float64, NaN where missing."""

    collapse: Floats
    decay: Floats

    def or_else(self, other: Attention) -> Attention:
        """Give `other`'s pair where this one has neither value."""
        neither = np.isnan(self.collapse) & np.isnan(self.decay)
        return Attention(
            np.where(neither, other.collapse, self.collapse), np.where(neither, other.decay, self.decay)
        )

    @property
    def known(self) -> Bools:
        """Which rows have at least one of the two."""
        return ~(np.isnan(self.collapse) & np.isnan(self.decay))


def of_producer(columns: Mapping[str, pa.Array], n_rows: int) -> Attention | None:
    """Give what the producer logged: its own values, else those of `attention_entropy`. None: nothing."""
    collapse = first_number(columns, _names(_COLLAPSE), 0.0, 1.0)
    decay = first_number(columns, _names(_DECAY), -np.inf, 1.0)
    missing = np.full(n_rows, np.nan)
    own = None
    if collapse is not None or decay is not None:
        own = Attention(missing if collapse is None else collapse, missing if decay is None else decay)
    if "attention_entropy" not in columns:
        return own
    computed = of_layers(columns["attention_entropy"])
    return computed if own is None else own.or_else(computed)


def of_layers(column: pa.Array) -> Attention:
    """Give the signals of a list column of Ĥ by layer.

    A list with a value that is not within 0..1 is not normalised and gives none. One
    layer has a collapse and no decay.
    """
    row, value = list_numbers(column)
    n_rows = len(column)
    n_layers = np.bincount(row, minlength=n_rows)
    n_good = np.bincount(row, weights=(value >= 0) & (value <= 1), minlength=n_rows)
    good = (n_layers > 0) & (n_good == n_layers)
    layer = np.arange(len(row)) - (np.cumsum(n_layers) - n_layers)[row]
    in_last_third = layer >= (n_layers - _third(n_layers))[row]
    value = np.where(good[row], value, 0.0)
    late = _sum(row, value, in_last_third, n_rows)
    first = _sum(row, value, layer == 0, n_rows)
    last = _sum(row, value, layer == (n_layers - 1)[row], n_rows)
    return _signals(first, late / np.maximum(_third(n_layers), 1), last, n_layers, good)


def of_encoder(codes: UInt8s, n_tokens: npt.NDArray[np.integer], *, n_layers: int) -> Attention:
    """Give the signals of stored head entropies; texts under 2 tokens give none.

    codes: uint8 (texts, layers * heads). Every row of a text's attention has its `n_tokens` as allowed
    keys, so the mean of H(row) / log2(keys) is the stored mean entropy over log2(n_tokens).
    """
    if not len(codes):
        return Attention(np.empty(0), np.empty(0))
    bits = decode_bits(codes).reshape(len(codes), n_layers, -1).mean(axis=2, dtype=np.float64)
    good = n_tokens >= 2
    layers = np.clip(bits / np.log2(np.maximum(n_tokens, 2).astype(np.float64))[:, None], 0.0, 1.0)
    count = np.full(len(codes), n_layers)
    late = layers[:, n_layers - int(_third(count)[0]) :]
    return _signals(layers[:, 0], late.mean(axis=1), layers[:, -1], count, good)


def _signals(
    first: Floats, late: Floats, last: Floats, n_layers: npt.NDArray[np.integer], good: Bools
) -> Attention:
    decay = (first - last) / np.maximum(first, EPSILON)
    return Attention(np.where(good, 1.0 - late, np.nan), np.where(good & (n_layers > 1), decay, np.nan))


def _sum(row: npt.NDArray[np.int64], value: Floats, use: Bools, n_rows: int) -> Floats:
    return np.bincount(row[use], weights=value[use], minlength=n_rows).astype(np.float64)


def _third(n_layers: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    return -(-n_layers // 3)


def _names(names: tuple[str, ...]) -> list[str]:
    return [f"{parent}{name}#{code}" for parent in _PARENTS for name in names for code in "fi"]
