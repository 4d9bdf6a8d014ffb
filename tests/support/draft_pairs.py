"""A target and a draft model for it, and what is computed for replies with drafts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from edgellm import Model
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.native_engine import NativeEngine
from edgellm.generate.request import TokensPrompt
from edgellm.gguf import GGUFFile
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.model_drafter import ModelDrafter
from edgellm.system.folders import cache_folder
from support.drafts import same_tokens
from support.generation import NO_END, RECURRENT, TINY

PAIRS: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "layers": 3},
    "recurrent": {**RECURRENT, "layers": 4},
    "windowed": {**TINY, "layers": 3, "metadata": (("attention.sliding_window", 40),)},
}
"""Options of `model_file` for targets."""


class DraftPair(NamedTuple):
    """A model without drafts, and the file of a draft model that often guesses its tokens."""

    model: Model
    draft: Path

    @contextmanager
    def drafting(self, ctx: int | None = None) -> Iterator[ComputedSource]:
        """In this context the replies of the model have drafts."""
        tokens, drafts = same_tokens(self.model.engine.vocab), self.model._generator.session.drafts
        engine = NativeEngine(GGUFFile.open(self.draft), threads=1, ctx=ctx, kv_type="f16", cache=cache_folder())
        drafts.source = ComputedSource("d", engine, lambda ids, sequence: ModelDrafter(engine, ids, tokens), 0.1)
        try:
            yield drafts.source
        finally:
            drafts.source = None
            engine.close()


def written(model: Model, prompt: str | list[int], **options: Any) -> list[Any]:
    """Ids and log-probabilities of a reply, with the most likely tokens."""
    return [(token.id, token.logprob, token.top_logprobs) for token in model.stream(prompt, logprobs=3, **options)]


@contextmanager
def without_drafts(model: Model) -> Iterator[None]:
    """In this context the replies of a model have no computed drafts."""
    drafts = model._generator.session.drafts
    source, drafts.source = drafts.source, None
    try:
        yield
    finally:
        drafts.source = source


def plainly(model: Model, prompt: str | list[int], **options: Any) -> list[Any]:
    """The same without computed drafts."""
    with without_drafts(model):
        return written(model, prompt, **options)


@contextmanager
def counted(engine: Any, method: str = "compute") -> Iterator[list[list[int]]]:
    """The rows of each segment that an engine computes."""
    compute, steps = getattr(engine, method), list[list[int]]()

    def recorded(segments: Any) -> Any:
        steps.append([len(each.tokens) for each in segments])
        return compute(segments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, method, recorded)
        yield steps


def some_requests(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Prompts and options of up to eight different replies."""
    prompts = ["in", "the time was " * 9, "aa bb aa bb aa", "of a"]
    temps = 0.0, 0.8, 1.5
    forms: list[dict[str, Any]] = [
        {"logit_bias": NO_END},
        {"logit_bias": NO_END},
        {"regex": "(ab|cd){3,30}", "partial": True},
    ]
    return [
        (prompts[i % 4], {"temp": temps[i % 3], "seed": i, "max_tokens": 20 + 7 * i, **forms[i % 3]})
        for i in range(count)
    ]


def references(engine: Any) -> int:
    """The references to pages of an engine that no reply uses, and of its head, once its prefix cache is evicted."""
    assert isinstance(engine, NativeEngine)
    assert engine.kv_stats().used_pages == 0
    while engine.evict():
        pass
    pools: list[PagePool] = list(engine._runner.pools)
    if states := engine._runner.checkpoints.states:
        pools.append(states.pool)
    if engine.draft_head and (cells := engine.draft_head._own_cells):
        pools += cells.pools
    for each in pools:
        each.release(each.acquire())  # which first takes back what was dropped
    return sum(sum(each._references) for each in pools)


def shifted(model: Model, ids: list[int], seen: Callable[[], int] = lambda: 0, **options: Any) -> tuple[list[int], int]:
    """The tokens of a reply behind a prompt that nearly fills the context, and what `seen` says at its context shift.

    From there on the model sees the first eight tokens of the prompt, and the reply.
    """
    at_shift = list[int]()

    def shift(reply: list[int]) -> TokensPrompt:
        at_shift.append(seen())
        return TokensPrompt([*ids[:8], *reply], context_shift=shift)

    generator = model._generator
    prompt = TokensPrompt(ids, context_shift=shift)
    generation = generator.start(prompt, generator.options(**options), generator.start_timer(), model._prefix_cache)
    found = [token.id for token in generation]
    (before,) = at_shift
    return found, before


@contextmanager
def ranges_of_steps(engine: Any) -> Iterator[list[range]]:
    """The positions that each step of one reply computes."""
    forward, steps = engine.forward, list[range]()

    def recorded(segments: Any) -> Any:
        (segment,) = segments
        steps.append(range(len(segment.sequence), len(segment.sequence) + len(segment.tokens)))
        return forward(segments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "forward", recorded)
        yield steps
