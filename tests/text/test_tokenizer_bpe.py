"""Byte-level BPE on small vocabularies, against a plain quadratic reference."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.text.tokenizer import Tokenizer
from support.make_vocab import byte_letters
from support.tiny_vocab import write_bpe

MERGES = ["h e", "l l", "Ġ he", "he ll", "Ã ©", "o w", "Ġ Ġ", "r l", "Ġhe ll", "1 2", "12 3"]
SPECIAL = {"<user>": 4, "<|im_start|>": 3, "<|im_end|>": 3}
LETTERS = list(byte_letters())
MADE = {merge.replace(" ", ""): 256 + i for i, merge in enumerate(MERGES)}


def reference(word: str) -> list[int]:
    """The leftmost pair with the best rank in MERGES merges, again and again."""
    symbols = [LETTERS[byte] for byte in word.encode()]
    while pairs := {(m, i) for i in range(len(symbols) - 1) if (m := " ".join(symbols[i : i + 2])) in MERGES}:
        _, i = min((MERGES.index(merge), i) for merge, i in pairs)
        symbols[i : i + 2] = ["".join(symbols[i : i + 2])]
    return [MADE[s] if s in MADE else LETTERS.index(s) for s in symbols]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.open(write_bpe(tmp_path_factory.mktemp("bpe") / "v.gguf", MERGES, SPECIAL))


@given(st.text(alphabet="hellowré", min_size=1, max_size=60))
def test_merges_inside_a_word_in_the_order_of_the_reference(tokenizer: Tokenizer, word: str) -> None:
    assert tokenizer.encode(word) == reference(word)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    for special in (False, True):
        assert tokenizer.decode(tokenizer.encode(text, parse_special=special), special=True) == text


@given(st.lists(st.integers(0, 255 + len(MERGES) + len(SPECIAL))))
def test_decoding_never_fails(tokenizer: Tokenizer, ids: list[int]) -> None:
    data = b"".join(tokenizer.token_bytes(i) for i in ids)
    assert tokenizer.decode(ids) == data.decode(errors="replace")


def test_every_byte_letter_stands_for_its_byte(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([i]) for i in tokenizer.encode(text)]


def test_words_are_cut_as_gpt2_and_llama3_do(tmp_path: Path) -> None:
    merges = [*MERGES, "Ġ hell", "i n", "4 5", "! Ċ"]
    path = write_bpe(tmp_path / "v.gguf", merges, {})
    gpt2, llama = Tokenizer.open(path), Tokenizer.open(path, pre="llama-bpe")
    assert words(gpt2, "2345") == ["2", "3", "45"] and words(llama, "2345") == ["2", "3", "4", "5"]
    assert words(gpt2, "!\n") == ["!", "\n"] and words(llama, "!\n") == ["!\n"]
    assert words(gpt2, "   hell") == ["  ", " hell"] == words(llama, "   hell")
    assert words(gpt2, "xin he") == ["x", "in", " he"]


def test_a_word_that_is_a_token_skips_merges_only_with_ignore_merges(tmp_path: Path) -> None:
    path = write_bpe(tmp_path / "v.gguf", MERGES, {"wow": 1})
    assert words(Tokenizer.open(path), "wow") == ["w", "ow"]
    assert words(Tokenizer.open(path, pre="llama-bpe"), "wow") == ["wow"]


def test_plain_text_never_makes_a_control_token(tmp_path: Path) -> None:
    types = [1] * 258 + [3, 3]
    path = write_bpe(tmp_path / "v.gguf", ["h e", "l l", "w w"], {"zz": 3}, token_type=types)
    for pre in ("gpt-2", "llama-bpe"):
        tokenizer = Tokenizer.open(path, pre)
        assert tokenizer.encode("wwzz") == list(b"wwzz")
        assert tokenizer.encode("heww", parse_special=True) == [256, 258]


def test_special_tokens_by_hand(tokenizer: Tokenizer) -> None:
    user, im_start, im_end = range(256 + len(MERGES), tokenizer.n_vocab)
    assert tokenizer.encode("h<user>h") == [104, user, 104]
    assert tokenizer.encode("<|im_start|>h<|im_end|>", parse_special=True) == [im_start, 104, im_end]
    assert not {im_start, im_end} & {*tokenizer.encode("<|im_start|>h<|im_end|>")}
    assert tokenizer.eog_ids == {im_end}
    assert (tokenizer.bos_id, tokenizer.add_bos) == (None, False)
    assert tokenizer.encode("h", add_special=True) == [104]


def test_flags_and_roles_from_the_metadata(tmp_path: Path) -> None:
    roles = {"bos_token_id": 1, "eos_token_id": 2, "eot_token_id": 3, "eom_token_id": 4}
    path = write_bpe(tmp_path / "v.gguf", ["h e"], {"<|end|>": 1}, add_eos_token=True, **roles)
    plain, llama = Tokenizer.open(path), Tokenizer.open(path, "llama-bpe")
    assert plain.eog_ids == {2, 3, 4, 257}
    assert plain.encode("h", add_special=True) == [104, 2]
    assert llama.encode("h", add_special=True) == [1, 104, 2]
    assert plain.decode([257]) == "" and plain.decode([257], special=True) == "<|end|>"


def test_surrogates_are_replaced(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("h\udc80") == tokenizer.encode("h\ufffd")
