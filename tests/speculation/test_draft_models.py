"""The models and drafters that tests of speculation draft with have the acceptance that they are made for."""

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import Model
from edgellm.builtin import PATH
from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.rules import Proposal
from support.draft_models import damped, first_layers, noised, other_tokens
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile
from support.scripted_drafts import ScriptedRule

TEXT = "Once upon a time there was a tiny engine that wrote stories, one token after the other."
SIZES = {"width": 256, "layers": 3, "heads": 4, "kv_heads": 2, "ffn": 512, "tied": False}


def logits(parts: GGUFParts, path: Path) -> NDArray[np.float32]:
    """Those of all tokens of TEXT, [tokens, vocab]."""
    path.write_bytes(parts.build())
    with Model.open(path, threads=1) as model:
        return model.logits(model.tokenizer.encode(TEXT))


def same_best(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The share of positions with the same most likely token."""
    return float((one.argmax(1) == other.argmax(1)).mean())


@pytest.mark.parametrize("types", ["F32", "F16", "Q8_0", "Q4_K"])
def test_layers_that_are_damped_to_nothing_have_no_effect(types: str, model_file: ModelFile, tmp_path: Path) -> None:
    parts = GGUFParts.read(model_file(types=types, **SIZES))
    draft = logits(first_layers(parts, 1), tmp_path / "draft.gguf")
    assert np.array_equal(logits(damped(parts, 1), tmp_path / "none.gguf"), draft)
    assert not np.array_equal(logits(parts, tmp_path / "whole.gguf"), draft)


@pytest.mark.parametrize("types", ["F32", "Q4_K"])
def test_acceptance_rises_as_layers_are_damped(types: str, model_file: ModelFile, tmp_path: Path) -> None:
    parts = GGUFParts.read(model_file(types=types, **SIZES))
    draft = logits(first_layers(parts, 1), tmp_path / "draft.gguf")
    distances = [
        np.abs(logits(damped(parts, 1, halvings), tmp_path / f"{halvings}.gguf") - draft).max()
        for halvings in (0, 2, 4, 6)
    ]
    assert distances == sorted(distances, reverse=True)
    assert np.array_equal(logits(damped(parts, 1, 0), tmp_path / "0.gguf"), logits(parts, tmp_path / "whole.gguf"))
    assert same_best(logits(damped(parts, 1, 6), tmp_path / "6.gguf"), draft) > 0.9


def test_acceptance_falls_with_noise(tmp_path: Path) -> None:
    parts = GGUFParts.read(PATH)
    target = logits(parts.as_f32(), tmp_path / "target.gguf")
    shares = [same_best(target, logits(noised(parts, sigma), tmp_path / "noised.gguf")) for sigma in (0, 0.2, 3)]
    assert shares[0] == 1
    assert 0.4 < shares[1] < 1
    assert shares[2] < 0.1


@pytest.mark.parametrize("tied", [True, False])
def test_a_rotated_output_matrix_is_never_right(tied: bool, model_file: ModelFile, tmp_path: Path) -> None:
    parts = GGUFParts.read(model_file(**SIZES | {"tied": tied}))
    target = logits(parts, tmp_path / "target.gguf")
    draft = logits(other_tokens(parts), tmp_path / "draft.gguf")
    assert np.array_equal(draft, np.roll(target, 1, axis=1))
    assert same_best(target, draft) == 0


class Judge:
    """A rule that nothing is asked of but to judge."""

    may_trim = True

    def propose(self, q: Distribution, key: DrawKey, position: int) -> Drawn:
        raise AssertionError

    def choose(self, p: Distribution, proposal: Proposal | None, key: DrawKey, position: int) -> int:
        return 7


@pytest.mark.parametrize("acceptance", [0, 0.3, 0.8, 1])
def test_scripted_drafts_are_right_as_often_as_they_should(acceptance: float) -> None:
    text = [i * 37 % 100 for i in range(10_000)]
    rule = ScriptedRule(text, acceptance, vocab=100, judge=Judge())
    one = Distribution(np.array([5]), np.ones(1))
    tokens = [rule.propose(one, DrawKey(1, 0), position).token for position in range(len(text))]
    assert tokens == [rule.propose(one, DrawKey(2, 0), position).token for position in range(len(text))]
    right = sum(token == expected for token, expected in zip(tokens, text, strict=True))
    assert abs(right / len(text) - acceptance) <= 4 * math.sqrt(acceptance * (1 - acceptance) / len(text))
    assert all(0 <= token < 100 for token in tokens)
    assert rule.choose(one, Proposal(5, None), DrawKey(1, 0), 0) == 7
