"""SentencePiece vocabularies as Llama 2, Mistral, Phi-3 and Gemma files hold them, against llama.cpp."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.text.tokenizer import Tokenizer
from support.oracle import llama_cpp_tokens
from support.tiny_vocab import write_spm

PIECES = [*"etaoinshr", "th", "he", "in", "er", "an", "re", "the", "ing", "nd", "and", ".", "..", "!", "e\u0301", "\n"]
PIECES += ["▁", "▁t", "▁a", "▁th", "▁the", "▁and", "▁!", "▁▁", "▁▁▁▁"]
SCORED = {piece: -float(i) for i, piece in enumerate(PIECES)}
RUNS = {"\n\n": 4, "\n\n\n": 4, "▁▁▁": 4, "     ": 4, "\t\t": 4, "<table>": 4, "<unused0>": 3}
CHAT = {"<|user|>": 3, "<|assistant|>": 3, "<|end|>": 3, "<|endoftext|>": 3, "<|tool|>": 4}

# Per flavour: the words, the special tokens, further keys.
FLAVOURS: dict[str, tuple[dict[str, float], dict[str, int], dict[str, Any]]] = {
    "llama-2": (SCORED, {}, {}),
    "no scores": (dict.fromkeys(PIECES, 0.0), {}, {}),
    "mistral": (SCORED, {"[INST]": 3, "[/INST]": 3}, {"add_space_prefix": True, "add_eos_token": False}),
    "codellama": ({**SCORED, "▁in▁the": -0.5, "s▁the": -0.1}, {"▁<PRE>": 3, "▁<EOT>": 3}, {}),
    "phi-3": (SCORED, CHAT, {"name": "Phi 3 is Phi-3-mini", "add_space_prefix": False}),
    "gemma": (SCORED, {**RUNS, "<start_of_turn>": 3, "<end_of_turn>": 3}, {"add_space_prefix": False}),
}
PARTS = ["the", " and", "  ", "\n", "\n\n\n", "\t", "!", "..", "é\u0301", "中", "😀", " in the", "s the", "x", "\x00"]


def mixed(special: dict[str, int]) -> str:
    """A long text of all kinds of parts, the special tokens among them."""
    dice = random.Random(3)
    return "".join(dice.choices([*PARTS, "<s>", "</s>", *special], k=1500))


@pytest.fixture(scope="module", params=FLAVOURS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    words, special, keys = FLAVOURS[request.param]
    return write_spm(tmp_path_factory.mktemp("spm") / f"{request.param}.gguf", words, special, **keys)


@pytest.mark.parametrize("parse", [False, True])
def test_ids_are_llama_cpps(path: Path, parse: bool) -> None:
    text = mixed(FLAVOURS[path.stem][1])
    ours = Tokenizer.open(path).encode(text, add_special=True, parse_special=parse)
    theirs = llama_cpp_tokens(path, text, add_bos=True, special=parse)
    assert ours == theirs[theirs[:2] == [1, 1] :]  # llama.cpp puts a BOS before the BOS


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.open(path)


WITHOUT_MARK = st.text(st.characters(exclude_characters="\u2581", exclude_categories=["Cs"]))


@settings(max_examples=60)
@given(st.lists(st.one_of(st.sampled_from(PARTS), WITHOUT_MARK)).map("".join))
def test_texts_round_trip(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special=True)
    assert ids[:1] == [1]
    assert tokenizer.decode(ids) == text


@settings(max_examples=60)
@given(st.binary())
def test_bytes_round_trip_if_they_are_utf8(tokenizer: Tokenizer, data: bytes) -> None:
    ids = [3 + byte for byte in data]
    text = data.decode(errors="replace")
    assert b"".join(map(tokenizer.token_bytes, ids)) == data
    assert tokenizer.decode(tokenizer.encode(text.replace("\u2581", ""))) == text.replace("\u2581", "")


def test_only_phi_3_drops_the_white_space_behind_special_tokens(tmp_path: Path) -> None:
    words, special, keys = FLAVOURS["phi-3"]
    path = write_spm(tmp_path / "v.gguf", words, special, **keys)
    phi3 = Tokenizer.open(path)
    other = Tokenizer.open(write_spm(path, words, special, **(keys | {"name": "Phi 4"})))
    text = "<|user|>\n the<|end|>\n\t<|assistant|> \n<s> <|tool|> x"
    assert phi3.decode(phi3.encode(text, parse_special=True), special=True) == (
        "<|user|>the<|end|><|assistant|><s> <|tool|>x"
    )
    assert phi3.decode(phi3.encode(text), special=True) == text.replace("<|tool|> ", "<|tool|>")
    assert other.decode(other.encode(text, parse_special=True), special=True) == text
    ids = phi3.encode(text, parse_special=True)
    for name, architecture in (("Phi 3.5 Mini Instruct", "phi3"), ("Phi Mini MoE Instruct", "phimoe")):
        named = write_spm(path, words, special, **(keys | {"name": name, "architecture": architecture}))
        assert Tokenizer.open(named).encode(text, parse_special=True) == ids
