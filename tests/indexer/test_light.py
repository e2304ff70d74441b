from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from treering.indexer.embedder import Embedder
from treering.indexer.light import LightEncoder, fits, load_query_encoder
from treering.indexer.model import ModelFiles, locate
from treering.indexer.tokens import readable

pytestmark = pytest.mark.model

TEXTS = (
    "connection reset while decoding",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "",
    "x",
    "第三方推理服务超时，请重试。",
    "half an emoji \ud83d and \x00 control \x1b[31m signs",
    "the worker retried the request and failed again " * 60,
)


@pytest.fixture(scope="module")
def light(model_files: ModelFiles) -> LightEncoder:
    return LightEncoder(model_files)


def test_light_encoder_agrees_with_torch(light: LightEncoder, embedder: Embedder) -> None:
    for text in TEXTS:
        np.testing.assert_allclose(light.encode_query(text), embedder.encode_query(text), atol=1e-5)


def test_both_encoders_agree_with_sentence_transformers(light: LightEncoder, embedder: Embedder) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(locate().folder), device="cpu").encode(
        [readable(text) for text in TEXTS], normalize_embeddings=True
    )
    np.testing.assert_allclose(np.stack([light.encode_query(t) for t in TEXTS]), theirs, atol=1e-5)
    np.testing.assert_allclose(embedder.encode_vectors(TEXTS), theirs, atol=1e-5)


def test_query_vector_is_unit_length_and_cannot_be_spoilt(light: LightEncoder) -> None:
    vector = light.encode_query("disk full")
    assert vector.dtype == np.float32 and np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 0
    assert light.encode_query("disk full") is vector


def test_default_query_encoder_never_loads_torch(model_files: ModelFiles) -> None:
    code = (
        "import sys; from treering.indexer.light import load_query_encoder; e = load_query_encoder(); "
        "e.encode_query('gpu lost'); "
        "print(e.info.model_id, 'torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [model_files.model_id, "False", "False"]


def test_encoders_say_the_same_of_their_model(light: LightEncoder, embedder: Embedder) -> None:
    assert light.info == embedder.info


def test_model_of_another_make_is_not_computed_here(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mpnet", "hidden_act": "gelu"}')
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert not fits(locate(str(tmp_path)))
    assert isinstance(load_query_encoder(), LightEncoder)
