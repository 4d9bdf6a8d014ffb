"""Speculative decoding between two Markov chains: with both rules of acceptance the text is that of the target."""

from collections.abc import Sequence as Ids
from itertools import product
from typing import Any

import numpy as np
import pytest

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.guided_stats import GuidedTally
from edgellm.generate.session import Session
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.generate.token_chooser import TokenChooser
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.sampler import Sampler
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftRules
from edgellm.speculation.prompt_lookup import DraftTokens, PromptLookup
from edgellm.speculation.rules import DraftRule, Rejection, SameDraw
from edgellm.speculation.step_plan import DraftPlan, PassCost
from support.couplings import chi_square
from support.stateless import Sequence

TARGET = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
DRAFT = np.array([[0.3, 0.4, 0.3], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
"""The probabilities of the next token, by the last one."""

LENGTH, OPTIONS = 3, GenerationOptions(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)


class Chain:
    """An engine whose logits depend on the last token alone."""

    ctx, vocab, max_rows, batch_invariant = 1000, 3, 16, True

    def __init__(self, shares: Any) -> None:
        self._logits = np.log(shares).astype(np.float32)

    def forward(self, segments: Ids[Segment[Any]]) -> Any:
        for segment in segments:
            segment.sequence.tokens.extend(segment.tokens)
        return self._logits[[segment.tokens[i] for segment in segments for i in segment.wanted]]

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        return Outputs(self.forward(segments), None, {})

    def stop(self) -> None:
        """Nothing runs."""

    clear_stop = stop

    def evict(self) -> bool:
        return False


class ChainDrafter(ComputedDrafter):
    """Drafts of a chain. A round ends before the token `dropped`, as a drafter would that trusts it too little."""

    source = "model"

    def __init__(self, engine: Chain, last: int, dropped: int | None) -> None:
        self.engine, self._last, self._dropped = engine, last, dropped

    def accept(self, token: int) -> None:
        self._last = token

    def restart(self, ids: Ids[int]) -> None:
        raise NotImplementedError

    def lag(self) -> int:
        return 1

    def begin(self, rules: DraftRules) -> None:
        self._rules, self._draft = rules, Draft([], [], [])

    def segment(self) -> Segment[Any]:
        return Segment(Sequence(), [[self._last, *self._draft.tokens][-1]], [0])

    def take(self, outputs: Outputs) -> Drawn:
        assert outputs.logits is not None and self._draft.distributions is not None
        q = self._rules.sampler.apply(outputs.logits[0])
        drawn = self._rules.rule.propose(q, self._rules.key, self._rules.position + len(self._draft.tokens))
        if drawn.token == self._dropped:
            raise EdgeLLMError("dropped")
        self._draft.tokens.append(drawn.token)
        self._draft.signals.append(0)
        self._draft.distributions.append(q)
        return drawn

    def draft(self) -> Draft:
        return self._draft

    def pause(self) -> None:
        """It holds no memory."""


class InTurn(DraftPolicy):
    """0 to 3 drafts a step in turn, so that nothing of the text decides how many."""

    steps = 0

    def plan(self, lookup: DraftTokens, room: int, beside: int, cost: PassCost | None) -> DraftPlan:
        InTurn.steps += 1
        return DraftPlan("model", InTurn.steps % 4) if cost else DraftPlan(None, 0)

    def goes_on(
        self, rate: float, rows: int, pass_seconds: float, chances: Ids[float], beyond: Ids[Ids[float]]
    ) -> bool:
        return True


def texts(rule: DraftRule, seeds: int, dropped: int | None = None, drafts: bool = True) -> list[tuple[int, ...]]:
    """The tokens after a first token 0, for each seed."""
    engine, drafter = Chain(TARGET), Chain(DRAFT)
    session = Session(engine, "m")  # type: ignore[arg-type]
    if drafts:
        make = lambda ids, sequence: ChainDrafter(drafter, ids[-1], dropped)  # noqa: E731
        session.drafts.source = ComputedSource("d", drafter, make, 0.1)
    session.drafts.times.record(1, 1.0)
    return [
        _text(session, TokenChooser(Sampler(OPTIONS, 3), DrawKey(seed, 0), None, GuidedTally(), rule))
        for seed in range(seeds)
    ]


def _text(session: Session, chooser: TokenChooser) -> tuple[int, ...]:
    sequence, text = Sequence(), [0]
    sequence.tokens.append(0)
    logits = np.log(TARGET[0]).astype(np.float32)
    with SpeculativeDecoder(session, sequence, PromptLookup([]), CancelFlag(session.engine)) as decoder:
        decoder.begin_drafting()
        while len(text) <= LENGTH:
            text.append(chooser.choose(logits, len(text), decoder.proposal))
            logits = decoder.decode(text[-1], (), chooser.rules)
    return tuple(text[1:])


JOINT = {
    text: float(np.prod([TARGET[x, y] for x, y in zip((0, *text), text, strict=False)]))
    for text in product(range(3), repeat=LENGTH)
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "dropped", "is_exact"),
    [(SameDraw(), None, True), (SameDraw(), 2, True), (Rejection(), None, True), (Rejection(), 2, False)],
)
def test_texts_have_the_distribution_of_the_target_unless_drafts_are_dropped_for_their_value(
    monkeypatch: pytest.MonkeyPatch, rule: DraftRule, dropped: int | None, is_exact: bool
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", InTurn)
    found = texts(rule, 2500, dropped)
    assert (chi_square(found, JOINT) < 1) == is_exact
    if rule.may_trim:
        assert found[:500] == texts(rule, 500, drafts=False)
