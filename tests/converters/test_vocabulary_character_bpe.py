"""tokenizer.json of BPE over characters, as Gemma 3 and 4 publish it: the keys in GGUF."""

from pathlib import Path
from typing import Any

import pytest

from edgellm.text.tokenizer import Tokenizer
from support.character_bpe import BYTES, SETTINGS, SPECIAL, tokenizer_json
from support.vocabulary_folder import Folder, added

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


def values(path: Path, kind: str, **parts: Any) -> dict[str, Any]:
    tokenizer = tokenizer_json(**parts)
    return Folder(path, {"model_type": kind}, tokenizer__json=tokenizer, tokenizer_config__json=SETTINGS).values()


def test_keys_of_gemma_4(tmp_path: Path) -> None:
    """The keys are those of llama.cpp's converter, and merges are not spelled as bytes."""
    made = values(tmp_path, "gemma4_text")
    tokens = tokenizer_json()["model"]["vocab"]
    assert made.pop("merges") == [" ".join(pair) for pair in tokenizer_json()["model"]["merges"]]
    assert made.pop("tokens") == list(tokens)
    assert made.pop("token_type") == (
        [CONTROL] * (len(SPECIAL) - 1) + [USER_DEFINED] + [BYTE] * 256 + [NORMAL] * (len(tokens) - 256 - len(SPECIAL))
    )
    assert made == {
        "add_space_prefix": False,
        "model": "gemma4",
        "scores": [-1000.0] * len(tokens),
        "bos_token_id": 2,
        "eos_token_id": 1,
        "unknown_token_id": 3,
        "padding_token_id": 0,
        "add_bos_token": True,
        "add_sep_token": False,
    }


def test_keys_of_another_family(tmp_path: Path) -> None:
    made = values(tmp_path, "gemma3")
    assert (made["model"], made["pre"], made["add_bos_token"]) == ("gpt2", "gemma4", True)
    assert "scores" not in made
    assert made["token_type"][SPECIAL.index("<|channel>")] == CONTROL


def test_added_tokens_with_the_mark_of_a_space_stay_words(tmp_path: Path) -> None:
    """They are looked for in the text before its spaces become marks, and so are not found in it."""
    tokens = tokenizer_json()["model"]["vocab"]
    more = tuple(added(tokens[text], text, special=False) for text in ("▁▁", "\n\n", "<b>"))
    made = values(tmp_path, "gemma4", more=more)
    assert [made["token_type"][tokens[text]] for text in ("▁▁", "\n\n", "<b>")] == [NORMAL, USER_DEFINED, USER_DEFINED]


@pytest.mark.parametrize("text", ["\n" * 12, " " * 12, "the  the\n\n\n<b>in"])
def test_added_tokens_are_cut_as_the_library_cuts_them(tmp_path: Path, text: str) -> None:
    from tokenizers import Tokenizer as Library

    tokens = tokenizer_json()["model"]["vocab"]
    runs = ["▁▁", "▁▁▁", "\n", "\n\n", "\n\n\n", "<b>"]
    more = tuple(added(tokens[run], run, special=False) for run in runs)
    folder = Folder(tmp_path, {"model_type": "gemma3"}, tokenizer__json=tokenizer_json(more=more))
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.open(folder.gguf()).encode(text) == library.encode(text, add_special_tokens=False).ids


def test_bytes_are_tokens_of_their_type(tmp_path: Path) -> None:
    made = values(tmp_path, "gemma4")
    assert [text for text, kind in zip(made["tokens"], made["token_type"], strict=True) if kind == BYTE] == BYTES
