"""Drafts that a draft model computes: the same text to the bit, in fewer steps, from states that follow the text."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from edgellm import Model
from edgellm.engine.native_engine import NativeEngine
from edgellm.speculation.drafting import Drafting
from support.draft_pairs import DraftPair, counted, ranges_of_steps, shifted, some_requests, written
from support.drafts import AllDrafts, HalfOfDrafts, WindowedDrafts
from support.generation import NEVER, NO_END

pytestmark = pytest.mark.usefixtures("all_drafts")


@pytest.mark.parametrize(("temp", "policy"), [(0.0, HalfOfDrafts), (0.8, AllDrafts), (1.5, HalfOfDrafts)])
def test_the_text_is_the_same_to_the_bit(
    pair: DraftPair, temp: float, policy: type[AllDrafts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", policy)
    for seed, prompt in enumerate(["in", "the time was and the time was", "aa bb aa bb aa"]):
        options: dict[str, Any] = {"temp": temp, "seed": seed, "repeat_penalty": 1.1, "max_tokens": 100}
        options["logit_bias"] = NO_END
        plain = written(pair.model, prompt, **options)
        with pair.drafting() as source, counted(pair.model.engine, "forward") as steps:
            with counted(source.engine) as passes:
                assert written(pair.model, prompt, **options) == plain
            assert len(passes) > 20
            assert source.works
        assert len(steps) < 100, "many drafts were right"


def test_the_figures_of_a_reply_count_what_was_computed(pair: DraftPair) -> None:
    with pair.drafting(), counted(pair.model.engine, "forward") as steps:
        stats = pair.model.generate("the time", temp=0.8, seed=2, max_tokens=60, logit_bias=NO_END).stats
    rows = [count for (count,) in steps[1:]]
    assert (stats.drafted, stats.accepted) == (sum(rows) - len(rows), 59 - len(rows))
    assert stats.tokens_per_step == pytest.approx(59 / len(rows))
    assert stats.drafts["model"].drafted > stats.drafts["model"].accepted > 0 < stats.drafts["model"].seconds


FORMS: list[dict[str, Any]] = [
    {"regex": "([a-d]|xyz){20,90}"},
    {"json_schema": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}},
]


@pytest.mark.parametrize("form", FORMS, ids=["regex", "json"])
@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_guided_replies_are_the_same(pair: DraftPair, form: dict[str, Any], temp: float) -> None:
    options = {"temp": temp, "seed": 3, "max_tokens": 60, "partial": True, **form}
    plain = written(pair.model, "the time was", **options)
    with pair.drafting() as source, counted(source.engine) as passes:
        assert written(pair.model, "the time was", **options) == plain
        assert passes and source.works


def test_forms_are_known_to_drafters(pair: DraftPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is drafted conforms, as the mask of the guide is that of the drafter."""
    drafted, keep = list[list[int]](), Drafting.prepare
    monkeypatch.setattr(
        Drafting, "prepare", lambda self, *given: (drafted.append(self.draft.tokens), keep(self, *given))[1]
    )
    with pair.drafting():
        pair.model.generate("the time was", regex="([a-d]|xyz){20,90}", max_tokens=60, partial=True, seed=1)
    found = [token for each in drafted for token in each]
    texts = [pair.model.tokenizer.decode([token]) for token in found]
    assert len(found) > 20
    assert set("".join(texts)) <= set("abcdxyz")


def test_drafts_that_a_step_cuts_are_not_read_anew(pair: DraftPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind text that a form forces, of which a pass computes several tokens."""
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", HalfOfDrafts)
    options: dict[str, Any] = {"regex": "((abcd|xyz)[0-9]){9,30}", "max_tokens": 120, "seed": 4, "partial": True}
    plain = written(pair.model, "the time was " * 30, **options)
    with pair.drafting() as source, counted(source.engine) as passes:
        assert written(pair.model, "the time was " * 30, **options) == plain
    assert passes[0][0] > 150
    assert len(passes) > 20
    assert max(map(sum, passes[1:])) < 30


def test_replies_at_once_are_the_same(pair: DraftPair) -> None:
    given = some_requests(8)
    alone = [written(pair.model, prompt, **options) for prompt, options in given]
    with pair.drafting() as source, counted(source.engine) as passes:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda each: written(pair.model, each[0], **each[1]), given))
        assert source.works
    assert together == alone
    assert max(map(len, passes)) > 1, "passes are shared"


def test_a_reply_goes_on_after_a_context_shift(pair: DraftPair) -> None:
    ids = pair.model.tokenizer.encode("the time was " * 200, add_special=True)[: pair.model.ctx - 30]
    options: dict[str, Any] = {"max_tokens": 80, "seed": 2, "logit_bias": NO_END}
    plain, _ = shifted(pair.model, ids, **options)
    with pair.drafting() as source, counted(source.engine) as passes:
        found, before = shifted(pair.model, ids, lambda: len(passes), **options)
    assert found == plain and len(found) == 80
    assert before > 10
    assert len(passes) - before > 20, "it drafts again"


def test_the_next_reply_continues_from_both_states(pair: DraftPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads little again, as the prefix caches of both models have what was accepted.

    A recurrent state goes back to the end of a reply alone: of other branches only the last tokens are read.
    """
    ids = pair.model.tokenizer.encode("the time was " * 30, add_special=True)
    options: dict[str, Any] = {"max_tokens": 50, "seed": 1, "logit_bias": NO_END}
    first = [each.id for each in pair.model.stream(ids, **options)]
    branches = [[*ids, *first[:n], 100, 101] for n in (50, 20, 35)]
    plain = [written(pair.model, branch, **options) for branch in branches]
    with pair.drafting() as source:
        assert [each.id for each in pair.model.stream(ids, **options)] == first
        assert isinstance(source.engine, NativeEngine)
        monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", WindowedDrafts)
        for branch, expected in zip(branches, plain, strict=True):
            with counted(source.engine) as passes:
                assert written(pair.model, branch, **options) == expected
            is_next = branch == branches[0]
            assert max(map(sum, passes)) < (10 if is_next or not source.engine.new_sequence().needs_marks else 17)


CAPITALS = {3 + byte for byte in range(65, 91)}
"""Letters of one token each."""


def test_a_stop_string_amid_accepted_drafts_and_the_turn_after_it(
    pair: DraftPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states go back to where it begins, and the next turn reads little of what both models have."""
    ids = pair.model.tokenizer.encode("the time was " * 30, add_special=True)
    bias = dict.fromkeys(set(range(320)) - CAPITALS, NEVER)
    options: dict[str, Any] = {"max_tokens": 40, "temp": 0.8, "seed": 1, "logit_bias": bias}
    pair.model.generate("in", max_tokens=2)  # tells how long a step takes, so that the first one has drafts
    with pair.drafting(), ranges_of_steps(pair.model.engine) as steps:
        whole = pair.model.generate(ids, **options)
    runs = [step.start + 2 - len(ids) for step, after in pairwise(steps[1:]) if after.start - step.start > 4]
    at = next(i for i in runs if whole.text.find(whole.text[i : i + 2]) == i)
    with Model.open(pair.model.file.path, threads=1) as model, DraftPair(model, pair.draft).drafting() as source:
        model.generate("in", max_tokens=2)
        with ranges_of_steps(model.engine) as steps:
            stopped = model.generate(ids, stop=whole.text[at : at + 2], **options)
        assert (stopped.text, stopped.finish_reason) == (whole.text[:at], "stop")
        assert steps[-1].start < len(ids) + at < steps[-1].stop - 2, "within the rows of a step"
        monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", WindowedDrafts)
        following = [*ids, *whole.tokens[:at], 100, 101]
        with counted(source.engine) as passes, ranges_of_steps(model.engine) as steps:
            found = written(model, following, **options)
        assert steps[0].start == len(following) - 2
        assert len(passes) > 15
        assert isinstance(source.engine, NativeEngine)
        assert max(map(sum, passes)) < (17 if source.engine.new_sequence().needs_marks else 10)
    assert found == written(pair.model, following, **options)
