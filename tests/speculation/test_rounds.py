"""Drafters and their rounds on an engine that computes nothing: what is read, kept, and tried again."""

import warnings
from collections.abc import Callable
from collections.abc import Sequence as Ids
from typing import Any

import numpy as np
import pytest

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment
from edgellm.engine.step_times import StepTimes
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.guides.guide import Guide, Mask
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey
from edgellm.sampling.sampler import Sampler
from edgellm.speculation.acceptance import Acceptance
from edgellm.speculation.account import Account
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.drafter import DraftRules
from edgellm.speculation.drafting import Drafting
from edgellm.speculation.model_drafter import ModelDrafter
from edgellm.speculation.rounds import draft_round
from edgellm.speculation.rules import DraftRule, Rejection, SameDraw
from edgellm.speculation.step_plan import DraftPlan
from support.draft_world import VOCAB, Clock, Engine, World
from support.drafts import AllDrafts, same_tokens
from support.scripted_drafts import ScriptedRule
from support.stateless import Sequence


class Recurrent(Sequence):
    """It goes back to no length but its own."""

    needs_marks, goes_back = True, False

    def fork(self) -> "Recurrent":
        child = Recurrent()
        child.tokens = list(self.tokens)
        return child

    def reach(self, n: int) -> int:
        return len(self) if n >= len(self) else 0

    def trim(self, n: int) -> int:
        return super().trim(self.reach(n))


class DrafterEngine(Engine):
    """Its prefix cache has the first `cached` tokens of longer texts; the sequences of a pass have at most `memory`."""

    def __init__(self, clock: Clock, kind: type[Sequence] = Sequence, cached: int = 0, memory: int = 10**6) -> None:
        super().__init__(clock, 0.1)
        self._kind, self._cached, self._memory, self.retired = kind, cached, memory, list[Sequence]()
        self.value = 0.0
        self.error: type[EdgeLLMError] = NoMemoryError

    def begin(self, ids: Ids[int]) -> Sequence:
        sequence = self._kind()
        sequence.tokens = list(ids[: self._cached]) if self._cached < len(ids) else []
        return sequence

    def retire(self, sequence: Sequence) -> None:
        self.retired.append(sequence)

    def compute(self, segments: Ids[Segment[Any]]) -> Outputs:
        if sum(len(each.sequence) + len(each.tokens) for each in segments) > self._memory:
            raise self.error("full")
        outputs = super().compute(segments)
        assert outputs.logits is not None
        return outputs._replace(logits=outputs.logits + np.float32(self.value))


class Forced(Guide):
    """Behind a 5 come 1, 2 and 3."""

    begun, complete, ended, _last = True, False, False, 0

    def fork(self) -> "Forced":
        return self

    def allowed(self) -> Mask | None:
        return None

    def accept(self, token: int) -> None:
        self._last = token

    def forced(self) -> list[int]:
        return [1, 2, 3] if self._last == 5 else []


def rules(rule: DraftRule, guide: Guide | None = None, position: int = 0) -> DraftRules:
    return DraftRules(Sampler(GenerationOptions(), VOCAB), guide, None, DrawKey(1, 0), position, rule)


def draftings(engine: DrafterEngine, lengths: Ids[int], policy: type[DraftPolicy] = AllDrafts) -> list[Drafting]:
    """Those of replies whose texts have so many tokens."""
    tokens = same_tokens(VOCAB)
    source = ComputedSource("d", engine, lambda ids, _: ModelDrafter(engine, ids, tokens), 0.1)
    chosen = policy(StepTimes(), Acceptance(), Account())
    return [Drafting(source, source.drafter([0] * length, Sequence()), chosen) for length in lengths]


def prepared(made: Ids[Drafting], rule: DraftRule, whole: bool = True) -> None:
    """All have two drafts in the next step."""
    for each in made:
        each.prepare(DraftPlan("model", 2, whole=whole), rules(rule), 0.0)


def test_a_reply_reads_what_the_prefix_cache_of_its_drafter_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the policy as it is."""
    world = World(monkeypatch, 0.1, lambda position: (0.5, 1.0), prompt=3000)
    engine, tokens = DrafterEngine(world.clock, cached=2990), same_tokens(VOCAB)
    world.session.drafts.source = ComputedSource("d", engine, lambda ids, _: ModelDrafter(engine, ids, tokens), 0.1)
    world.reply(30)
    assert 10 < engine.rows[0] < 16
    assert max(engine.rows) == engine.rows[0]


def test_lag_knows_what_is_cached() -> None:
    engine = DrafterEngine(Clock(), cached=2980)
    drafter = ModelDrafter(engine, [0] * 3000, same_tokens(VOCAB))
    assert (drafter.lag(), drafter.skipped) == (20, 0)
    drafter.begin(rules(SameDraw())._replace(window=16))
    assert (drafter.lag(), drafter.skipped) == (16, 4)
    drafter.pause()
    assert (drafter.lag(), drafter.skipped) == (20, 0)


def test_of_a_text_that_is_too_long_for_a_drafter_the_last_part_is_read() -> None:
    """That of half a context; it begins anew where a context is full."""
    engine = DrafterEngine(Clock())
    engine.ctx, text = 40, list(range(200))
    drafter, passes = ModelDrafter(engine, text, same_tokens(1000)), list[int]()
    for token in range(200, 260):
        lag = drafter.lag()
        assert not drafter.skipped
        drafter.begin(rules(SameDraw(), position=len(text)))
        segment = drafter.segment()
        assert segment
        assert lag == len(segment.tokens)
        assert [*segment.sequence.tokens, *segment.tokens] == text[-len(segment.sequence) - lag :]
        drafter.take(engine.compute([segment]))
        passes.append(len(segment.sequence))
        text.append(token)
        drafter.accept(token)
    assert passes == [*range(20, 41), *range(20, 41), *range(20, 38)]


def test_of_a_text_that_is_too_long_the_window_is_read_until_more_pays() -> None:
    engine = DrafterEngine(Clock())
    engine.ctx = 100
    drafter = ModelDrafter(engine, [0] * 200, same_tokens(VOCAB))
    assert (drafter.lag(), drafter.skipped) == (50, 0)
    drafter.begin(rules(SameDraw())._replace(window=16))
    assert (drafter.lag(), drafter.skipped) == (16, 34)
    drafter.pause()
    drafter.begin(rules(SameDraw()))
    assert (drafter.lag(), drafter.skipped) == (50, 0)


@pytest.mark.parametrize("kept", range(6))
@pytest.mark.parametrize("kind", [Sequence, Recurrent])
def test_of_forced_text_that_a_step_cuts_a_few_tokens_are_computed_again(kind: type[Sequence], kept: int) -> None:
    engine, text, drafts = DrafterEngine(Clock(), kind), [0] * 200, [5, 1, 2, 3, 5]
    drafter = ModelDrafter(engine, text, same_tokens(VOCAB))
    drafter.begin(rules(ScriptedRule([*text, *drafts], 1.0, VOCAB, SameDraw()), Forced(), len(text)))
    while len(drafter.draft().tokens) < len(drafts):
        segment = drafter.segment()
        assert segment
        drafter.take(engine.compute([segment]))
    assert drafter.draft().tokens[:5] == drafts
    for token in [*drafts[:kept], 7]:
        drafter.accept(token)
    lag = drafter.lag()
    drafter.begin(rules(SameDraw()))
    segment = drafter.segment()
    assert segment
    assert lag == len(segment.tokens) <= 5
    assert [*segment.sequence.tokens, *segment.tokens] == [*text, *drafts[:kept], 7]


def test_where_memory_is_short_for_all_those_draft_for_which_it_is_enough() -> None:
    made = draftings(DrafterEngine(Clock(), memory=100), [200, 20, 30])
    prepared(made, SameDraw())
    draft_round(made, 3, 512)
    assert [each.kept for each in made] == [0, 2, 2]
    assert [each.works for each in made] == [False, True, True]
    for _ in range(64):
        assert not made[0].works
        made[0].accept(0)
    assert made[0].works, "others may have left memory"


@pytest.mark.parametrize("leave", [Drafting.close, Drafting.pause])
def test_a_drafter_that_found_no_memory_asks_again_once_another_leaves_its_own(
    leave: Callable[[Drafting], None],
) -> None:
    """Two that found none do not wake each other."""
    made = draftings(DrafterEngine(Clock(), memory=100), [200, 20, 150])
    prepared(made, SameDraw())
    draft_round(made, 3, 512)
    assert [each.works for each in made] == [False, True, False]
    leave(made[1])
    assert [each.works for each in made] == [True, True, True]
    prepared(made, SameDraw())
    draft_round(made, 3, 512)
    assert [each.works for each in made] == [False, True, False], "it was not enough"


@pytest.mark.parametrize("rule", [SameDraw(), Rejection()])
@pytest.mark.parametrize("error", [NoMemoryError, EdgeLLMError])
@pytest.mark.filterwarnings("ignore:d. full")
def test_drafts_that_were_drawn_before_an_error_are_kept(rule: DraftRule, error: type[EdgeLLMError]) -> None:
    """The passes of a text of 20 tokens end with 20 and 21."""
    engine = DrafterEngine(Clock(), memory=20)
    engine.error = error
    made = draftings(engine, [20])
    prepared(made, rule)
    draft_round(made, 1, 512)
    assert (made[0].works, made[0].passes) == (False, 1)
    assert (len(made[0].draft.tokens), made[0].kept) == (1, 1)


def test_a_drafter_that_computes_nan_is_one_warning() -> None:
    engine = DrafterEngine(Clock())
    made, engine.value = draftings(engine, [20, 30]), float("nan")
    prepared(made, SameDraw())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        draft_round(made, 2, 512)
    assert not made[0].source.works
    (warning,) = said
    assert str(warning.message).startswith("d: the model computed NaN")


class NoDrafts(AllDrafts):
    """No draft is worth a row."""

    def kept(self, rate: float, rows: int, chances: Ids[float]) -> int:
        return 0


@pytest.mark.parametrize(("rule", "kept"), [(SameDraw(), 0), (Rejection(), 2)])
def test_drafts_that_the_rule_forbids_to_drop_are_computed(rule: DraftRule, kept: int) -> None:
    made = draftings(DrafterEngine(Clock()), [20, 30], NoDrafts)
    prepared(made, rule)
    draft_round(made, 2, 512)
    assert [each.kept for each in made] == [kept, kept]
