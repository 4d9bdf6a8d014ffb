"""tiktoken.model, as Kimi's models have it: its keys in GGUF, and the ids of texts against a plain merge by ranks."""

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.text.tokenizer import Tokenizer
from edgellm.text.word_patterns import KIMI_K2
from support.oracle import llama_cpp_tokens
from support.vocabulary_folder import Folder

WORDS = ["he", "ll", "hell", "hello", " t", " th", " the", "th", " h", " he", "\r\n", "12", "  ", "en"]
RANKS = [bytes([i]) for i in range(256)]
RANKS += [each for each in ("é".encode(), b"\xe6\x97", "日".encode()) if each not in RANKS]
RANKS += [word.encode() for word in WORDS if word.encode() not in RANKS]
FIRST = len(RANKS)
NAMED = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 5: "<think>"}


def model(ranks: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks))


def folder(path: Path, kind: str = "kimi_linear", ranks: bytes = model(RANKS)) -> Folder:
    added: dict[str, Any] = {
        str(FIRST + i): {"content": text, "special": text != "<think>"} for i, text in NAMED.items()
    }
    config = {"model_type": kind, "bos_token_id": FIRST, "eos_token_id": FIRST + 2}
    made = Folder(path, config, tokenizer_config__json={"added_tokens_decoder": added, "bos_token": "[BOS]"})
    made.write("tiktoken.model", ranks)
    return made


def reference(text: str) -> list[int]:
    """As tiktoken: the pair of lowest rank merges, leftmost first."""
    ids: list[int] = []
    for word, _ in Split(Regex(KIMI_K2), "isolated").pre_tokenize_str(text):
        parts = [bytes([byte]) for byte in word.encode()]
        while found := [(RANKS.index(m), i) for i in range(len(parts) - 1) if (m := parts[i] + parts[i + 1]) in RANKS]:
            _, at = min(found)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        ids += map(RANKS.index, parts)
    return ids


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("tiktoken")).gguf()


@settings(max_examples=200)
@given(st.lists(st.one_of(st.sampled_from([*WORDS, "h", "é", "日"]), st.text(max_size=3))).map("".join))
def test_ids_are_those_of_a_merge_by_ranks(path: Path, text: str) -> None:
    assert Tokenizer.open(path).encode(text) == reference(text)


def test_ids_are_llama_cpps(path: Path) -> None:
    text = "[BOS]hello the é 1212  hellen\r\n<|im_end|> the<think>"
    ids = Tokenizer.open(path).encode(text, add_special=True, parse_special=True)
    assert ids == llama_cpp_tokens(path, text, add_bos=True, special=True)
    assert (ids[0], ids[-1]) == (FIRST, FIRST + 5)


@pytest.mark.parametrize("size", [None, FIRST + 256, FIRST + 300, FIRST + 3])
def test_keys(tmp_path: Path, size: int | None) -> None:
    made = folder(tmp_path).values(size)
    texts, types = made["tokens"], made["token_type"]
    assert len(texts) == len(types) == (size or FIRST + 256)
    assert texts[FIRST : FIRST + 3] == ["[BOS]", "[EOS]", "<|im_end|>"]
    assert types[FIRST : FIRST + 3] == [3] * 3
    assert types[:FIRST] == [1] * FIRST
    assert [merge for merge in made["merges"] if merge.replace(" ", "") == "hello"] == ["hell o"]
    assert (made["model"], made["pre"], made["bos_token_id"], made["eos_token_id"]) == (
        "gpt2",
        "kimi-k2",
        FIRST,
        FIRST + 2,
    )
    if size != FIRST + 3:
        assert texts[FIRST + 3] == f"<|reserved_token_{FIRST + 3}|>"
        assert (texts[FIRST + 5], types[FIRST + 5], types[FIRST + 3]) == ("<think>", 4, 3)
    assert texts[FIRST + 256 :] == [f"[PAD{i}]" for i in range(FIRST + 256, len(texts))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "lacks some of the 256 bytes"),
        (model(RANKS[1:]), "lacks some of the 256 bytes"),
        (model([*RANKS, b"he"]), "has a token twice"),
        (model(RANKS) + b"aGVu 9\n", f"line {FIRST + 1} is no token of rank {FIRST}"),
        (model(RANKS) + b"?? %d\n" % FIRST, f"line {FIRST + 1} is no token of rank {FIRST}"),
        (model(RANKS) + b"\n", f"line {FIRST + 1} is no token"),
        (model([*RANKS, b"x" * 2000]), f"line {FIRST + 1} is no token"),
    ],
)
def test_damaged_files_are_one_line(tmp_path: Path, data: bytes, expected: str) -> None:
    with pytest.raises(ModelFileError) as error:
        folder(tmp_path, ranks=data).values()
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_vocabulary_that_is_too_small(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=f"it has a token {FIRST - 1}, but {FIRST - 1} tokens are wanted"):
        folder(tmp_path).values(FIRST - 1)


def test_other_models_cut_words_in_ways_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="how its words are cut is not known for this model"):
        folder(tmp_path, "llama").values()
