"""SentencePiece-style tokenizing on small vocabularies, against a plain quadratic reference."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.text.tokenizer import Tokenizer
from support.tiny_vocab import write, write_spm

WORDS = {"▁": -9.0, "a": -8.0, "b": -7.0, "ab": -3.0, "ba": -2.0, "aab": -1.0, "▁a": -2.5, "▁▁": -4.0}
WORDS |= {"é": -6.0}
INNER_SPACE = {**WORDS, "b▁": -2.2, "b▁a": -1.5}
SPECIAL = {"<user>": 4, "<user>x": 4, "<|im_end|>": 3, "[ctl]": 3}
FIRST = 259  # the id of the first word


def reference(text: str, words: dict[str, float]) -> list[int]:
    """The leftmost pair with the best score merges, again and again; unknown text becomes bytes."""
    symbols = list(text.replace(" ", "▁"))
    ids = {word: FIRST + i for i, word in enumerate(words)}
    while pairs := [i for i in range(len(symbols) - 1) if symbols[i] + symbols[i + 1] in words]:
        i = max(pairs, key=lambda i: (words[symbols[i] + symbols[i + 1]], -i))
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
    return [i for s in symbols for i in ([ids[s]] if s in ids else [3 + byte for byte in s.encode()])]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_spm(tmp_path_factory.mktemp("spm") / "v.gguf", WORDS, SPECIAL)


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.open(path)


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.open(write_spm(tmp_path_factory.mktemp("spm") / "i.gguf", INNER_SPACE, {}))


@given(st.text(alphabet="aab é<", max_size=100))
def test_merges_in_the_order_of_the_reference(tokenizer: Tokenizer, inner: Tokenizer, text: str) -> None:
    expected = reference(" " + text, WORDS) if text else []
    assert tokenizer.encode(text) == expected
    assert inner.encode(text) == (reference(" " + text, INNER_SPACE) if text else [])


@given(st.text(st.characters(exclude_characters="\u2581", exclude_categories=["Cs"])))
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    for special in (False, True):
        ids = tokenizer.encode(text, add_special=True, parse_special=special)
        assert tokenizer.decode(ids) == text or special
        assert tokenizer.decode(ids[1:], special=True) == text


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["<s>", "<user>", "<user>x", "<|im_end|>", " ", "a", "é", "[ctl]"])))
def test_special_tokens_round_trip_too(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    ids = tokenizer.encode(text, parse_special=True)
    assert tokenizer.decode(ids, special=True) == text


def test_special_tokens_by_hand(tokenizer: Tokenizer) -> None:
    user, user_x, im_end = (tokenizer.n_vocab - n for n in (4, 3, 2))
    space_a, b = FIRST + 6, FIRST + 2
    assert tokenizer.encode("a<user>b") == [space_a, user, FIRST, b]
    assert tokenizer.encode("<user>xa") == [user_x, space_a]
    assert tokenizer.encode("a<|im_end|>", parse_special=True) == [space_a, im_end]
    assert im_end not in tokenizer.encode("a<|im_end|>")
    assert tokenizer.encode("<s>a", add_special=True, parse_special=True) == [1, space_a]
    assert tokenizer.encode("a", add_special=True) == [1, space_a]
    assert tokenizer.encode("", add_special=True) == [1]
    assert tokenizer.eog_ids == {2, im_end}
    assert tokenizer.decode([1, space_a, im_end]) == "a"
    assert tokenizer.decode([1, space_a, im_end], special=True) == "<s>a<|im_end|>"


def test_plain_text_never_merges_into_a_control_token(tmp_path: Path) -> None:
    words = {"▁": -9.0, "x": -1.0, "y": -1.0}
    tokenizer = Tokenizer.open(write_spm(tmp_path / "v.gguf", words, {"xy": 3}, add_space_prefix=False))
    assert tokenizer.encode("xy") == [FIRST + 1, FIRST + 2]
    assert tokenizer.encode("xy", parse_special=True) == [FIRST + 3]


def test_surrogates_are_replaced(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode("😀")


def test_long_input_is_not_quadratic(tokenizer: Tokenizer, inner: Tokenizer) -> None:
    for text in ("a" * 100_000, "ab" * 50_000, " " * 100_000, "é<" * 50_000, "a b" * 30_000):
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert inner.decode(inner.encode(text)) == text


def test_without_byte_tokens_the_unknown_token_stands_in(tmp_path: Path) -> None:
    keys = {"scores": [0.0] * 5, "token_type": [2, 3, 3, 1, 1], "add_space_prefix": False}
    path = write(tmp_path / "v.gguf", "llama", ["<unk>", "<s>", "</s>", "a", "b"], **keys)
    assert Tokenizer.open(path).encode("aéb") == [3, 0, 4]


def test_tokens_that_are_not_utf8_keep_their_bytes(tmp_path: Path) -> None:
    keys = {"scores": [0.0] * 5, "token_type": [2, 3, 3, 1, 4]}
    path = write(tmp_path / "v.gguf", "llama", ["<unk>", "<s>", "</s>", b"\xff\xe2\x96\x81", b"\xfe"], **keys)
    tokenizer = Tokenizer.open(path)
    assert [tokenizer.token_bytes(i) for i in (3, 4)] == [b"\xff ", b"\xfe"]
    assert tokenizer.decode([3, 4]) == "\ufffd \ufffd"
