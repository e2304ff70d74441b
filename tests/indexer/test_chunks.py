import tracemalloc
from hashlib import blake2b
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from treering.indexer.chunks import (
    BUDGET,
    MAX_CHUNKS,
    embedded_chunks,
    exact_key,
    fits,
    part_texts,
    split_chunks,
    split_sentences,
)
from treering.indexer.mask import mask_key

_TEXT = st.one_of(
    st.text(max_size=50),
    st.lists(
        st.sampled_from(["The cat sat. ", "今天天气很好。", "no break here ", "\n", "x" * 300, "😀", " "]),
        max_size=120,
    ).map("".join),
)


def _sentences(text: str) -> list[str]:
    return [text[lo:hi] for lo, hi in split_sentences(text)]


@given(_TEXT)
@examples(100)
def test_chunks_cover_the_text_overlap_and_keep_the_budget(text: str) -> None:
    spans = list(split_chunks(text))
    assert (spans == []) == (text == "")
    reached = 0
    for (lo, hi), before in zip(spans, [(-1, 0), *spans[:-1]], strict=False):
        assert before[0] < lo <= reached < hi or (lo, reached) == (0, 0)
        assert len(spans) == 1 or fits(text[lo:hi])
        reached = hi
    assert reached == len(text)


def test_neighbours_share_about_a_seventh() -> None:
    spans = list(split_chunks("The quick brown fox jumps over the lazy dog. " * 200))
    shares = [a_hi - b_lo for (_, a_hi), (b_lo, _) in pairwise(spans)]
    assert len(spans) > 5
    assert all(80 <= share <= 160 for share in shares)


def test_chunks_end_at_sentence_ends() -> None:
    text = "One two three four five six seven. " * 100
    assert all(text[:hi].endswith((". ", ".")) for _, hi in split_chunks(text))


def test_chinese_chunks_hold_a_quarter_of_the_characters() -> None:
    spans = list(split_chunks("天" * 1000))
    assert max(hi - lo for lo, hi in spans) == BUDGET // 4


def test_sentences_of_many_scripts() -> None:
    assert _sentences('Dr. Smith paid $3.50 at 5 p.m. today. He left! "Really?" Yes') == [
        "Dr. Smith paid $3.50 at 5 p.m. today.", "He left!", '"Really?"', "Yes",
    ]  # fmt: skip
    assert _sentences("你好。再见！好吗？是「对。」完") == ["你好。", "再见！", "好吗？", "是「对。」", "完"]
    assert _sentences("- one\n- two\n\n1. first\n2. second") == ["- one", "- two", "1. first", "2. second"]
    assert _sentences("  \n ") == []


@given(_TEXT)
@examples(60)
def test_sentences_hold_every_character_but_blanks(text: str) -> None:
    joined = "".join("".join(sentence.split()) for sentence in _sentences(text))
    assert joined == "".join(text.split())


def test_part_keys_mask_short_bodies_and_hash_all_else() -> None:
    assert part_texts("body", "took 5 ms") == [(mask_key("took 7 ms"), "took 5 ms")]
    assert part_texts("response", "took 5 ms")[0][0] != part_texts("response", "took 7 ms")[0][0]
    digest = blake2b(b"abc", digest_size=16).digest()
    hi, lo = exact_key("abc")
    assert hi == int.from_bytes(digest[:8], "little")
    assert lo == int.from_bytes(digest[8:], "little") | 1
    assert part_texts("prompt", " \n") == []


def test_long_bodies_are_keyed_chunk_by_chunk() -> None:
    text = "Step done. " * 300
    parts = part_texts("body", text)
    assert [chunk for _, chunk in parts] == [text[lo:hi] for lo, hi in split_chunks(text)]
    assert all(key == exact_key(chunk) for key, chunk in parts)


def test_the_chunks_of_a_huge_text_are_cut_only_as_far_as_they_are_wanted() -> None:
    text = "A sentence of some words. " * 200_000
    tracemalloc.start()
    try:
        parts = part_texts("body", text)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(parts) == MAX_CHUNKS
    assert peak_bytes < len(text) // 4


def test_blank_chunks_do_not_count() -> None:
    text = "begin " + "\n" * 400 * BUDGET + "The end. " * 500
    spans = list(embedded_chunks(text))
    assert 5 < len(spans) < 10 and text[slice(*spans[1])].strip() and spans[-1][1] == len(text)
    assert [chunk for _, chunk in part_texts("response", text)] == [text[lo:hi] for lo, hi in spans]
