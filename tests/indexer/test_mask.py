import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.naive.mask import naive_masked
from treering.indexer.mask import mask_key, mask_keys, masked

_WORDS = st.sampled_from(
    [
        "llama-3-8b",
        "cuda:0",
        "took",
        "12ms",
        "-0.5",
        "0x7fc399200000",
        "blk_-6952295868487656571",
        "10.0.0.1:80",
        "a::1",
        "38101a0b-2096-447d-96ea-a692162415ae",
        "fe80::1ff:fe23:4567:890a",
        "00:1a:2b:3c:4d:5e",
        "[1, 2, 3]",
        "1e-05",
        "  27% Completed | 4/15 [00:59<01:57, 10.66s/it]",
        " 2%|▏  | 1/51 [00:00<?, ?it/s]",
        "====",
        "耗时123毫秒",
        "\t",
        "core.1219",
        "v1.2.3",
        "call_Xy7aBk29sLq01QpRsTuV",
        "1,024",
        "--port",
        "x=5",
        "deadbeef",
        "a1b2c3d4",
        "#",
        ", ",
    ]
)
_TEXT = st.one_of(
    st.lists(_WORDS, max_size=8).map(" ".join),
    st.lists(_WORDS, max_size=5).map("".join),
    st.text(alphabet="ab9f05x_.-:,#%|[]<e+ \n▏é", max_size=60),
    st.text(max_size=40),
)


@given(_TEXT)
@examples(250)
def test_compiled_masker_follows_the_written_rule(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert masked(text) == naive_masked(text)


@given(_TEXT, _TEXT)
@examples(100)
def test_keys_are_equal_exactly_when_the_masked_texts_are(a: str, b: str) -> None:
    a, b = (x.encode("utf-8", "replace").decode() for x in (a, b))
    if a and b:
        assert (mask_key(a) == mask_key(b)) == (masked(a) == masked(b))


_TEMPLATES = (
    "Running: {n} reqs, Waiting: {n} reqs, usage: {f}%",
    "served block blk_{big} to /{ip}:{port} in {n}ms",
    "request req-{uuid} done (comm {hex}, count={n})",
    "下载 {n} 个文件，耗时{f}秒",
)


@given(st.sampled_from(_TEMPLATES), st.data())
@examples(80)
def test_lines_that_differ_in_numbers_ids_and_addresses_share_a_key(
    template: str, data: st.DataObject
) -> None:
    def filled() -> str:
        draw = data.draw
        return template.format(
            n=draw(st.integers(-(10**9), 10**9)),
            f=draw(st.decimals(-1000, 1000, places=3)),
            big=draw(st.integers(-(10**18), 10**18).filter(lambda v: abs(v) > 10**6)),
            ip=".".join(str(draw(st.integers(0, 255))) for _ in range(4)),
            port=draw(st.integers(1, 65535)),
            uuid=draw(st.uuids()),
            hex=hex(draw(st.integers(0, 2**48))),
        )

    assert mask_key(filled()) == mask_key(filled())


def test_names_that_hold_digits_keep_lines_apart() -> None:
    names = [
        "llama-3-8b",
        "llama-2-8b",
        "qwen2.5-7b",
        "layers.42.mlp",
        "layers.7.mlp",
        "TP0",
        "TP1",
        "float16",
    ]
    assert len({mask_key(f"loaded {name} now") for name in names}) == len(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model llama-3-8b on cuda:0 took 12ms", "model llama-3-8b on cuda:# took #ms"),
        ("generating core.1219", "generating core.#"),
        ("at 0xf20000000 and 0x1", "at # and #"),
        ("rates: 0.793, 0.552, 0.4", "rates: #"),
        ("shards:  27% Completed | 4/15 [00:59<01:57, 10.66s/it]", "shards: #%"),
        ("-5 of 10-20", "# of #-#"),
        ("", ""),
    ],
)
def test_masked_form_is_as_documented(text: str, expected: str) -> None:
    assert masked(text) == expected


def test_packed_keys_equal_single_keys_and_empty_texts_have_none() -> None:
    texts = ["a 1", "", "b 22 c", "x" * 5000, "é 5"]
    raw = [t.encode() for t in texts]
    keys = mask_keys(
        np.frombuffer(b"".join(raw), np.uint8), np.cumsum([len(r) for r in raw]).astype(np.int64)
    )
    assert [tuple(int(v) for v in key) for key in keys] == [(0, 0) if not t else mask_key(t) for t in texts]
