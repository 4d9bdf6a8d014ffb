"""Replies whose computed drafts end early: cancels, errors, no memory, a short context. No page is left behind."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from edgellm import EdgeLLMError
from edgellm.engine.protocol import Stopped
from edgellm.errors import NoMemoryError
from support.draft_pairs import DraftPair, counted, references, some_requests, written
from support.few_pages import opened_with_few_pages
from support.generation import NO_END

pytestmark = pytest.mark.usefixtures("all_drafts")


def test_replies_that_are_cancelled_change_no_other_and_leave_no_page(pair: DraftPair) -> None:
    given = some_requests(6)
    alone = [written(pair.model, prompt, **options) for prompt, options in given]

    def cancelled(i: int) -> None:
        running = pair.model.stream("the time was " * (i + 1), max_tokens=60, seed=i, logit_bias=NO_END)
        for _ in range(3 * i):
            next(running)
        running.cancel()

    with pair.drafting() as source:
        with ThreadPoolExecutor(12) as pool:
            replies = [pool.submit(written, pair.model, prompt, **options) for prompt, options in given]
            for each in [pool.submit(cancelled, i) for i in range(6)]:
                each.result(60)
            assert [each.result(60) for each in replies] == alone
        assert pair.model.kv_stats, "its turn closes the drafters of replies that ended"
        assert references(source.engine) == 0


def failing(engine: Any, error: Exception, after: int) -> Any:
    """An engine's `compute` that raises from some pass on."""
    compute, passes = engine.compute, iter(range(10**9))

    def failed(segments: Any) -> Any:
        if next(passes) >= after:
            raise error
        return compute(segments)

    return failed


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_error_of_the_drafter_is_one_warning(pair: DraftPair, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(pair.model, "in", **options)
    with pair.drafting() as source, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        monkeypatch.setattr(source.engine, "compute", failing(source.engine, EdgeLLMError("it broke"), after))
        assert [written(pair.model, "in", **options) for _ in range(2)] == [plain] * 2
        assert not source.works
    assert [str(each.message) for each in said] == ["d: it broke; replies go on without its drafts"]


def test_without_memory_for_drafts_a_reply_goes_on_without_and_the_next_one_tries_again(
    pair: DraftPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(pair.model, "in", **options)
    with pair.drafting() as source:
        with monkeypatch.context() as patch:
            patch.setattr(source.engine, "compute", failing(source.engine, NoMemoryError("full"), 5))
            assert written(pair.model, "in", **options) == plain
        assert source.works
        with counted(source.engine) as passes:
            assert written(pair.model, "in", **options) == plain
        assert passes


def test_memory_that_comes_back_is_used_by_the_reply_that_had_none(
    pair: DraftPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 150, "seed": 1, "logit_bias": NO_END}
    plain = written(pair.model, "in", **options)
    with pair.drafting() as source:
        compute, asked = source.engine.compute, list[int]()

        def short(segments: Any) -> Any:
            asked.append(len(segments[0].sequence) + len(segments[0].tokens))
            if len(asked) == 5:
                raise NoMemoryError("full")
            return compute(segments)

        monkeypatch.setattr(source.engine, "compute", short)
        assert written(pair.model, "in", **options) == plain
        assert source.works
    assert len(asked) > 20
    assert 56 < asked[5] - asked[4] < 80, "it asks again after 64 tokens"


def test_a_drafter_with_a_smaller_context_goes_on_with_the_last_part_of_the_text(
    pair: DraftPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"max_tokens": 160, "seed": 1, "logit_bias": NO_END}
    plain = written(pair.model, "in", **options)
    with pair.drafting(ctx=40) as source:
        compute, lengths = source.engine.compute, list[tuple[int, int]]()

        def recorded(segments: Any) -> Any:
            lengths.append((len(segments[0].sequence), len(segments[0].tokens)))
            return compute(segments)

        monkeypatch.setattr(source.engine, "compute", recorded)
        assert written(pair.model, "in", **options) == plain
        assert source.works
    assert max(before + rows for before, rows in lengths) == 40
    anew = [rows for before, rows in lengths[1:] if not before]
    assert len(anew) >= 4
    assert set(anew) == {20}, "the last half of its context"


def test_replies_that_are_preempted_are_the_same(pair: DraftPair) -> None:
    """Where the target has no more pages for all, a reply leaves the memory of its drafter, too."""
    options: dict[str, Any] = {"max_tokens": 90, "seed": 1, "temp": 0.8, "logit_bias": NO_END}
    prompts = [letter * 70 for letter in "ABCDEF"]
    alone = [written(pair.model, prompt, **options) for prompt in prompts]
    with (
        opened_with_few_pages(pair.model.file.path, 7) as (small, preempted),
        DraftPair(small, pair.draft).drafting() as source,
    ):
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda prompt: written(small, prompt, **options), prompts)) == alone
        assert source.works
        assert small.kv_stats, "its turn closes the drafters of replies that ended"
        assert references(source.engine) == 0
    assert preempted


def test_a_cancel_amid_a_round_ends_it(pair: DraftPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel stops the threads that both engines share; here the drafter says that they were stopped."""
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1, "logit_bias": NO_END}
    plain = written(pair.model, "in", **options)
    with pair.drafting() as source:
        compute, passes = source.engine.compute, iter(range(10**9))
        running = pair.model.stream("in", **options)

        def stopped(segments: Any) -> Any:
            if next(passes) == 11:
                running.cancel()
                raise Stopped
            return compute(segments)

        with monkeypatch.context() as patch:
            patch.setattr(source.engine, "compute", stopped)
            given = [token.id for token in running]
        assert given == [each[0] for each in plain[: len(given)]]
        assert 0 < len(given) < 40
        assert written(pair.model, "in", **options) == plain
        assert source.works
