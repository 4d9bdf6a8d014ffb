"""The drafts of a round: drawn as the target will, and what tells how likely they are right."""

from typing import Any

import numpy as np
import pytest

from edgellm.guides.guide import Guide, Mask
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey
from edgellm.sampling.sampler import Sampler
from edgellm.speculation.acceptance import CERTAIN
from edgellm.speculation.draft_chain import DraftChain
from edgellm.speculation.drafter import DraftRules
from edgellm.speculation.rules import SameDraw

LOGITS = np.array([9.0, 3.0, 1.2, 8.9, -3.0], np.float32)


class Masked(Guide):
    """Allows the same tokens everywhere, and forces none."""

    begun, complete, ended = True, False, False

    def __init__(self, *ids: int) -> None:
        self.mask = np.isin(np.arange(len(LOGITS)), ids)

    def fork(self) -> "Masked":
        return self

    def allowed(self) -> Mask | None:
        return self.mask

    def accept(self, token: int) -> None:
        assert self.mask[token]

    def forced(self) -> list[int]:
        return []


def chain(guide: Masked | None, **options: Any) -> DraftChain:
    sampler = Sampler(GenerationOptions(**options), len(LOGITS))
    return DraftChain(DraftRules(sampler, guide, guide.mask if guide else None, DrawKey(1, 0), 0, SameDraw()))


def drafts(made: DraftChain, logits: np.ndarray[Any, np.dtype[np.float32]] = LOGITS) -> tuple[list[int], list[int]]:
    """The tokens and the signals of two drafts."""
    for _ in range(2):
        made.draw(logits)
    return made.draft.tokens, made.draft.signals


@pytest.mark.parametrize("options", [{"temp": 0}, {"temp": 0.8, "top_k": 1}])
def test_tokens_that_a_guide_excludes_have_no_part_in_the_signal(options: dict[str, Any]) -> None:
    """Of 3.0 and 1.2 the first is 1.8 nats ahead, whatever is excluded."""
    assert drafts(chain(None, **options)) == ([0, 0], [1, 1]), "9.0 is 0.1 ahead of 8.9"
    assert drafts(chain(Masked(1, 2), **options)) == ([1, 1], [4, 4])
    assert LOGITS.tolist() == pytest.approx([9.0, 3.0, 1.2, 8.9, -3.0])


def test_bias_and_penalties_count_in_the_signal() -> None:
    made = chain(None, temp=0, logit_bias={0: -100.0, 3: -5.0}, repeat_penalty=1.0, presence_penalty=1.0)
    assert drafts(made) == ([3, 1], [3, 1]), "3.9 against 3.0, then 3.0 against 2.9"


@pytest.mark.parametrize("temp", [0, 0.8])
def test_the_only_token_that_a_guide_allows_is_certain(temp: float) -> None:
    assert drafts(chain(Masked(4), temp=temp)) == ([4, 4], [CERTAIN, CERTAIN])


def test_the_only_allowed_token_that_a_drafter_knows_is_not_certain() -> None:
    logits = np.array([-np.inf, 3.0, -np.inf, -np.inf, -np.inf], np.float32)
    assert drafts(chain(Masked(1, 2), temp=0), logits) == ([1, 1], [CERTAIN - 1, CERTAIN - 1])
