"""A sentence-transformers model that is not the default one: small, random, with [CLS] pooling."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from treering.indexer import calibration, corpus
from treering.indexer.embedder import Embedder
from treering.indexer.light import LightEncoder, load_query_encoder
from treering.indexer.model import is_default_model, locate, model_info
from treering.storage.batch import KEY
from treering.storage.errors import ModelError

pytestmark = pytest.mark.model


@pytest.fixture(scope="module", autouse=True)
def few_texts() -> Iterator[None]:
    """Calibrate on a tenth of the corpus: how well the constants fit is nothing that is asked here."""
    all_texts = corpus.texts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "texts", lambda: all_texts[::10])
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer BERT with random weights and a vocabulary of letters."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    path = tmp_path_factory.mktemp("models") / "tiny"
    vocabulary = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]"))}
    for letter in "abcdefghijklmnopqrstuvwxyz0123456789":
        vocabulary[letter] = len(vocabulary)
        vocabulary["##" + letter] = len(vocabulary)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    torch.manual_seed(1)
    network = BertModel(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
        )
    )
    network.save_pretrained(str(path))
    tokenizer.save(str(path / "tokenizer.json"))
    describe(path, {"pooling_mode": "cls"})
    (path / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')
    (path / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "query ", "document": ""}}'
    )
    return path


def describe(path: Path, pooling: dict[str, object]) -> None:
    stages = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    stages.append(
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
    )
    (path / "modules.json").write_text(json.dumps(stages))
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))


def test_it_is_calibrated_once_and_then_known_without_torch(folder: Path) -> None:
    files = locate(str(folder))
    with pytest.raises(ModelError, match="never calibrated"):
        model_info(files)
    info = Embedder(files).info
    assert model_info(files) == info
    assert (info.dim, info.n_layers, info.n_heads, info.max_length) == (32, 2, 4, 48)
    assert info.basis_id.startswith("fit-") and len(info.qls_scale) == 136
    assert not is_default_model(info)


def test_calibrating_twice_gives_the_same_ids(folder: Path) -> None:
    files = locate(str(folder))
    first = Embedder(files).info
    calibration._kept(files.sha256).unlink()
    again = Embedder(files).info
    assert (again.basis_id, again.calibration_id) == (first.basis_id, first.calibration_id)


def test_pooling_and_prompts_are_those_of_sentence_transformers(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    ours = Embedder(locate(str(folder)))
    theirs = SentenceTransformer(str(folder), device="cpu")
    texts = ["cache miss on node 7", "ok", "a long line " * 40]
    np.testing.assert_allclose(
        ours.encode_vectors(texts), theirs.encode(texts, normalize_embeddings=True), atol=1e-5
    )
    expected = theirs.encode_query("cache miss", normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_query("cache miss"), expected, atol=1e-5)


def test_pooling_that_is_not_ours_is_run_by_sentence_transformers(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    describe(folder, {"pooling_mode": "max"})
    try:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(
            ["cache miss"], normalize_embeddings=True
        )
        ours = Embedder(locate(str(folder))).encode(["cache miss"], np.zeros(1, KEY))
    finally:
        describe(folder, {"pooling_mode": "cls"})
    np.testing.assert_allclose(ours.exact(), theirs, atol=1e-3)
    assert ours.heads.any() and ours.heads.shape == (1, 8)


def test_query_encoder_is_the_light_one_where_it_can_be(folder: Path) -> None:
    full = load_query_encoder(str(folder))
    assert isinstance(full, Embedder)
    describe(folder, {"pooling_mode": "mean"})
    try:
        light = load_query_encoder(str(folder))
        mean = Embedder(locate(str(folder)))
        assert isinstance(light, LightEncoder)
        np.testing.assert_allclose(light.encode_query("node 7"), mean.encode_query("node 7"), atol=1e-5)
    finally:
        describe(folder, {"pooling_mode": "cls"})
