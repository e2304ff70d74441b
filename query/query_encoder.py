"""The text of a query as a vector, by the model that the stored vectors were made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treering.indexer.model import check_same_model, is_given, is_same_model
from treering.storage.errors import QueryError

if TYPE_CHECKING:
    from treering.storage.batch import ModelInfo


class QueryEncoder:
    """Loads a model when the first text comes, and keeps it. model: its name or path, None: the default one."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._encoder: Any = None

    def encode(self, text: str, stored: ModelInfo | None) -> npt.NDArray[np.float32]:
        """Give the vector of `text`. stored: the model of the vectors to compare with, None where there are none.

        Raises QueryError where these came with the events, ModelError where they are of another model.
        """
        if stored is not None and is_given(stored):
            raise QueryError(
                "the vectors of this store were given with the events, no model is known for texts: pass a vector, "
                'e.g. `~ $v` with params={"v": vector}'
            )
        if self._encoder is None or (stored is not None and not is_same_model(stored, self._encoder.info)):
            # None yet, or one of the model that the store had before it was moved.
            self._encoder = self._load()
        if stored is not None:
            check_same_model(stored, self._encoder.info)
        vector: npt.NDArray[np.float32] = self._encoder.encode_query(text)
        return vector

    def _load(self) -> Any:
        from treering.indexer.light import load_query_encoder

        return load_query_encoder(self._model)
