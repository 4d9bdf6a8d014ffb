"""Drafts of a scripted acceptance: a real drafter computes, but proposes what a recorded text and coins say."""

from collections.abc import Sequence as Ids
from typing import Any

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from edgellm.sampling.gumbel import DrawKey, Drawn
from edgellm.sampling.philox import uniform
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.drafter import ComputedDrafter, Draft, DraftRules
from edgellm.speculation.rules import DraftRule, Proposal

_COINS = 60
"""The seed of the coins."""


class ScriptedRule(DraftRule):
    """Proposes the recorded token of a position with probability `acceptance`, else another one.

    `text` are the token ids of prompt and reply, as the target gives them without drafts. Coins of positions are
    independent, so acceptance is exactly that of the closed form of speculative decoding. Nothing tells a right draft
    from a wrong one: the margin is always 1. The target judges by the rule `judge`.
    """

    def __init__(self, text: Ids[int], acceptance: float, vocab: int, judge: DraftRule) -> None:
        self._text, self._acceptance, self._vocab, self._judge = text, acceptance, vocab, judge
        self.may_trim = judge.may_trim

    def propose(self, q: Distribution, key: DrawKey, position: int) -> Drawn:
        token = self._text[position] if position < len(self._text) else 0
        is_right = uniform(_COINS, key.sequence, position) < self._acceptance
        return Drawn(token if is_right else (token + 1) % self._vocab, 1.0)

    def choose(self, p: Distribution, proposal: Proposal | None, key: DrawKey, position: int) -> int:
        return self._judge.choose(p, proposal, key, position)


class ScriptedDrafter(ComputedDrafter):
    """Computes what another drafter computes, at its cost, and proposes what `ScriptedRule` says."""

    def __init__(self, drafter: ComputedDrafter, text: Ids[int], acceptance: float, vocab: int) -> None:
        self._drafter, self._script = drafter, (text, acceptance, vocab)
        self.source, self.engine = drafter.source, drafter.engine

    def begin(self, rules: DraftRules) -> None:
        self._drafter.begin(rules._replace(rule=ScriptedRule(*self._script, rules.rule)))

    def accept(self, token: int) -> None:
        self._drafter.accept(token)

    def restart(self, ids: Ids[int]) -> None:
        self._drafter.restart(ids)

    def lag(self) -> int:
        return self._drafter.lag()

    @property
    def skipped(self) -> int:
        return self._drafter.skipped

    def segment(self) -> Segment[Any] | None:
        return self._drafter.segment()

    def take(self, outputs: Outputs) -> Drawn | None:
        return self._drafter.take(outputs)

    def draft(self) -> Draft:
        return self._drafter.draft()

    def pause(self) -> None:
        self._drafter.pause()

    def close(self) -> None:
        self._drafter.close()
