from __future__ import annotations

import hashlib

from treering.indexer import corpus


def test_corpus_is_the_one_its_name_stands_for() -> None:
    """Whoever changes the generator must give it another name: ids of derived constants hold it."""
    digest = hashlib.sha256("\n".join(corpus.texts()).encode()).hexdigest()
    assert (corpus.CORPUS_ID, digest[:16]) == ("generated-1", DIGEST)


def test_corpus_has_logs_and_prose_in_two_languages_and_no_open_slot() -> None:
    texts = corpus.texts(600)
    assert len(set(texts)) > 550
    assert any("NCCL" in text for text in texts) and any("photosynthesis" in text for text in texts)
    assert any("一" <= sign <= "鿿" for text in texts for sign in text)
    assert not any("{" in text or "}" in text for text in texts)


def test_another_seed_gives_other_texts() -> None:
    assert corpus.log_lines(20, seed=1) != corpus.log_lines(20, seed=2)
    assert corpus.log_lines(20, seed=1) == corpus.log_lines(20, seed=1)


DIGEST = "23e5637ad53fe723"
