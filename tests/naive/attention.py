"""Attention entropy the slow way: one text, one head, one row at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def head_entropy(attention: npt.NDArray[np.floating], is_text: list[bool]) -> float:
    """Mean over text rows of the entropy, in bits, of the row's attention over text keys, renormalised.

    attention: (tokens, tokens) of one head. Under 2 text tokens: 0.
    """
    text = [at for at, is_one in enumerate(is_text) if is_one]
    if len(text) < 2:
        return 0.0
    entropies = []
    for row in text:
        weights = [float(attention[row, key]) for key in text]
        total = sum(weights)
        entropies.append(-sum(w / total * math.log2(w / total) for w in weights if w > 0))
    return sum(entropies) / len(entropies)
