"""Conversations longer than the context: which messages are dropped, and that the figures tell how many."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import Chat, ContextOverflowError, Model, OptionError
from edgellm.engine.protocol import Engine
from edgellm.generate.generation import Generation
from edgellm.generate.overflow import PromptFitter
from edgellm.generate.session import Session
from edgellm.generate.token_chooser import TokenChooser
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.rules import Proposal
from edgellm.text.template import Message
from support.model_file import ModelFile

CTX = 400
SESSION = Session(cast(Engine, SimpleNamespace(ctx=CTX)), "m")
ROLES = {"system": 1, "user": 2, "assistant": 3, "tool": 4}


def tokens(messages: Sequence[Message]) -> list[int]:
    """One id for a role, one for each character, and the beginning of the reply."""
    written = [[ROLES[message["role"]], *map(ord, message["content"])] for message in messages]
    return [*chain.from_iterable(written), ROLES["assistant"]]


def talk(lengths: Sequence[int], system: int | None = None) -> list[Message]:
    """A system prompt and turns by their lengths: the user's message, the reply, and so on, each in other letters."""
    said = [
        {"role": ["user", "assistant"][i % 2], "content": chr(200 + i) * length} for i, length in enumerate(lengths)
    ]
    return [*([] if system is None else [{"role": "system", "content": "s" * system}]), *said]


turns = st.lists(st.integers(0, 120), min_size=1, max_size=25).filter(lambda lengths: len(lengths) % 2 == 1)


@given(turns, st.none() | st.integers(0, 90), st.none() | st.integers(0, 300))
@settings(deadline=None)
def test_whole_turns_are_left_out_as_far_as_needed(lengths: list[int], system: int | None, most: int | None) -> None:
    messages, pinned = talk(lengths, system), int(system is not None)
    whole, room = len(tokens(messages)), min(CTX // 4, CTX // 4 if most is None else most)
    prompt = PromptFitter(messages, tokens, SESSION, most).prompt("drop")
    left = [*messages[:pinned], *messages[pinned + prompt.truncation.messages :]]
    assert prompt.ids == tokens(left)
    assert prompt.truncation.tokens == whole - len(prompt.ids)
    assert left[pinned]["role"] == "user"
    if whole + room <= CTX:
        assert prompt.truncation.tokens == 0
    else:
        assert len(prompt.ids) + room <= CTX or left[pinned:] == messages[-1:]
        # At most a quarter more than needed, and the turn that the cut is in.
        turn = max(a + b + 2 for a, b in pairwise([*lengths, 0]))
        assert prompt.truncation.tokens < whole + room - CTX + CTX // 4 + turn


def test_the_next_turns_leave_out_the_same() -> None:
    """Most prompts continue the one before, so that the prefix cache has them."""
    lengths, before, anew = [20], [0], 0
    for _ in range(200):
        prompt = PromptFitter(talk(lengths, 30), tokens, SESSION, None).prompt("drop").ids
        anew += before[:-1] != prompt[: len(before) - 1]
        before = prompt
        lengths += [10, 20]
    # 32 tokens a turn and 100 at a time.
    assert anew <= 200 * 32 / 100 + 1


def test_tool_results_stay_with_their_turn() -> None:
    asked = {"role": "user", "content": "q" * 100}
    call, result = {"role": "assistant", "content": "c" * 90}, {"role": "tool", "content": "r" * 90}
    messages = [*talk([50, 50] * 4), asked, call, result]
    prompt = PromptFitter(messages, tokens, SESSION, None).prompt("drop")
    assert prompt.ids == tokens([asked, call, result])


def test_odd_beginnings() -> None:
    """A first message from the assistant belongs to no turn; all system prompts and the last turn stay."""
    hello = {"role": "assistant", "content": "h" * 120}
    assert PromptFitter([hello, *talk([200, 50, 50])], tokens, SESSION, 10).prompt("drop").ids == tokens(
        talk([200, 50, 50])
    )
    two = [*talk([], 10), *talk([], 20)]
    assert PromptFitter([*two, *talk([300, 50, 60])], tokens, SESSION, 10).prompt("drop").ids[:30] == tokens(two)[:30]
    (only,) = talk([390])
    assert PromptFitter([only], tokens, SESSION, None).prompt("drop").ids == tokens([only])
    assert PromptFitter([result := {"role": "tool", "content": "r" * 390}], tokens, SESSION, 1).prompt(
        "drop"
    ).ids == tokens([result])


@given(turns, st.integers(0, 150), st.integers(0, 2000))
@settings(deadline=None)
def test_the_prompt_after_a_context_shift(lengths: list[int], system: int, n: int) -> None:
    messages = talk(lengths, system)
    prompt = PromptFitter(messages, tokens, SESSION, None).prompt("window")
    written = [1000 + i for i in range(n)]
    assert prompt.context_shift
    later = prompt.context_shift(written)
    everything = tokens(messages) + written
    opening = tokens(messages[:1])[: system + 1]
    assert later.ids[: system + 1] == opening
    rest = later.ids[system + 2 :]
    assert everything[len(everything) - len(rest) :] == rest
    assert len(later.ids) <= CTX - CTX // 4
    assert later.truncation.tokens == len(everything) - len(later.ids)
    assert later.truncation.messages >= prompt.truncation.messages


def test_a_system_prompt_that_leaves_no_window() -> None:
    assert PromptFitter(talk([10], CTX // 2 - 2), tokens, SESSION, None).prompt("window").context_shift
    assert not PromptFitter(talk([10], CTX // 2), tokens, SESSION, None).prompt("window").context_shift
    assert not PromptFitter(talk([10], 10), tokens, SESSION, None).prompt("drop").context_shift


TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if loop.index0 and messages[loop.index0 - 1].role == m.role %}{{ raise_exception('two in a row') }}{% endif %}"
    "{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
LETTERS = {3 + byte for byte in range(65, 91)}
FORBIDDEN = {i: -float("inf") for i in range(320) if i not in LETTERS}
GREEDY: dict[str, Any] = {"temp": 0, "max_tokens": 12, "logit_bias": FORBIDDEN}


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, chat_template=TEMPLATE)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1, ctx=160) as model:
        yield model


def test_the_error_of_stop_names_the_other_policies(model: Model) -> None:
    chat = model.chat(**GREEDY)
    for policy in (None, "stop"):
        told = r'too long for the context of 160: .*\(ctx=\).*\(overflow="drop" or "window"\)'
        with pytest.raises(ContextOverflowError, match=told):
            chat.reply([{"role": "user", "content": "Z" * 200}], overflow=policy)
    with pytest.raises(ContextOverflowError, match="no older turns are left to leave out; shorten the last message"):
        chat.reply([{"role": "user", "content": "Z" * 200}], overflow="drop")
    for wrong in ("forget", 1):
        with pytest.raises(OptionError, match=r"overflow cannot be .*give stop, drop or window"):
            model.chat(overflow=wrong)


def test_a_long_conversation(path: Path) -> None:
    """30 turns in a context for ten: each reply is the one to a conversation of only the kept messages."""
    read = prompts = 0
    with Model.open(path, threads=1, ctx=400) as model:
        chat = model.chat(system="S" * 10, overflow="drop", **GREEDY)
        for turn in range(30):
            asked = "QRST"[turn % 4] * 12
            generation, messages = chat.stream(asked), [*chat.messages, {"role": "user", "content": asked}]
            reply = generation.completion()
            left = [messages[0], *messages[1 + generation.dropped_messages :]]
            fresh = model.chat(**GREEDY).reply(left).completion()
            assert (reply.tokens, reply.stats.prompt_tokens) == (fresh.tokens, fresh.stats.prompt_tokens)
            assert reply.dropped_tokens == chat.count(messages) - reply.stats.prompt_tokens
            fits = chat.count(messages) + 12 <= 400
            assert (reply.dropped_tokens == 0) is (generation.dropped_messages == 0) is fits
            prompts += reply.stats.prompt_tokens
            read += reply.stats.prompt_tokens - reply.stats.cached_tokens
    assert not fits
    assert len(chat.messages) == 61  # what was left out is not forgotten
    assert read < 0.5 * prompts  # most of a prompt is in the cache, since a quarter is left out at once


def endless(chat: Chat, messages: list[Message], n: int) -> tuple[Generation, list[tuple[int, int]]]:
    """A reply of `n` tokens, and the progress of its prefills."""
    seen: list[tuple[int, int]] = []
    generation = chat.reply(messages, max_tokens=n, overflow="window", progress=lambda *at: seen.append(at))
    generation.completion()
    return generation, seen


def test_a_reply_continues_beyond_the_context(model: Model) -> None:
    chat = model.chat(**GREEDY)
    messages = [{"role": "system", "content": "S" * 20}, {"role": "user", "content": "Q" * 20}]
    plain = chat.reply(messages, max_tokens=None).completion()
    generation, seen = endless(chat, messages, 300)
    assert (len(generation.tokens), generation.finish_reason) == (300, "length")
    assert plain.finish_reason == "length"
    full = len(plain.tokens)
    assert generation.tokens[:full] == plain.tokens
    # The rest was read again, behind the same opening: 120 of 160 tokens, whenever 40 more were written.
    ids = model.tokenizer.encode(f"system: {'S' * 20}\nuser: {'Q' * 20}\nassistant: ", add_special=True)
    opening = model.tokenizer.encode(f"system: {'S' * 20}\nuser: ", add_special=True)
    assert ids[: len(opening)] == opening
    assert len(ids) + full == 161
    written = generation.tokens[:full]
    later = opening + (ids + written)[-(120 - len(opening)) :]
    logits = model.logits(later)[-1] + np.array([FORBIDDEN.get(i, 0.0) for i in range(320)])
    assert generation.tokens[full] == int(logits.argmax())
    reads = [total for done, total in seen if done == 0]
    assert len(reads) == 1 + -(-(300 - full) // 41)
    assert reads[1] == max(reads[1:]) == 120 - len(opening)
    assert generation.dropped_tokens == generation.completion().dropped_tokens > 160
    assert generation.dropped_messages == 0
    assert generation.live().context_used <= 160


def test_older_turns_go_first_while_a_reply_is_written(model: Model) -> None:
    chat = model.chat(**GREEDY)
    messages = talk_to("A" * 20, "B" * 20, "C" * 20)
    generation = chat.reply(messages, max_tokens=120, overflow="window")
    dropped = [(generation.dropped_messages, generation.dropped_tokens, generation.live().context_used)]
    for _ in generation:
        dropped.append((generation.dropped_messages, generation.dropped_tokens, generation.live().context_used))
    assert dropped[0] == (0, 0, 0)
    kept = chat.count(messages[2:])
    changes = [dropped[i] for i in range(1, len(dropped)) if dropped[i][:2] != dropped[i - 1][:2]]
    assert changes[0][:2] == (2, chat.count(messages) - kept)
    assert {messages for messages, _, _ in changes} == {2}
    assert all(used <= 121 for _, _, used in changes)


def talk_to(*contents: str) -> list[Message]:
    return [{"role": ["user", "assistant"][i % 2], "content": content} for i, content in enumerate(contents)]


def test_the_sampled_text_does_not_depend_on_the_policy_before_the_context_is_full(model: Model) -> None:
    options: dict[str, Any] = {"logit_bias": FORBIDDEN, "seed": 3, "temp": 1.5}
    asked = talk_to("Q" * 20)
    one = model.chat(**options).reply(asked).completion()
    other = model.chat(**options).reply(asked, overflow="window", max_tokens=400).completion()
    assert other.tokens[: len(one.tokens)] == one.tokens


def test_no_random_number_is_drawn_twice(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if a context shift gives a token the position of an earlier one."""
    drawn, draw = list[int](), TokenChooser._draw

    def recorded(chooser: TokenChooser, distribution: Distribution, position: int, proposal: Proposal | None) -> int:
        drawn.append(position)
        return draw(chooser, distribution, position, proposal)

    monkeypatch.setattr(TokenChooser, "_draw", recorded)
    generation, _ = endless(model.chat(**GREEDY), talk_to("Q" * 20), 400)
    assert drawn == list(range(drawn[0], drawn[0] + 400))
    assert drawn[0] == generation.stats.prompt_tokens
