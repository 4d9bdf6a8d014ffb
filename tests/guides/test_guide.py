"""Masks of guides: ends of replies, UTF-8, special tokens, and tokens that are forced."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from edgellm import Tokenizer
from edgellm.errors import EdgeLLMError, GuideError
from edgellm.guides.compile import GuideCompiler
from edgellm.guides.guide import Guide
from edgellm.guides.spec import GuideSpec
from support.guided_walk import Guides
from support.tiny_vocab import write_bpe, write_spm

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "active": {"const": True}},
    "required": ["name", "active"],
    "additionalProperties": False,
}


def allowed(guide: Guide) -> set[int]:
    mask = guide.allowed()
    assert mask is not None
    return set(np.flatnonzero(mask).tolist())


def follow(guides: Guides, guide: Guide, text: str) -> None:
    for token in guides.tokenizer.encode(text):
        guide.accept(token)


def test_a_reply_ends_only_where_it_conforms(guides: Guides) -> None:
    ends = guides.tokenizer.eog_ids
    assert len(ends) == 2
    guide = guides.new("regex", "ab?")
    assert not allowed(guide) & ends
    assert not (guide.begun or guide.complete or guide.ended)
    follow(guides, guide, "a")
    assert allowed(guide) == ends | {*guides.tokenizer.encode("b")}
    assert (guide.begun, guide.complete, guide.ended) == (True, True, False)
    follow(guides, guide, "b")
    assert (guide.complete, guide.ended) == (True, True)
    early = guides.new("regex", "ab?")
    follow(guides, early, "a")
    early.accept(min(ends))
    assert (early.complete, early.ended) == (True, True)


def test_a_mask_is_as_wide_as_the_logits(guides: Guides) -> None:
    tokenizer = guides.tokenizer
    for vocab in (tokenizer.n_vocab + 100, tokenizer.n_vocab, tokenizer.n_vocab - 3):
        mask = GuideCompiler(tokenizer, vocab).compile(GuideSpec("regex", "(?s:.*)"))().allowed()
        assert mask is not None
        assert (mask.shape, mask.dtype) == ((vocab,), np.bool_)
        assert not mask[tokenizer.n_vocab :].any()


def test_no_text_is_a_special_token(guides: Guides) -> None:
    """Only a grammar that names one allows it: a text that looks like a mark does not become one."""
    ids, tokenizer = guides.tokenizer.control_texts, guides.tokenizer
    think = tokenizer.vocabulary.texts.index(b"<think>")
    free = guides.new("regex", "(?s:.*)")
    assert not allowed(free) & {ids["<|mark|>"], think}
    marked = guides.new("grammar", f'start: <|mark|> "x" <[{think}]>')
    assert allowed(marked) == {ids["<|mark|>"]}
    marked.accept(ids["<|mark|>"])
    follow(guides, marked, "x")
    assert allowed(marked) == {think}


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("regex", "[^a]{6}"),
        ("json_schema", '{"type": "string", "minLength": 4, "maxLength": 4}'),
        ("json_schema", '{"type": "string", "pattern": "^[^a-z]{3}é$"}'),
        ("choices", '["éß€😀", "日本"]'),
        ("grammar", "start: T\nT: ~/(?s:.)*a(?s:.)*/"),
        ("grammar", "root ::= [^a]{6}"),
    ],
)
def test_replies_are_utf8(guides: Guides, kind: str, source: str) -> None:
    """At every token, what a mask allows continues the bytes so far as UTF-8, if need be with more tokens."""
    for seed in range(20):
        guides.walk(guides.new(kind, source), random.Random(seed), most=12 if "~" in source else 400)


def test_forced_tokens_are_those_of_the_tokenizer(guides: Guides) -> None:
    text = '{"name": "'
    guide = guides.new("json_schema", json.dumps(PERSON))
    forced = guide.forced()
    assert forced == guides.tokenizer.encode(text)[: len(forced)]
    assert len(forced) >= len(guides.tokenizer.encode(text)) - 1, "the last token may go on in the string"
    for token in forced:
        guide.accept(token)
    rest = text.encode()[len(b"".join(map(guides.tokenizer.token_bytes, forced))) :].decode()
    follow(guides, guide, rest + 'x"')
    after = guide.forced()
    assert after == guides.tokenizer.encode(', "active": true}')
    for token in after:
        guide.accept(token)
    assert (guide.complete, guide.ended, guide.forced()) == (True, True, [])


@pytest.mark.parametrize("text", ["yes", 'na"me', "  two  spaces", "caf\u00e9 x", "true,  12"])
@pytest.mark.parametrize("kind", ["bpe", "spm"])
def test_a_text_without_a_choice_is_tokenized_as_ever(guides: Guides, tmp_path: Path, kind: str, text: str) -> None:
    """A vocabulary like Llama 2's puts no space before it: the reply goes on behind the prompt."""
    tokenizer = guides.tokenizer
    if kind == "spm":
        words = {"▁": -1.0, "t": -1.0, "w": -1.0, "o": -1.0, "tw": -2.0, "two": -3.0, "▁two": -4.0, "▁▁": -5.0}
        tokenizer = Tokenizer.open(write_spm(tmp_path / "spm.gguf", words, {"<|end|>": 3}))
    guide = GuideCompiler(tokenizer, tokenizer.n_vocab).compile(GuideSpec("choices", json.dumps([text])))()
    ids = list[int]()
    while not guide.ended:
        forced = guide.forced()
        assert forced
        for token in forced:
            guide.accept(token)
        ids += forced
    assert ids == tokenizer.encode_parts([text], first=False)
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text


@pytest.mark.parametrize(("kind", "text"), [("spm", "a \u2581 b"), ("qwen2", "ja\u0308 <think>")])
def test_a_text_that_a_tokenizer_writes_otherwise_comes_as_it_is(
    guides: Guides, tmp_path: Path, kind: str, text: str
) -> None:
    """SentencePiece has a character that means a space, other tokenizers compose accents, or find marks in text."""
    if kind == "spm":
        tokenizer = Tokenizer.open(write_spm(tmp_path / "m.gguf", {"a": -1.0}, {"<|end|>": 3}))
    else:
        tokenizer = Tokenizer.open(write_bpe(tmp_path / "m.gguf", ["a b"], {"<think>": 4, "<|end|>": 3}, pre=kind))
        assert tokenizer.normalizes_nfc
    assert tokenizer.decode(tokenizer.encode(text)) != text or "<think>" in text
    reply = list[int]()
    guide = GuideCompiler(tokenizer, tokenizer.n_vocab).compile(GuideSpec("choices", json.dumps([text])))()
    while not guide.ended:
        (token, *_) = guide.forced() or sorted(allowed(guide))
        guide.accept(token)
        reply.append(token)
    assert b"".join(map(tokenizer.token_bytes, reply)).decode() == text
    assert not set(reply) & {i for i in range(tokenizer.n_vocab) if tokenizer.vocabulary.texts[i] == b"<think>"}


def test_where_a_vocabulary_cannot_write_what_must_come_is_an_error(tmp_path: Path) -> None:
    tokenizer = Tokenizer.open(write_spm(tmp_path / "m.gguf", {"a": -1.0}, {}))
    small = GuideCompiler(tokenizer, 3)  # logits of special tokens alone
    with pytest.raises(EdgeLLMError, match="the vocabulary cannot write what must come"):
        small.compile(GuideSpec("regex", "a"))().allowed()


def test_what_grows_too_large_is_an_error(guides: Guides) -> None:
    """An endless rule has no choice, and no end either."""
    guide = guides.new("calls", 'start: "a" start')
    with pytest.raises(EdgeLLMError, match=r"the guided reply cannot go on: .*; give a simpler schema or grammar"):
        for _ in range(3):
            guide.forced()
            guide.accept(guides.tokenizer.encode("a")[0])


def test_replies_do_not_share_their_state(guides: Guides) -> None:
    one, other = (guides.new("choices", '["ab", "cd"]') for _ in range(2))
    follow(guides, one, "a")
    assert allowed(other) == {*guides.tokenizer.encode("a"), *guides.tokenizer.encode("c")}
    assert allowed(one) == set(guides.tokenizer.encode("b"))


def test_a_wrong_spec_is_an_error_each_time(guides: Guides) -> None:
    for _ in range(2):
        with pytest.raises(GuideError):
            guides.new("regex", "(")
