"""Drafts of another model are accepted as often as the distributions of both models say: they share their numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import Model
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.rules import Rejection, SameDraw
from support.couplings import Shares, agreement, total_variation
from support.draft_models import noised
from support.drafts import AllDrafts
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
OPTIONS: list[dict[str, Any]] = [{"temp": 0.8}, {"temp": 1.5, "top_k": 0, "repeat_penalty": 1.2, "min_p": 0.01}]


@pytest.fixture(scope="module")
def files(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a copy of it with noise on its weights."""
    folder, parts = tmp_path_factory.mktemp("acceptance"), GGUFParts.read(model_file(**SIZES, context_length=1024))
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(parts.build())
    draft.write_bytes(noised(parts, 0.1).build())
    return target, draft


def dense(distribution: Distribution, vocab: int) -> Shares:
    shares = np.zeros(vocab)
    shares[distribution.ids] = distribution.probabilities
    return shares


@pytest.mark.parametrize(
    ("rule", "expected"), [(SameDraw, agreement), (Rejection, lambda p, q: 1 - total_variation(p, q))]
)
@pytest.mark.parametrize("options", OPTIONS)
def test_the_share_of_right_drafts_is_that_of_the_distributions(
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    rule: Any,
    expected: Callable[[Shares, Shares], float],
    options: dict[str, Any],
) -> None:
    """Given the text before, a draft is right with a known probability: the sum of all differences has mean 0."""
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    judged, choose = list[tuple[float, bool]](), rule.choose
    named = {"draft_max": 1, "draft_rule": "rejection" if rule is Rejection else "same"}
    with Model.open(files[0], threads=1, draft=files[1], **named) as model:
        assert model.drafts().source
        vocab, bias = model.engine.vocab, dict.fromkeys(model.tokenizer.eog_ids, -float("inf"))

        def recorded(self: Any, p: Distribution, proposal: Any, key: Any, position: int) -> int:
            token: int = choose(self, p, proposal, key, position)
            if proposal and proposal.q:
                share = expected(dense(p, vocab), dense(proposal.q, vocab))
                judged.append((share, token == proposal.token))
            return token

        monkeypatch.setattr(rule, "choose", recorded)
        for seed in range(3):
            model.generate("the time", max_tokens=300, seed=seed, logit_bias=bias, **options)
    shares = np.array([share for share, _ in judged])
    accepted = sum(is_right for _, is_right in judged)
    assert len(judged) > 300
    assert 0.2 < shares.mean() < 0.95, "neither all nor none"
    assert abs(accepted - shares.sum()) < 4 * np.sqrt((shares * (1 - shares)).sum())
