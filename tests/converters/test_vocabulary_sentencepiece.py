"""tokenizer.model, and tokenizer.json made from one: tokens, scores and types, and the ids that texts get from them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from converters.vocabulary.model_proto import parse
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.text.tokenizer import Tokenizer
from support.oracle import llama_cpp_tokens
from support.vocabulary_folder import Folder, added

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
CORPUS = Path(__file__).read_text(encoding="utf-8").splitlines() + ["the cat sat in the hat and the bat"] * 30
TEXTS = ["the hat and  the cat,\n\n\tin the assert", "  def é中文😀\x00 12345", "<s>the</s> <tool>sat"]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE]}


def trained(kind: str, **options: Any) -> bytes:
    """A small tokenizer.model with Llama 2's settings."""
    made = io.BytesIO()
    llama: dict[str, Any] = {"byte_fallback": True, "normalization_rule_name": "identity", "vocab_size": 420}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=made,
        model_type=kind,
        minloglevel=2,
        num_threads=1,
        remove_extra_whitespaces=False,
        **(llama | options),
    )
    return made.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return trained("bpe", user_defined_symbols=["<tool>"])


def test_tokens_are_those_of_the_library(tmp_path: Path, model: bytes) -> None:
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    folder = Folder(tmp_path, tokenizer__model=model)
    values = folder.values(422)
    assert list(values)[:5] == ["model", "pre", "tokens", "scores", "token_type"]
    assert (values["model"], values["pre"]) == ("llama", "default")
    assert values["tokens"] == [*(library.id_to_piece(i) for i in range(420)), "[PAD420]", "[PAD421]"]
    assert values["scores"] == [*(library.get_score(i) for i in range(420)), -10000.0, -10000.0]
    # As llama.cpp's converter has it, the model's own <tool> is like any other.
    types = [UNKNOWN, CONTROL, CONTROL, NORMAL, *[BYTE] * 256, *[NORMAL] * 160, UNUSED, UNUSED]
    assert values["token_type"] == types


def test_ids_are_those_of_the_library(tmp_path: Path) -> None:
    data = trained("bpe")
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    path = Folder(tmp_path, tokenizer__model=data).gguf()
    for text in [*TEXTS[:2], *CORPUS[:60]]:
        assert Tokenizer.open(path).encode(text) == library.encode(text)


def test_added_tokens(tmp_path: Path, model: bytes) -> None:
    listed = [added(3, "<tool>"), added(421, "▁<b>", special=False), added(423, "<|x|>", special=False)]
    decoder = {str(entry["id"]): entry for entry in listed}
    folder = Folder(tmp_path, added_tokens__json={"<a>": 420, "<b>": 421}, tokenizer__model=model)
    folder.write("tokenizer_config.json", {"added_tokens_decoder": decoder, "add_prefix_space": True})
    values = folder.values(424)
    assert next(iter(values.items())) == ("add_space_prefix", True)
    tokens = list(zip(values["tokens"], values["token_type"], values["scores"], strict=True))
    assert tokens[3] == ("<tool>", CONTROL, -1000.0)
    assert tokens[420:] == [
        ("<a>", USER_DEFINED, -1000.0),
        (" <b>", USER_DEFINED, -1000.0),
        ("[PAD422]", UNUSED, -10000.0),
        ("<|x|>", CONTROL, -1000.0),
    ]
    with pytest.warns(EdgeLLMWarning, match=r"tokenizer\.model: 2 tokens from 421 on are left out"):
        assert len(folder.values(421)["tokens"]) == 421


def test_what_a_reader_should_know(tmp_path: Path) -> None:
    folder = Folder(tmp_path, tokenizer__model=trained("unigram", add_dummy_prefix=False))
    with pytest.warns(EdgeLLMWarning, match=r"tokenizer\.model: a unigram model"):
        assert folder.values()["add_space_prefix"] is False
    folder.write("tokenizer.model", trained("char", byte_fallback=False, vocab_size=50))
    with pytest.raises(UnsupportedModelError, match=r"tokenizer\.model: its tokens are whole words or letters"):
        folder.values()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("added_tokens.json", {"<a>": -1}, r"added_tokens\.json: <a> is -1, which is no id"),
        ("added_tokens.json", {"<a>": 5, "<b>": 5}, r"added_tokens\.json: <b> is 5"),
        ("added_tokens.json", {"<a>": "5"}, r"added_tokens\.json: <a> is text instead of a whole number"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": 5}}, r"added_tokens_decoder\.5 is a whole number"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"-5": {}}}, r"added_tokens_decoder\.-5 is no token's id"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": {}}}, r"added_tokens_decoder\.5\.content is missing"),
        ("tokenizer.model", b"", r"no whole SentencePiece model: it has no tokens"),
        ("tokenizer.model", b"\x0a\x05abc", r"no whole SentencePiece model: the data is cut off"),
        ("tokenizer.model", b"\x0a\x03\x0a\x01a" * 2, r"it has a token twice"),
        ("tokenizer.model", b"\x0a\x03\x0a\x01\xff", r"the text of a token is not UTF-8"),
        ("tokenizer.model", b"\x0a\x08\x0a\x01a\x15\0\0\x80\x7f", r"a token has no text, no score or no known type"),
        ("tokenizer.model", b"\x0a\x05\x0a\x01a\x18\x06", r"a byte token does not say which byte it is"),
        ("tokenizer.model", b"gQ== 0\nAA== 1\n", r"no whole SentencePiece model: there is a field of an unknown kind"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, model: bytes, name: str, value: Any, found: str) -> None:
    folder = Folder(tmp_path, tokenizer__model=model)
    folder.write(name, value)
    with pytest.raises(ModelFileError, match=found) as error:
        folder.values()
    assert str(error.value).startswith(f"{tmp_path}/{name}")
    assert "\n" not in str(error.value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_gives_a_model_or_an_error(model: bytes, data: st.DataObject) -> None:
    damaged = bytearray(model[: data.draw(st.integers(0, len(model)))])
    for at in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=4)):
        damaged[at : at + 1] = data.draw(st.binary(max_size=3))
    try:
        parse(bytes(damaged), "tokenizer.model")
    except EdgeLLMError as error:
        assert "\n" not in str(error)


def as_json(tokens: list[str], scores: list[float], special: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """The tokenizer.json that transformers makes of a SentencePiece model: each way to make a token is a merge."""
    ids = {text: i for i, text in enumerate(tokens)}
    ways = [(text[:n], text[n:]) for text in tokens[3:] for n in range(1, len(text)) if not text.startswith("<0x")]
    merges = sorted((way for way in ways if {*way} <= ids.keys()), key=lambda way: -scores[ids["".join(way)]])
    kind = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    return {
        "version": "1.0",
        "added_tokens": [added(i, text) for i, text in enumerate(tokens[:3])] + special,
        "normalizer": PREPEND,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": []},
        "model": kind | {"vocab": ids, "merges": [list(way) for way in merges]},
    } | parts


def test_tokens_that_were_added_in_tokenizer_json_alone(tmp_path: Path) -> None:
    """Beyond those of tokenizer.model, or among its own: as a token to cut out before, which may have another name."""
    data = trained("bpe", user_defined_symbols=["[INST]"])
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokens, scores = [library.id_to_piece(i) for i in range(420)], [library.get_score(i) for i in range(420)]
    assert tokens[3] == "[INST]"
    tokens[1] = "<bos>"
    special = [added(3, "[INST]"), added(420, "<tool>"), added(421, "<b>", special=False)]
    folder = Folder(tmp_path, tokenizer__json=as_json(tokens, scores, special), tokenizer__model=data)
    values = folder.values(423)
    assert values["tokens"][420:] == ["<tool>", "<b>", "[PAD422]"]
    types = values["token_type"]
    assert (types[0], types[3], types[420:]) == (UNKNOWN, CONTROL, [CONTROL, USER_DEFINED, UNUSED])
    json_ids, ours = Library.from_file(str(tmp_path / "tokenizer.json")), Tokenizer.open(folder.gguf(423))
    text = "<b>the<b> hat[INST] the"
    assert ours.encode(text, parse_special=True) == json_ids.encode(text, add_special_tokens=False).ids


def test_a_tokenizer_json_gets_its_scores_back(tmp_path: Path) -> None:
    library = sentencepiece.SentencePieceProcessor(model_proto=trained("bpe"))
    tokens, scores = [library.id_to_piece(i) for i in range(420)], [library.get_score(i) for i in range(420)]
    special = [added(420, "<tool>"), added(421, "<b>", special=False)]
    folder = Folder(tmp_path, tokenizer__json=as_json(tokens, scores, special))
    values = folder.values(423)
    assert values["tokens"] == [*tokens, "<tool>", "<b>", "[PAD422]"]
    types = [CONTROL, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * 161, CONTROL, USER_DEFINED, UNUSED]
    assert values["token_type"] == types
    in_order(tmp_path, tokens, scores, values["scores"])
    json_ids, ours = Library.from_file(str(tmp_path / "tokenizer.json")), Tokenizer.open(folder.gguf(423))
    for text in [*TEXTS, "<b>the<b> hat"]:
        wanted = json_ids.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, parse_special=True) == wanted
        assert llama_cpp_tokens(tmp_path / "vocabulary.gguf", text, special=True) == wanted


def in_order(folder: Path, tokens: list[str], scores: list[float], made: list[float]) -> None:
    """What merges make has scores in the order of the true ones, and above all other text."""
    merges = json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]
    merged = {left + right for left, right in merges}
    best = sorted((i for i, text in enumerate(tokens) if text in merged), key=lambda i: -scores[i])
    assert len(best) > 70
    assert [made[i] for i in best] == [-float(i) for i in range(len(best))]
    assert all(made[i] <= -len(best) for i, text in enumerate(tokens) if i > 258 and text not in merged)


METASPACE = {"type": "Metaspace", "replacement": "▁"}


@pytest.mark.parametrize(
    ("parts", "prefix"),
    [
        ({}, None),
        ({"normalizer": REPLACE}, False),
        ({"normalizer": REPLACE | {"prepend": None}}, False),
        (
            {"normalizer": None, "pre_tokenizer": METASPACE | {"prepend_scheme": "always"}},
            None,
        ),
        (
            {"normalizer": None, "pre_tokenizer": METASPACE | {"prepend_scheme": "never"}},
            False,
        ),
        (
            {"normalizer": None, "pre_tokenizer": METASPACE | {"prepend_scheme": None, "add_prefix_space": None}},
            None,
        ),
        (
            {"normalizer": None, "pre_tokenizer": METASPACE | {"add_prefix_space": True}},
            None,
        ),
    ],
)
def test_the_space_in_front(tmp_path: Path, parts: dict[str, Any], prefix: bool | None) -> None:
    tokenizer = as_json(["<unk>", "<s>", "</s>", "▁", "a", "▁a"], [0, 0, 0, -9, -9, -1], [], **parts)
    folder = Folder(tmp_path, tokenizer__json=tokenizer)
    assert folder.values().get("add_space_prefix") is prefix
    folder.write("tokenizer_config.json", {"add_prefix_space": True})
    assert folder.values()["add_space_prefix"] is True


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"normalizer": {"type": "NFKC"}}, r"it prepares text with \[{'type': 'NFKC'}\], then nothing"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, r"then \[{'type': 'Metaspace'}\]"),
        ({"model": {"type": "Unigram", "vocab": []}}, r'its model is "Unigram", neither'),
    ],
)
def test_other_kinds_are_refused(tmp_path: Path, parts: dict[str, Any], found: str) -> None:
    tokenizer = as_json(["<unk>", "<s>", "</s>", "a"], [0, 0, 0, 0], [], **parts)
    with pytest.raises(UnsupportedModelError, match=rf"tokenizer\.json: .*{found}"):
        Folder(tmp_path, tokenizer__json=tokenizer).values()


def test_llama_2_comes_back(shared: Path, tmp_path: Path) -> None:
    """What a GGUF file says of Llama 2, written as tokenizer.json and converted again."""
    path = shared / "vocab" / "llama-spm.gguf"
    with GGUFFile.open(path) as file:
        tokens = [text.decode() for text in file.get_strings("tokenizer.ggml.tokens").raws()]
        scores = file.get_array("tokenizer.ggml.scores", float, None).tolist()  # type: ignore[union-attr]
    folder = Folder(tmp_path, tokenizer__json=as_json(tokens, scores, []))
    values = folder.values(32000)
    assert values["tokens"] == tokens
    in_order(tmp_path, tokens, scores, values["scores"])
    inputs = path.with_suffix(".gguf.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    wanted = [[int(i) for i in line.split()] for line in path.with_suffix(".gguf.out").read_text().splitlines()]
    ours = Tokenizer.open(folder.gguf(32000))
    assert [ours.encode(text) for text in inputs[:-1]] == wanted
