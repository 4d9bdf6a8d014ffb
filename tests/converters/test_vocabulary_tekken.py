"""tekken.json, Mistral's own format: its keys in GGUF, and the ids of texts against a plain merge by ranks."""

import base64
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.text.tokenizer import Tokenizer
from support.oracle import llama_cpp_tokens
from support.published import TEKKEN
from support.vocabulary_folder import Folder

WORDS = ["he", "ll", " h", "hell", "hello", " the", "th", " t", "é", "\r\n", "日", "12", " he", "  ", "en"]
RANKS = [*(bytes([i]) for i in range(256)), *(bytes([a, b]) for a, b in [(0xE6, 0x97), (0x20, 0x68)])]
RANKS += [word.encode() for word in WORDS if word.encode() not in RANKS]
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
RESERVED = 8


def document(**parts: Any) -> dict[str, Any]:
    config = {"pattern": TEKKEN, "default_vocab_size": RESERVED + len(RANKS), "default_num_special_tokens": RESERVED}
    entries = [
        {"rank": i, "token_bytes": base64.b64encode(data).decode(), "token_str": None} for i, data in enumerate(RANKS)
    ]
    special = [{"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(SPECIAL)]
    extra = {"rank": len(RANKS), "token_bytes": base64.b64encode(b"beyond").decode(), "token_str": "beyond"}
    return {"config": config, "vocab": [*entries, extra], "special_tokens": special} | parts


def reference(text: str) -> list[int]:
    """As tiktoken: a word that is a token is that token, or else the pair of lowest rank merges, leftmost first."""
    ids: list[int] = []
    for word, _ in Split(Regex(TEKKEN), "isolated").pre_tokenize_str(text):
        parts = [word.encode()] if word.encode() in RANKS else [bytes([byte]) for byte in word.encode()]
        while found := [(RANKS.index(m), i) for i in range(len(parts) - 1) if (m := parts[i] + parts[i + 1]) in RANKS]:
            _, at = min(found)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        ids += [RESERVED + RANKS.index(part) for part in parts]
    return ids


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Folder(tmp_path_factory.mktemp("tekken"), {"model_type": "mistral"}, tekken__json=document()).gguf()


@settings(max_examples=200)
@given(st.lists(st.one_of(st.sampled_from([*WORDS, "h", "é"]), st.text(max_size=3))).map("".join))
def test_ids_are_those_of_a_merge_by_ranks(path: Path, text: str) -> None:
    assert Tokenizer.open(path).encode(text) == reference(text)


def test_ids_are_llama_cpps(path: Path) -> None:
    text = "[INST]hello the 日é 1212  hellen\r\n[/INST] the</s>"
    ids = Tokenizer.open(path).encode(text, add_special=True, parse_special=True)
    assert ids == llama_cpp_tokens(path, text, add_bos=True, special=True)
    assert ids[:2] == [1, 3]
    assert ids[-1] == 2


def test_keys(tmp_path: Path) -> None:
    made = Folder(tmp_path, {"model_type": "mistral"}, tekken__json=document()).values()
    texts, types, merges = made.pop("tokens"), made.pop("token_type"), made.pop("merges")
    assert texts[:RESERVED] == [*SPECIAL, "<SPECIAL_6>", "<SPECIAL_7>"]
    assert texts[RESERVED + ord("h")] == "h"
    assert texts[-1] != "beyond"
    assert types == [3] * RESERVED + [1] * len(RANKS)
    assert [merge for merge in merges if merge.replace(" ", "") == "hell"] == ["he ll"]
    assert made == {
        "model": "gpt2",
        "pre": "tekken",
        "scores": [0.0] * len(texts),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "padding_token_id": 5,
        "add_bos_token": True,
        "add_eos_token": False,
    }


def test_older_files_have_the_special_tokens_of_their_time(tmp_path: Path) -> None:
    config = {"pattern": TEKKEN, "default_vocab_size": 30 + len(RANKS), "default_num_special_tokens": 30}
    made = Folder(tmp_path, tekken__json=document(special_tokens=None, config=config)).values()
    assert made["tokens"][3:5] == ["[INST]", "[/INST]"]
    assert (made["tokens"][11], made["tokens"][29], made["padding_token_id"]) == ("<pad>", "<SPECIAL_29>", 11)


def test_a_tokenizer_json_is_read_in_preference(tmp_path: Path) -> None:
    from support.vocabulary_folder import bpe

    made = Folder(tmp_path, tokenizer__json=bpe(["h e"]), tekken__json=document()).values()
    assert made["pre"] == "gpt-2"


BYTES = document()["vocab"]
CONFIG = document()["config"]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"config": None}, "config is missing"),
        ({"config": CONFIG | {"default_num_special_tokens": 3}}, "special_tokens has ids outside the 3"),
        (
            {"config": CONFIG | {"default_num_special_tokens": 1 << 21}},
            "default_num_special_tokens is 2097152, more than",
        ),
        ({"config": CONFIG | {"default_vocab_size": 10**6}}, "vocab has not the 256 bytes and 999992 different"),
        ({"config": CONFIG | {"default_vocab_size": -1}}, "vocab has not the 256 bytes"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}]}, "token_bytes is not Base64"),
        ({"vocab": [{"rank": 0, "token_bytes": ""}]}, "the token has no bytes"),
        ({"vocab": [BYTES[1], *BYTES[1:]]}, r"vocab\[0\]\.rank is out of order"),
        ({"vocab": [{"token_bytes": BYTES[1]["token_bytes"]}, *BYTES[1:]]}, "vocab has not the 256 bytes"),
        ({"special_tokens": [{"rank": 0, "token_str": "a"}, {"rank": 1, "token_str": "a"}]}, "has a token twice"),
    ],
)
def test_damage_is_named(tmp_path: Path, parts: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelFileError, match=rf"tekken\.json: .*{found}") as error:
        Folder(tmp_path, tekken__json=document(**parts)).values()
    assert "\n" not in str(error.value)


def test_another_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r'splits with "\\w\+", which is not known here'):
        Folder(tmp_path, tekken__json=document(config=CONFIG | {"pattern": r"\w+"})).values()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["tekken_240718.json", "tekken_240911.json"])
def test_the_published_file_round_trips(tmp_path: Path, file: str) -> None:
    """On the files in the package mistral-common, whose tokens are those of the ranks."""
    package = pytest.importorskip("mistral_common", reason="mistral-common, which has the file, is not installed")
    source = Path(package.__file__).parent / "data" / file
    folder = Folder(tmp_path, {"model_type": "mistral"})
    folder.write("tekken.json", source.read_bytes())
    tokenizer = Tokenizer.open(folder.gguf(131072))
    for parts in product(("Hello", " कखग", "中文", "\n\n", " 123", "é"), repeat=3):
        assert tokenizer.decode(tokenizer.encode("".join(parts))) == "".join(parts)
