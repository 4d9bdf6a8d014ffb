"""Vocabularies of draft models: maps by hand, and published vocabularies against each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import UnsupportedModelError
from edgellm.speculation.vocabularies import TokenMap, VocabularyPair
from edgellm.text.tokenizer import Tokenizer
from support import SHARED
from support.make_vocab import byte_letters
from support.tiny_vocab import write, write_bpe

MERGES = ["t h", "th e", "i n"]
ENDS = {"<s>": 3, "<|end|>": 3}
NAMES = ("large.gguf", "small.gguf")


def bpe(path: Path, special: Mapping[str, int] = ENDS, merges: Sequence[str] = MERGES, **keys: Any) -> Tokenizer:
    return Tokenizer.open(write_bpe(path, merges, special, **keys))


def mapped(target: Tokenizer, draft: Tokenizer, rows: tuple[int, int] | None = None) -> TokenMap:
    return VocabularyPair(target, draft, rows or (target.n_vocab, draft.n_vocab)).map(NAMES)


def test_the_same_vocabulary_changes_nothing(tmp_path: Path) -> None:
    tokenizer = bpe(tmp_path / "one.gguf")
    found = mapped(tokenizer, bpe(tmp_path / "two.gguf"))
    logits = np.arange(tokenizer.n_vocab, dtype=np.float32)
    assert found.kind == "same"
    assert found.draft_ids(range(tokenizer.n_vocab)) == list(range(tokenizer.n_vocab))
    assert found.target_logits(logits) is logits


def test_padding_of_either_vocabulary_is_never_drafted_and_always_read(tmp_path: Path) -> None:
    padded = bpe(tmp_path / "padded.gguf", {**ENDS, "[PAD261]": 5, "[PAD262]": 5}, bos_token_id=259)
    plain = bpe(tmp_path / "plain.gguf", bos_token_id=259)
    n = plain.n_vocab
    assert (n, padded.n_vocab) == (261, 263)
    larger = mapped(padded, plain, (264, n))  # the output of the target has a row without a token
    assert larger.kind == "same"
    assert larger.draft_ids([5, 261, 262, 263]) == [5, 259, 259, 259], "as BOS, as no token is unknown"
    assert larger.target_logits(np.zeros(n, np.float32)).tolist() == [0.0] * n + [-np.inf] * 3
    smaller = mapped(plain, padded, (n, 264))
    assert smaller.kind == "same"
    assert smaller.target_logits(np.arange(264, dtype=np.float32)).tolist() == list(range(n))


def test_an_unused_token_that_the_other_model_names_is_not_drafted(tmp_path: Path) -> None:
    target = bpe(tmp_path / "target.gguf", {**ENDS, "<tool>": 3, "<last>": 3})
    draft = bpe(tmp_path / "draft.gguf", {**ENDS, "[unused]": 5, "<last>": 3}, unknown_token_id=5)
    found = mapped(target, draft)
    assert found.kind == "same"
    assert np.flatnonzero(np.isinf(found.target_logits(np.zeros(263, np.float32)))).tolist() == [261]
    assert found.draft_ids([261, 262]) == [5, 262]


def test_other_ids_are_matched_by_text(tmp_path: Path) -> None:
    letters, words = byte_letters(), ["th", "the", "in"]
    ids = {"token_type": [3, 3] + [1] * 259, "merges": MERGES, "pre": "gpt-2", "bos_token_id": 0, "eos_token_id": 1}
    target = Tokenizer.open(write(tmp_path / "target.gguf", "gpt2", ["<s>", "</s>", *letters, *words], **ids))
    draft = bpe(tmp_path / "draft.gguf", bos_token_id=259, eos_token_id=260)
    found = mapped(target, draft)
    assert found.kind == "mapped"
    text = "the thin end"
    assert found.draft_ids(target.encode(text)) == draft.encode(text)
    assert found.draft_ids([0, 1]) == [259, 260], "<s> by its text, the end by its role"
    logits = np.random.default_rng(1).standard_normal(261).astype(np.float32)
    there = found.target_logits(logits)
    assert there[target.encode("the")] == logits[draft.encode("the")]
    assert there[1] == logits[260]
    assert sorted(there) == sorted(logits)


def test_a_token_of_the_same_text_but_not_found_in_text_is_another_one(tmp_path: Path) -> None:
    target = bpe(tmp_path / "target.gguf", {"<s>": 3, "zz": 3, "<|end|>": 3})
    draft = bpe(tmp_path / "draft.gguf", {"<s>": 3, "<|end|>": 3, "zz": 1})
    found = mapped(target, draft)
    assert found.kind == "mapped"
    assert found.to_target[261] == -1
    assert found.to_target[260] == 261


def test_ids_are_limited_to_the_rows_of_both_outputs(tmp_path: Path) -> None:
    target, draft = bpe(tmp_path / "target.gguf", {"<x>": 3, **ENDS}), bpe(tmp_path / "draft.gguf", bos_token_id=0)
    found = mapped(target, draft, (261, 260))
    assert found.kind == "mapped"
    there = found.target_logits(np.zeros(260, np.float32))
    assert there.shape == (261,)
    assert np.flatnonzero(np.isinf(there)).tolist() == [259], "<x> alone: <|end|> is beyond both outputs"
    assert max(found.draft_ids(range(262))) < 260


@pytest.mark.parametrize("role", ["bos", "eos", "unknown"])
def test_no_text_is_read_as_an_end_beyond_the_rows_of_the_draft_model(tmp_path: Path, role: str) -> None:
    within = {"bos_token_id": 259, "eos_token_id": 259, f"{role}_token_id": 260}
    target = bpe(tmp_path / "target.gguf", bos_token_id=0, eos_token_id=1)
    draft = bpe(tmp_path / "draft.gguf", **within)
    assert draft.n_vocab == 261
    assert max(mapped(target, draft).draft_ids(range(262))) == 260, "with a row for it"
    found = mapped(target, draft, (261, 260))
    assert found.draft_ids([5, 260, 261]) == [5, 259, 259], "as the next of these roles"
    assert max(found.draft_ids(range(262))) < 260


def test_other_tokens_are_refused_with_advice(tmp_path: Path) -> None:
    target = bpe(tmp_path / "target.gguf")
    with pytest.raises(UnsupportedModelError) as error:
        mapped(target, bpe(tmp_path / "draft.gguf", merges=[f"{a} {b}" for a in "abc" for b in "abc"]))
    assert str(error.value) == (
        "small.gguf writes text with other tokens than large.gguf (96 % of tokens alike): "
        "choose a draft model of the same family, or --draft auto"
    )


def test_a_small_part_of_the_vocabulary_is_not_enough(tmp_path: Path) -> None:
    target = bpe(tmp_path / "target.gguf", merges=[f"{a} {b}" for a in "abcdef" for b in "abcdef"])
    with pytest.raises(UnsupportedModelError, match="88 % of tokens"):
        mapped(target, bpe(tmp_path / "draft.gguf", {}, merges=["a a"]))


def test_the_same_tokens_with_other_ids_of_words_split_otherwise_are_refused(tmp_path: Path) -> None:
    target = bpe(tmp_path / "target.gguf", {"<x>": 3, **ENDS}, pre="llama-bpe")
    with pytest.raises(UnsupportedModelError, match=r"\(tokenizer gpt-2 against llama-bpe, 100 % of tokens alike\)"):
        mapped(target, bpe(tmp_path / "draft.gguf"))


@pytest.mark.skipif(not (SHARED / "vocab").is_dir(), reason="no shared data beside the project")
def test_published_vocabularies_fit_themselves_alone() -> None:
    found = {name: Tokenizer.open(SHARED / "vocab" / f"{name}.gguf") for name in ("qwen2", "llama-bpe", "llama-spm")}
    for name, target in found.items():
        for other, draft in found.items():
            if name == other:
                assert mapped(target, draft).kind == "same"
            else:
                with pytest.raises(UnsupportedModelError, match=r"\(tokenizer \S+ against \S+, \d+ % of tokens alike"):
                    mapped(target, draft)
