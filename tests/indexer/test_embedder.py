from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive.attention import head_entropy
from treering.indexer import corpus
from treering.indexer.embedder import BATCH_TOKENS, Embedder, batches
from treering.indexer.heads import decode_bits
from treering.storage.batch import KEY, Keys, Vectors

pytestmark = pytest.mark.model

CLAUSES = (
    "the disk filled up",
    "the pod was moved to another node",
    "the tokenizer rejected the prompt",
    "the replica lost its leader",
    "the user asked for a refund",
    "the alarm went off",
)
"""Other clauses than those that the basis was judged on."""


@given(st.lists(st.integers(1, 256), max_size=200))
def test_batches_hold_every_row_once_within_the_budget(lengths: list[int]) -> None:
    found = list(batches(lengths))
    assert sorted(int(row) for rows in found for row in rows) == list(range(len(lengths)))
    for rows in found:
        longest = max(lengths[row] for row in rows)
        assert longest * len(rows) <= BATCH_TOKENS
    assert [max(lengths[row] for row in rows) for rows in found] == sorted(
        (max(lengths[row] for row in rows) for rows in found), reverse=True
    )


def test_head_entropies_are_those_of_the_plain_formula(embedder: Embedder) -> None:
    texts = ["connection reset by peer while decoding", "ok", "a b", "GPU 3 ran out of memory at step 1200"]
    bits = decode_bits(embed(embedder, texts).heads)
    np.testing.assert_allclose(bits, naive_entropies(embedder, texts), atol=1 / 64 + 1e-4)


def test_padding_changes_nothing_but_rounding(embedder: Embedder) -> None:
    short = "queue is full"
    alone = embed(embedder, [short])
    beside = embed(embedder, [short, "a much longer line about something else " * 4]).take(np.array([0]))
    np.testing.assert_allclose(beside.exact(), alone.exact(), atol=1e-3)
    assert np.abs(beside.heads.astype(int) - alone.heads).max() <= 1
    assert np.abs(beside.qls.astype(int) - alone.qls).max() <= 1


def test_vectors_come_in_the_order_of_their_texts(embedder: Embedder) -> None:
    texts = corpus.texts(40, seed=5)
    found = embed(embedder, texts)
    for row in (0, 17, 39):
        single = embed(embedder, [texts[row]])
        assert float(found.exact()[row] @ single.exact()[0]) > 0.999
        assert found.key[row] == keys(len(texts))[row]


def test_vectors_are_unit_length_and_complete(embedder: Embedder) -> None:
    found = embed(
        embedder, ["", " ", "one", "two words", "\ud800", "z" * 400_000, "word " * 3000, "幻觉检测"]
    )
    np.testing.assert_allclose(np.linalg.norm(found.exact(), axis=1), 1, atol=1e-3)
    assert found.dim == 384 and found.heads.shape == (8, 72) and found.qls.shape == (8, 136)
    assert found.n_tokens.tolist()[:4] == [0, 0, 1, 2] and found.n_tokens[6] == 254
    assert (found.head[:3] == 255).all() and (found.second[:3] == 255).all() and not found.heads[:3].any()
    assert (found.head[6:] < 12).all() and (found.head[6:] != found.second[6:]).all()


def test_no_text_gives_no_vector(embedder: Embedder) -> None:
    assert len(embed(embedder, [])) == 0
    assert embedder.encode_vectors([]).shape == (0, 384)


def test_texts_and_keys_must_match(embedder: Embedder) -> None:
    with pytest.raises(ValueError, match="1 texts for 2 keys"):
        embedder.encode(["a"], keys(2))


def test_level_one_of_the_path_is_the_projected_vector(embedder: Embedder) -> None:
    texts = ["the scheduler retried the request", "disk full", "第三方服务超时"]
    found = embed(embedder, texts)
    scale = np.array(embedder.info.qls_scale)[:16]
    basis = embedder._constants.basis
    np.testing.assert_allclose(found.qls[:, :16] * scale, found.exact() @ basis, atol=scale.max())


@pytest.mark.parametrize("frame", ["{}", "Yesterday in the test cluster {} and nobody noticed."])
def test_path_codes_know_which_came_first(embedder: Embedder, frame: str) -> None:
    """S71: a paraphrase in the same order is nearer than the same words in the other order."""
    pairs = [(a, b) for a in CLAUSES for b in CLAUSES if a != b]
    forms = ("first {} and afterwards {}", "{}, then {}"), ("{1}, then {0}",)
    asked, same = (areas(embedder, [frame.format(form.format(a, b)) for a, b in pairs]) for form in forms[0])
    swapped = areas(embedder, [frame.format(forms[1][0].format(a, b)) for a, b in pairs])
    right = (asked * same).sum(1) > (asked * swapped).sum(1)
    assert right.mean() >= 0.95


def test_heads_share_log_lines_evenly(embedder: Embedder) -> None:
    head = embed(embedder, corpus.log_lines(120, seed=11)).head
    share = np.bincount(head, minlength=12) / len(head)
    assert share.max() < 0.3 and (share > 0).sum() >= 8


def test_meaning_beats_words(embedder: Embedder) -> None:
    query = embedder.encode_query("the graphics card has no memory left")
    oom, other = embedder.encode_vectors(
        ["CUDA out of memory. Tried to allocate 2 GiB", "the card of the user expired"]
    )
    assert query @ oom > query @ other + 0.1


def naive_entropies(embedder: Embedder, texts: list[str]) -> list[list[float]]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(embedder._transformer.files.folder)
    network = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer, found = AutoTokenizer.from_pretrained(folder), []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            attentions = network(**inputs, output_attentions=True).attentions
        n = inputs["input_ids"].shape[1]
        is_text = [0 < at < n - 1 for at in range(n)]
        found.append([head_entropy(head, is_text) for layer in attentions for head in layer[0].numpy()])
    return found


def areas(embedder: Embedder, texts: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values = embed(embedder, texts).qls[:, 16:] * np.array(embedder.info.qls_scale)[16:]
    unit: np.ndarray[tuple[int, int], np.dtype[np.float64]] = values / np.linalg.norm(
        values, axis=1, keepdims=True
    )
    return unit


def embed(embedder: Embedder, texts: list[str]) -> Vectors:
    return embedder.encode(texts, keys(len(texts)))


def keys(n: int) -> Keys:
    result = np.zeros(n, KEY)
    result["lo"] = np.arange(1, n + 1)
    return result
