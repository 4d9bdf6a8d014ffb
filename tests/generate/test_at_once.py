"""Several continuations in one call, and the twins for `asyncio`."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from edgellm import ContextOverflowError, IncompleteOutputError, Model, OptionError
from edgellm.engine.protocol import Stopped
from edgellm.generate.async_generation import in_thread
from edgellm.generate.at_once import GenerationGroup
from kquants.kv_layout import PAGE
from support.generation import GREEDY, NO_END, PROMPT, TINY
from support.model_file import ModelFile

OPTIONS: dict[str, Any] = {"max_tokens": 12, "temp": 1.0, "seed": 5, "logit_bias": NO_END}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
ENDLESS: dict[str, Any] = GREEDY | {"max_tokens": None}


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, context_length=2048, chat_template=TEMPLATE), threads=1) as model:
        yield model


def test_a_list_of_prompts_gives_the_same_texts_in_their_order(model: Model) -> None:
    prompts = [f"the {'time ' * (i % 5)}was {i}" for i in range(40)]
    completions = model.generate(prompts, **OPTIONS)
    assert [each.tokens for each in completions] == [model.generate(each, **OPTIONS).tokens for each in prompts]
    assert model.generate([], **OPTIONS) == []


def test_n_replies_differ_and_read_their_prompt_once(model: Model) -> None:
    prompt = PROMPT * 12
    first = model.generate(prompt, **OPTIONS)
    replies = model.generate(prompt, n=4, **OPTIONS)
    assert replies[0].tokens == first.tokens
    assert len({tuple(each.tokens) for each in replies}) == 4
    assert [each.tokens for each in model.generate(prompt, n=4, **OPTIONS)] == [each.tokens for each in replies]
    tokens = first.stats.prompt_tokens
    assert all(each.stats.cached_tokens == tokens - 1 for each in replies)
    both = model.generate([prompt, "was"], n=2, **OPTIONS)
    assert [each.tokens for each in both[:2]] == [each.tokens for each in replies[:2]]
    assert both[2].tokens == model.generate("was", **OPTIONS).tokens


def test_an_error_of_one_is_raised_and_the_others_are_cancelled(model: Model) -> None:
    with pytest.raises(ContextOverflowError):
        model.generate(["the", "x" * 5000], **ENDLESS)
    with pytest.raises(IncompleteOutputError):
        model.generate(["the", "time"], regex="[ab]{50}", max_tokens=4)
    assert not model._generator.session._batcher._waiting


@pytest.mark.parametrize("n", [0, -1, 1.5, "2"])
def test_n_is_a_number_of_replies(model: Model, n: Any) -> None:
    with pytest.raises(OptionError, match="option n"):
        model.generate("the", n=n)


def test_the_schedule_is_one_that_there_is(model: Model) -> None:
    with pytest.raises(OptionError, match="schedule"):
        Model.open(model.file.path, schedule="lifo")  # type: ignore[arg-type]


def test_tokens_come_in_a_loop_of_asyncio(model: Model) -> None:
    prompts = ["the time", "was", "and"]

    async def read(prompt: str) -> list[int]:
        return [token.id async for token in model.astream(prompt, **OPTIONS)]

    async def read_all() -> list[list[int]]:
        return await asyncio.gather(*(read(prompt) for prompt in prompts))

    assert asyncio.run(read_all()) == [model.generate(prompt, **OPTIONS).tokens for prompt in prompts]


def test_a_chat_in_asyncio(model: Model) -> None:
    async def talk() -> tuple[str, str, list[dict[str, Any]]]:
        chat = model.chat(**OPTIONS)
        first = await chat.asend("hello")
        second = await chat.astream("again").completion()
        return first.text, second.text, chat.messages

    chat = model.chat(**OPTIONS)
    first, second = chat.send("hello").text, chat.send("again").text
    assert asyncio.run(talk()) == (first, second, chat.messages)


def test_an_error_comes_to_the_task(model: Model) -> None:
    async def fail() -> None:
        async for _ in model.astream("x" * 5000):
            pass

    with pytest.raises(ContextOverflowError):
        asyncio.run(fail())


@pytest.mark.parametrize("after_s", [0.0, 0.3])
def test_a_cancelled_task_cancels_its_reply(model: Model, after_s: float) -> None:
    chat, stream = model.chat(**ENDLESS), model.astream("the", **ENDLESS)

    async def cancelled(work: Callable[[], Any]) -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(cancelled(lambda: chat.asend("hello")))
    asyncio.run(cancelled(stream.completion))
    assert time.monotonic() - began < 60
    assert stream.generation is None or stream.generation.finish_reason == "cancelled"
    assert model.generate("the", max_tokens=2).tokens


def test_a_task_that_is_cancelled_again_still_waits_for_its_thread() -> None:
    """So does one that `asyncio.timeout` or a TaskGroup cancels, and the end of the loop behind it."""
    calls, may_end, ended = list[int](), threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(60)
        ended.set()

    async def cancel_thrice() -> None:
        task = asyncio.ensure_future(in_thread(work, lambda: calls.append(1)))
        for seen in range(3):
            await asyncio.sleep(0)
            task.cancel()
            while len(calls) <= seen:
                await asyncio.sleep(0.001)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(cancel_thrice())


def test_n_replies_compute_a_prompt_that_is_not_cached_once(model: Model) -> None:
    before = model.prefix_stats.cached_tokens
    stats = [each.stats for each in model.generate("was and the time " * 40, n=8, **OPTIONS)]
    computed = sorted(each.prompt_tokens - each.cached_tokens for each in stats)
    assert computed[7] > stats[0].prompt_tokens - PAGE, "other tests have computed a beginning at most"
    assert computed[6] < PAGE, "the others share the pages of the first; what is left of one is no page"
    assert model.prefix_stats.cached_tokens - before == sum(each.cached_tokens for each in stats)


def read_three(model: Model, group: GenerationGroup, seen: Callable[[int, str], None], **options: Any) -> list[Any]:
    def read(i: int) -> str | None:
        with group.cancelling(model.stream("the time", **ENDLESS | options)) as reply:
            for token in reply:
                seen(i, token.text)
        return reply.finish_reason

    return group.run([partial(read, i) for i in range(3)])


def test_a_group_reads_its_generations_as_they_come(model: Model) -> None:
    parts: list[tuple[int, str]] = []
    reasons = read_three(model, GenerationGroup(), lambda i, text: parts.append((i, text)), max_tokens=30)
    assert reasons == ["length"] * 3
    text = model.generate("the time", **ENDLESS | {"max_tokens": 30}).text
    assert ["".join(part for i, part in parts if i == reply) for reply in range(3)] == [text] * 3
    assert len({i for i, _ in parts[:40]}) > 1, "none waits for the end of another"


def test_cancel_ends_all_of_a_group_and_what_begins_later(model: Model) -> None:
    group, seen = GenerationGroup(), list[int]()

    def cancel(i: int, text: str) -> None:
        seen.append(i)
        if len(seen) == 20:
            group.cancel()

    with pytest.raises(Stopped):
        read_three(model, group, cancel)
    assert not model._generator.session._batcher._waiting
    with pytest.raises(Stopped):
        read_three(model, group, lambda i, text: pytest.fail("a cancelled group generates nothing"))
