"""Errors and shortages of drafters, and prompts beside them: replies go on, and drafts where there may be some."""

import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMWarning, NoMemoryError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey
from edgellm.sampling.philox import uniform
from edgellm.sampling.sampler import Sampler
from edgellm.speculation.drafter import DraftRules
from edgellm.speculation.prompt_lookup import PromptLookup
from edgellm.speculation.rules import SameDraw
from support.draft_world import VOCAB, CoinDrafter, Text, World
from support.stateless import Sequence


def rules() -> DraftRules:
    return DraftRules(Sampler(GenerationOptions(), VOCAB), None, None, DrawKey(1, 0), 0, SameDraw())


def failing(method: Callable[..., Any], error: Exception, times: int) -> Callable[..., Any]:
    """A method that raises an error in some of its calls, from the fifth on."""
    calls = iter(range(10**9))

    def fails(*args: Any) -> Any:
        if 4 <= next(calls) < 4 + times:
            raise error
        return method(*args)

    return fails


METHODS = pytest.mark.parametrize("method", ["begin", "segment", "take"])


@METHODS
@pytest.mark.parametrize("error", [ValueError("wrong"), TypeError("no number"), MemoryError()], ids=repr)
def test_no_error_of_a_drafter_ends_a_reply(monkeypatch: pytest.MonkeyPatch, method: str, error: Exception) -> None:
    """Those of several replies are computed in the thread of any of them."""
    monkeypatch.setattr(CoinDrafter, method, failing(getattr(CoinDrafter, method), error, 10**9))
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        world.replies(2, 100)
    if isinstance(error, MemoryError):
        assert not told
    else:
        assert [str(each.message) for each in told] == [
            f"d: {type(error).__name__}: {error}; replies go on without its drafts"
        ]


@pytest.mark.parametrize("error", [ValueError("wrong"), MemoryError()], ids=repr)
def test_no_error_of_a_pass_ends_a_reply(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    monkeypatch.setattr(world.drafter, "compute", failing(world.drafter.compute, error, 10**9))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        world.replies(2, 100)
    assert len(told) == isinstance(error, ValueError)


def test_a_drafter_that_cannot_be_made_ends_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))

    def make(*args: Any) -> CoinDrafter:
        raise KeyError("no such tensor")

    world.source.drafter = make
    with pytest.warns(EdgeLLMWarning, match="d: KeyError: 'no such tensor'; replies go on without its drafts"):
        world.reply(50)


@pytest.mark.parametrize("error", [MemoryError(), NoMemoryError("full")], ids=repr)
def test_a_drafter_that_had_no_memory_is_made_at_a_later_token(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    make, calls = world.source.drafter, count()

    def drafter(ids: list[int], sequence: Any) -> Any:
        if next(calls) == 0:
            raise error
        return make(ids, sequence)

    world.source.drafter = drafter
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world.reply(2)
        world.reply(100, seed=2)
    assert len(world.drafter.rows) > 50


@METHODS
def test_drafts_go_on_after_a_shortage_of_memory(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(CoinDrafter, method, failing(getattr(CoinDrafter, method), MemoryError(), 1))
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    world.reply(60)
    before = len(world.drafter.rows)
    world.reply(200, seed=2)
    assert len(world.drafter.rows) > before + 50


def test_drafts_begin_again_behind_a_context_shift_after_a_shortage_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place until which there are none is one of the longer text."""
    world, text = World(monkeypatch, 0.1, lambda position: (0.8, 1.0), prompt=5000), Text(1)
    forward = world.target.forward

    def without_memory(segments: list[Segment[Any]]) -> Any:
        if segments[0].drafts:
            raise NoMemoryError("full")
        return forward(segments)

    with world.decoding(text, PromptLookup([])) as (decoder, _):
        monkeypatch.setattr(world.target, "forward", without_memory)
        for position in range(5000, 5030):
            decoder.decode(text.token(position), (), rules)
        assert world.drafter.rows
        assert decoder.tally.by_source["model"].seconds > 0, "what was drafted for nothing took time, too"
        assert decoder.tally.by_source["model"].drafted == 0
        monkeypatch.setattr(world.target, "forward", forward)
        decoder._sequence.trim(2000)  # type: ignore[union-attr]
        decoder.continue_from([0] * 2000)
        world.drafter.rows.clear()
        for position in range(2000, 2060):
            decoder.decode(text.token(position), (), rules)
    assert len(world.drafter.rows) > 20


def test_a_reply_beside_a_prompt_has_the_drafts_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is computed beside a prompt, so those of the text are not given up for any."""

    class Repeating(Text):
        def token(self, position: int) -> int:
            return position % 4 if uniform(7, 1, position) > 0.12 else 5

    world = World(monkeypatch, 0.1, lambda position: (1.0, 5.0))
    text, lookup = Repeating(1), PromptLookup([])
    with world.decoding(text, lookup) as (decoder, _):
        for position in range(8, 300):
            lookup.accept(text.token(position))
            decoder.decode(text.token(position), (), rules)
        assert decoder.tally.by_source["model"].accepted > 100
        monkeypatch.setattr(world.session, "prompts_wait", lambda: True)
        world.drafter.rows.clear()
        before = len(world.target.rows)
        for position in range(300, 500):
            lookup.accept(text.token(position))
            decoder.decode(text.token(position), (), rules)
    assert not world.drafter.rows
    assert len(world.target.rows) - before < 150


def test_prompts_wait_until_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, waited = World(monkeypatch, 0.1, lambda position: (1.0, 5.0)), list[bool]()
    forward = world.target.forward

    def asked(segments: list[Segment[Any]]) -> Any:
        waited.append(world.session.prompts_wait())
        return forward(segments)

    monkeypatch.setattr(world.target, "forward", asked)
    assert not world.session.prompts_wait()
    world.session.prefill(Sequence(), [0] * 100, CancelFlag(world.target))  # type: ignore[arg-type]
    assert waited == [True]
    assert not world.session.prompts_wait()
    world.reply(3)
    assert not any(waited[1:])
