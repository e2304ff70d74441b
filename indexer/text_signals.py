"""Signals of the answer's text and sizes that need no model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import Floats, has_text, numbers, texts


def repetition_ratio(response: pa.Array) -> Floats:
    """Give 1 - distinct 4-grams / 4-grams of each text's tokens, 0..1; NaN without a text or under 4 tokens.

    Tokens are runs of letters, digits and `_` (ASCII case folded); each ideograph, kana, emoji and
    punctuation mark is a token by itself, so that `!!!!!!!!` and Chinese loops count. Source: Welleck et
    al. 2020, rep-4.
    """
    from .repetition import repeated_share

    plain = pc.cast(texts(response), pa.large_string())
    if isinstance(plain, pa.ChunkedArray):
        plain = plain.combine_chunks()
    _, offset_bytes, data_bytes = plain.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    data = np.frombuffer(data_bytes, np.uint8) if data_bytes is not None else np.empty(0, np.uint8)
    ratio = np.empty(len(plain))
    repeated_share(data, offsets, ratio)
    ratio[~has_text(plain)] = np.nan
    return ratio


def context_usage_ratio(columns: Mapping[str, pa.Array]) -> Floats | None:
    """Give (input_tokens + output_tokens) / max_model_len; above 1 the window was exceeded.

    None: one of the columns is missing. NaN where one of the three is missing or the window is not positive.
    """
    wanted = ("input_tokens", "output_tokens", "max_model_len")
    if any(name not in columns for name in wanted):
        return None
    n_in, n_out, window = (numbers(columns[name]) for name in wanted)
    usable = (window > 0) & (n_in >= 0) & (n_out >= 0)
    ratio: Floats = np.divide(n_in + n_out, window, out=np.full(len(window), np.nan), where=usable)
    return ratio
