"""BPE over characters, Gemma 4's kind of tokenizer: as the tokenizers library reads it, and as llama.cpp does."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from edgellm.errors import ModelFileError, OptionError
from edgellm.text.tokenizer import Tokenizer
from support.character_bpe import BYTES, HARD, SETTINGS, SPECIAL, TEXTS, tokenizer_json
from support.oracle import llama_cpp_ends, llama_cpp_tokens
from support.tiny_vocab import write
from support.vocabulary_folder import Folder


def folder(path: Path, kind: str = "gemma4", **parts: Any) -> Folder:
    return Folder(path, {"model_type": kind}, tokenizer__json=tokenizer_json(**parts), tokenizer_config__json=SETTINGS)


@pytest.fixture(scope="module", params=["gemma4", "gemma3"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Library]:
    """Our tokenizer of the converted file, and the library's of tokenizer.json."""
    made = folder(tmp_path_factory.mktemp("bpe"), request.param)
    return Tokenizer.open(made.gguf()), Library.from_str(json.dumps(tokenizer_json()))


@settings(max_examples=150)
@given(st.lists(st.one_of(st.sampled_from(HARD), st.text(st.characters(exclude_categories=["Cs"])))).map("".join))
def test_ids_are_the_librarys(pair: tuple[Tokenizer, Library], text: str) -> None:
    ours, library = pair
    ids = ours.encode(text, parse_special=True)
    assert ids == library.encode(text, add_special_tokens=False).ids
    if not any(special in text for special in SPECIAL):
        assert ours.decode(ids) == text.replace("▁", " ")


@pytest.mark.parametrize("kind", ["gemma4", "gemma3"])
@pytest.mark.parametrize("special", [False, True])
def test_ids_are_llama_cpps(tmp_path: Path, kind: str, special: bool) -> None:
    path = folder(tmp_path, kind).gguf()
    text = "|".join(TEXTS).replace("\n" * 11, "\n" * 8)  # llama.cpp has no merges of line ends
    if not special:
        text = text.replace("<|channel>", "")  # for llama.cpp a message may forge it
    ours = Tokenizer.open(path).encode(text, add_special=True, parse_special=special)
    assert ours == llama_cpp_tokens(path, text, add_bos=True, special=special)


def test_a_file_of_gemma_4_always_gets_a_bos_and_ends_at_its_turns(tmp_path: Path) -> None:
    path = folder(tmp_path).gguf()
    tokenizer = Tokenizer.open(path)
    assert tokenizer.eog_ids == llama_cpp_ends(path) == {SPECIAL.index("<eos>"), SPECIAL.index("<turn|>")}
    tokens = [text.decode() for text in tokenizer.vocabulary.texts]
    types = [3] * len(SPECIAL) + [6] * 256 + [1] * (len(tokens) - 256 - len(SPECIAL))
    older = write(tmp_path / "older.gguf", "gemma4", tokens, token_type=types, merges=["t h"], bos_token_id=2)
    assert Tokenizer.open(older).encode("th", add_special=True) == [2, tokens.index("th")]


def test_a_token_with_a_visible_text_is_shown(tmp_path: Path) -> None:
    tokenizer = Tokenizer.open(folder(tmp_path).gguf())
    channel, turn = SPECIAL.index("<|channel>"), SPECIAL.index("<|turn>")
    assert tokenizer.decode([turn, channel]) == "<|channel>"
    assert tokenizer.encode("<|channel>", parse_special=True) == [channel]
    assert channel not in tokenizer.encode("<|channel>")  # no message forges it


def test_an_unknown_character_without_byte_tokens_is_the_unknown_token(tmp_path: Path) -> None:
    keys = {"token_type": [2, 1, 1, 1], "merges": ["a b"], "unknown_token_id": 0}
    path = write(tmp_path / "v.gguf", "gemma4", ["<unk>", "a", "b", "ab"], **keys)
    assert Tokenizer.open(path).encode("ab日本ab") == [3, 0, 3]


def test_damaged_byte_tokens_and_merges_are_named(tmp_path: Path) -> None:
    keys = {"token_type": [6, 1, 1, 1], "merges": ["a b", "b c"]}
    with pytest.raises(ModelFileError, match="token 0 is a byte token, but its text is not"):
        Tokenizer.open(write(tmp_path / "v.gguf", "gemma4", ["<0xZZ>", "a", "b", "ab"], **keys))
    path = write(tmp_path / "w.gguf", "gemma4", [BYTES[0], "a", "b", "ab"], **keys)
    with pytest.raises(ModelFileError, match=r'merges\[1\] "b c" joins or makes what is not a token'):
        Tokenizer.open(path).encode("ab")
    with pytest.raises(OptionError, match="uses none; leave it out"):
        Tokenizer.open(path, "gpt-2")
