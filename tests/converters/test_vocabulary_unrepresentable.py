"""Features that GGUF cannot represent: a warning where ids may differ from the tokenizers library's, and only there."""

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Library

from converters import convert
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.text.tokenizer import Tokenizer
from support.published import LLAMA3, NFC, QWEN2, cuts
from support.vocabulary_folder import Folder, added, bpe

MERGES = ["Ġ t", "h e", "Ġt he", "Ã ©"]
SPECIAL = ("<|end|>", "<word>")
METASPACE = {"type": "Metaspace", "replacement": "▁"}
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]


def of_bytes(normalizer: Any = None, options: dict[str, bool] | None = None, pattern: str = LLAMA3) -> dict[str, Any]:
    listed = [added(260, SPECIAL[0], **(options or {})), added(261, SPECIAL[1], special=False, **(options or {}))]
    return bpe(MERGES, listed, pre_tokenizer=cuts(pattern), normalizer=normalizer)


def of_pieces(scheme: str) -> dict[str, Any]:
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": [["▁", "a"]]}
    return {
        "version": "1.0",
        "added_tokens": [added(i, text) for i, text in enumerate(TOKENS[:3])],
        "normalizer": None,
        "pre_tokenizer": METASPACE | {"prepend_scheme": scheme},
        "decoder": None,
        "model": model | {"vocab": {text: i for i, text in enumerate(TOKENS)}},
    }


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        (of_bytes(NFC), "e\u0301", "normalizes text to Unicode NFC"),
        (of_bytes({"type": "Sequence", "normalizers": [NFC]}), "e\u0301", "Unicode NFC"),
        (of_bytes(), "e\u0301", ""),
        (of_bytes(NFC, pattern=QWEN2), "e\u0301", ""),  # which the name qwen2 says
        (of_bytes(options={"lstrip": True}), "the <|end|>", r"matches 2 added tokens, such as <\|end\|>, .*\(lstrip\)"),
        (of_bytes(options={"rstrip": True}), "<|end|> the", r"\(rstrip\)"),
        (of_bytes(options={"single_word": True}), "the<word>the", r"\(single_word\)"),
        (of_bytes(), "the <|end|> the<word>the", ""),
        (of_pieces("first"), "a</s>a", "puts a space before the first text only, .*prepend_scheme: first"),
        (of_pieces("always"), "a</s>a", ""),
    ],
)
def test_ids_differ_where_a_note_says_so(tmp_path: Path, tokenizer: Any, text: str, expected: str) -> None:
    folder = Folder(tmp_path, tokenizer__json=tokenizer)
    if expected:
        with pytest.warns(
            EdgeLLMWarning, match=f"{tmp_path}: its tokenizer .*{expected}.*; GGUF cannot represent"
        ) as seen:
            path = folder.gguf()
        assert len(seen) == 1
    else:
        path = folder.gguf()
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    ids = Tokenizer.open(path).encode(text, parse_special=True)
    assert (ids == library.encode(text, add_special_tokens=False).ids) == (not expected)


def test_options_of_tokenizer_config_count(tmp_path: Path) -> None:
    decoder = {"260": added(260, "<|end|>", lstrip=True)}
    folder = Folder(tmp_path, tokenizer__json=of_bytes(), tokenizer_config__json={"added_tokens_decoder": decoder})
    with pytest.warns(EdgeLLMWarning, match=r"matches 1 added token, such as <\|end\|>, .*\(lstrip\)"):
        folder.values()


def trained(**options: Any) -> bytes:
    made = io.BytesIO()
    llama: dict[str, Any] = {"byte_fallback": True, "vocab_size": 300, "model_type": "bpe", "minloglevel": 2}
    lines = ["the cat sat in the hat and the bat"] * 30
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=made, **(llama | options))
    return made.getvalue()


@pytest.mark.parametrize(
    ("rule", "single", "text", "expected"),
    [
        ("nmt_nfkc", False, "ﬁt", "replaces some characters before it splits text"),
        ("identity", True, " the   cat ", "merges repeated spaces into one"),
        ("identity", False, " the   ﬁt", ""),
    ],
)
def test_normalizers_of_sentencepiece(tmp_path: Path, rule: str, single: bool, text: str, expected: str) -> None:
    data = trained(normalization_rule_name=rule, remove_extra_whitespaces=single)
    folder = Folder(tmp_path, tokenizer__model=data)
    if expected:
        with pytest.warns(EdgeLLMWarning, match=expected):
            path = folder.gguf()
    else:
        path = folder.gguf()
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert (Tokenizer.open(path).encode(text) == library.encode(text)) == (not expected)


@pytest.mark.parametrize("data", [b"AA== 0\nAQ== 1\n", b"", b"\x0a\x05abc", "word"])
def test_a_tokenizer_model_of_another_kind_beside_a_good_tokenizer_json(tmp_path: Path, data: bytes | str) -> None:
    alone = Folder(tmp_path / "alone", tokenizer__json=of_bytes()).values()
    model = data if isinstance(data, bytes) else trained(model_type="word", byte_fallback=False, vocab_size=10)
    folder = Folder(tmp_path / "both", tokenizer__json=of_bytes(), tokenizer__model=model)
    with pytest.warns(EdgeLLMWarning, match=r"tokenizer\.model.*; tokenizer\.json is read instead"):
        assert folder.values() == alone
    (tmp_path / "both" / "tokenizer.json").unlink()
    with pytest.raises(EdgeLLMError, match=r"tokenizer\.model"):
        folder.values()


@pytest.mark.parametrize("tokenizer", [of_bytes(), of_pieces("always")])
def test_a_tokenizer_model_of_another_model_is_not_taken_for_this_ones(tmp_path: Path, tokenizer: Any) -> None:
    """Left from the model that this one was made of; transformers reads tokenizer.json alone."""
    folder = Folder(tmp_path, tokenizer__json=tokenizer, tokenizer__model=trained(remove_extra_whitespaces=False))
    with pytest.warns(
        EdgeLLMWarning, match=r"tokenizer\.model: is of another model than tokenizer\.json: its token \d+ is"
    ):
        path = folder.gguf()
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    text = "the a cat"
    assert Tokenizer.open(path).encode(text) == library.encode(text, add_special_tokens=False).ids


def test_the_published_example_is_read_from_its_tokenizer_json(shared: Path, tmp_path: Path) -> None:
    folder = shared / "field" / "tokenizer-model-is-no-sentencepiece"
    if not folder.is_dir():
        pytest.skip("needs field/tokenizer-model-is-no-sentencepiece in the shared data folder")
    with pytest.warns(EdgeLLMWarning, match=r"is no whole SentencePiece model: .*; tokenizer\.json is read instead"):
        convert(folder, tmp_path / "out.gguf", "Q8_0")
    library, ours = Library.from_file(str(folder / "tokenizer.json")), Tokenizer.open(tmp_path / "out.gguf")
    text = "the cat's hat, 12345\n\nin théâtre"
    assert ours.encode(text) == library.encode(text, add_special_tokens=False).ids
    with GGUFFile.open(tmp_path / "out.gguf") as file:
        assert file.get_str("tokenizer.ggml.model") == "gpt2"
