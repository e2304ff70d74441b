"""The mask key of a log line: equal for lines that differ only in numbers, ids and addresses.

The rule, over UTF-8 bytes, from left to right:

- A *field* is letters and digits (ASCII), joined by one or two of ``_ . -``. It is a *name* if it starts with
  a letter, else a number.
- Masked to ``#``: UUIDs; IPv6 and hardware addresses; ``0x`` and hex digits; pieces of eight and more hex
  digits that hold a letter and a digit; pieces of sixteen and more letters and digits with two digits; in a
  number field every number (points, commas and an exponent inside), so that ``12ms`` and ``10.0.0.1`` lose
  their values and not their units; in a name only runs of five and more digits, and pieces that are three and
  more digits. So ``llama-3-8b``, ``TP0``, ``layers.42`` and ``v1.2.3`` stay, the numbers in
  ``blk_38865049064139660`` and ``core.1219`` go, and so does the ordinal of ``cuda:0``, because ``:`` ends a
  field.
- A sign before a mark goes; a list of marks (``#, #``) is one mark. Everything outside ASCII ends a field.
- A progress bar is ``#%``, blocks of bars go, runs of a ruler character (``= # - * . > ~``) and of blanks are
  one.

Source: the masker of the embedding measurements: the first exemplar of a key stands for its lines.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.storage.batch import KEY, Keys


def mask_keys(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> Keys:
    """Give the key of each text `data[ends[i - 1]:ends[i]]`; zero for an empty text.

    Parameters
    ----------
    data : uint8, C-contiguous, the texts one after the other, UTF-8.
    ends : int64 (n), ascending.
    """
    keys = np.zeros(len(ends), KEY)
    if len(ends) == 0:
        return keys
    longest = int(np.diff(ends, prepend=0).max())
    hi, lo = np.empty(len(ends), np.uint64), np.empty(len(ends), np.uint64)
    words = np.empty(longest // 8 + 2, np.uint64)
    _kernel().mask_keys_into(data, ends, words.view(np.uint8), words, hi, lo)
    keys["hi"], keys["lo"] = hi, lo
    return keys


def mask_key(text: str) -> tuple[int, int]:
    """Give the key of one text as (hi, lo)."""
    data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    key = mask_keys(data, np.array([len(data)], np.int64))[0]
    return int(key["hi"]), int(key["lo"])


def masked(text: str) -> str:
    """Give what of `text` its key is made from; for people and tests."""
    data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    out = np.empty(len(data) + 1, np.uint8)
    n = _kernel().mask_into(data, 0, len(data), out)
    return out[:n].tobytes().decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _kernel() -> Any:
    """Load the compiled loops on first use: numba takes a second to import."""
    from . import mask_kernel

    return mask_kernel
