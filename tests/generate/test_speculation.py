"""Speculative decoding: the same text to the bit, in fewer steps, and no rejected token stays in a sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError, Model
from edgellm.engine.native_engine import NativeEngine
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.session import Session
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.options import MAX_DRAFT
from edgellm.speculation.prompt_lookup import PromptLookup
from support.drafts import AllDrafts
from support.generation import RECURRENT, TINY
from support.model_file import ModelFile

NO_END = {2: -float("inf")}


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=[TINY, RECURRENT], ids=["attention", "recurrent"])
def path(model_file: ModelFile, request: pytest.FixtureRequest) -> Path:
    return model_file(**request.param)


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=2) as model:
        yield model


@contextmanager
def counted(model: Model) -> Iterator[list[Any]]:
    """The rows of each step that the model's engine computes."""
    forward, steps = model.engine.forward, list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.engine, "forward", lambda segments: steps.append(segments) or forward(segments))
        yield steps


def written(model: Model, prompt: str, speculates: bool, **options: Any) -> tuple[list[Any], int]:
    """Ids and log-probabilities of a reply, with the most likely tokens, and its number of steps."""
    with pytest.MonkeyPatch.context() as patch, counted(model) as steps:
        patch.setattr(NativeEngine, "batch_invariant", speculates)
        tokens = list(model.stream(prompt, logprobs=3, **options))
    return [(token.id, token.logprob, token.top_logprobs) for token in tokens], len(steps)


@given(
    prompt=st.sampled_from(["in", "the time was and the time was", "aa bb aa bb aa"]),
    temp=st.sampled_from([0.0, 0.5, 1.5]),
    seed=st.integers(0, 99),
    penalty=st.sampled_from([1.0, 1.3]),
    few=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_text_is_the_same_to_the_bit(
    model: Model, prompt: str, temp: float, seed: int, penalty: float, few: bool
) -> None:
    """With a small vocabulary drafts are often right, with a large one seldom; penalties depend on all tokens."""
    bias = {i: NO_END[2] for i in range(320) if i not in range(100, 104)} if few else NO_END
    options = {"temp": temp, "seed": seed, "repeat_penalty": penalty, "logit_bias": bias, "max_tokens": 30}
    plain, steps = written(model, prompt, False, **options)
    assert (len(plain), steps) == (30, 30), "the prompt, and 29 tokens"
    again, fewer = written(model, prompt, True, **options)
    assert again == plain
    assert fewer <= steps, "a draft that was wrong costs no step"


def test_repetitive_text_takes_few_steps_and_each_counts_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "edgellm.perf.mbu.MBUEstimator.mbu", lambda estimator, steps_per_second, depth, draft_bytes: steps_per_second
    )
    with counted(model) as steps:
        reply = model.generate("in", logit_bias={70: 1000.0}, max_tokens=1 + 3 * (1 + MAX_DRAFT))
    assert set(reply.tokens) == {70}
    assert len(steps) <= 1 + 3 + 2, "the prompt, and drafts that begin when the token came twice"
    assert reply.stats.mbu is not None
    assert reply.stats.decode_tps is not None
    assert reply.stats.mbu / reply.stats.decode_tps == pytest.approx((len(steps) - 1) / (len(reply.tokens) - 1))
    stats, rows = reply.stats, sum(len(segment.tokens) - 1 for (segment,) in steps[1:])
    assert stats.tokens_per_step == pytest.approx((len(reply.tokens) - 1) / (len(steps) - 1))
    assert (stats.drafted, stats.accepted) == (rows, len(reply.tokens) - len(steps))
    assert stats.drafts == {"lookup": DraftStats(stats.drafted, stats.accepted)}


@pytest.mark.parametrize("ctx", range(9, 20))
def test_drafts_end_where_the_context_does(path: Path, ctx: int) -> None:
    with Model.open(path, threads=1, ctx=ctx) as model:
        n = len(model.tokenizer.encode("the time", add_special=True))
        reply = model.generate("the time", logit_bias={70: 1000.0})
    assert reply.tokens == [70] * (ctx - n + 1)


def test_a_conversation_continues_from_accepted_tokens(model: Model) -> None:
    """A reply that ends inside a draft leaves the sequence without drafted tokens."""
    ids = model.tokenizer.encode("the time", add_special=True)
    for taken in range(1, 12):
        sequence, session = model.engine.new_sequence(), Session(model.engine, "m")
        cancel = CancelFlag(model.engine)
        session.prefill(sequence, ids, cancel)
        lookup = PromptLookup(ids)
        with SpeculativeDecoder(session, sequence, lookup, cancel) as steps:
            for _ in range(taken):
                lookup.accept(70)
                logits = steps.decode(70)
            assert steps.length == len(ids) + taken
        session.exclusively(lambda: None, cancel)
        assert sequence.tokens == ids + [70] * taken
        assert np.array_equal(logits, model.logits(ids + [70] * taken)[-1])
        # And what is computed behind it is what that makes of it.
        after = session.decode(sequence, [80, 81], cancel)
        assert np.array_equal(after, model.logits([*ids, *[70] * taken, 80, 81])[-2:])


def test_a_closed_model_gives_no_drafted_tokens(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        generation = model.stream("in", logit_bias={70: 1000.0})
        for _ in range(4):
            next(generation)
    with pytest.raises(EdgeLLMError, match="was closed"):
        next(generation)
