"""A model that counts letters, and records that wait for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treering.storage.batch import Keys, ModelInfo, Vectors

DIM = 32


INFO = ModelInfo("letters@53aa51172d14", DIM, 3, 2, 256, "basis", "heads", (0.01,) * 136)
"""A stand-in that passes for the default model, so that the shipped curve applies."""


ANSWERS: list[dict[str, Any]] = [
    {
        "prompt": "Where is it?",
        "response": "It is in the hall. It is on the desk.",
        "context": ["The key is in the hall. The bag is on the desk.", "No other place was named."],
    },
    {
        "prompt": "Say a word.",
        "response": "Bananas.",
        "logprobs": {"content": [{"token": "B", "logprob": -0.5}]},
    },
    {"prompt": "Quote.", "response": "Quartz judge.", "context": ["My vow."], "hallucination": 0.25},
    {"prompt": "Only a question"},
    {"message": "gpu 3 lost its link", "level": "error"},
    {"response": "Xx.", "attention_entropy": [0.9, 0.6, 0.3]},
]


class Letters:
    """Vectors of letter counts: fast, the same everywhere, and nearer for texts that share letters."""

    def __init__(self, info: ModelInfo = INFO, *, fails_after: int | None = None) -> None:
        self.info = info
        self.seen: list[str] = []
        self._left = fails_after

    def encode(self, texts: list[str], keys: Keys) -> Vectors:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt
        self.seen += texts
        n = len(texts)
        return Vectors.of(
            keys,
            self.encode_vectors(texts),
            heads=np.full((n, 6), 64, np.uint8),
            n_tokens=np.full(n, 8, np.uint16),
            head=np.zeros(n, np.uint8),
            second=np.ones(n, np.uint8),
            qls=np.zeros((n, 136), np.int8),
        )

    def encode_vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        counts = np.full((len(texts), DIM), 0.01, np.float32)
        for row, text in enumerate(texts):
            for sign in text.lower():
                counts[row, ord(sign) % DIM] += 1
        unit: npt.NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit
