"""Chats on a model with recurrent layers: no turn is read twice, and the figures tell what is computed again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import Chat, Model
from edgellm.engine.recurrent_states import CHECKPOINT_BYTES, MAX_STATE_CHECKPOINTS, most_state_pages
from edgellm.generate.prompt_segment import MARK_EVERY
from edgellm.gguf import GGUFFile
from edgellm.options import MAX_DRAFT, LoadOptions
from edgellm.perf.plan import make_plan
from support.drafts import AllDrafts
from support.generation import RECURRENT
from support.model_file import ModelFile

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
# As that of models that think: a prompt begins a thought, which later prompts leave out.
THINKING = TEMPLATE.replace("assistant: ", "assistant: THINK")
# Capital letters alone, which are one token each, so that what was written is read as the same tokens.
LETTERS = {3 + byte for byte in range(65, 91)}
GREEDY: dict[str, Any] = {"temp": 0, "max_tokens": 12}
GREEDY["logit_bias"] = {i: -float("inf") for i in range(320) if i not in LETTERS}
HEADER = 20
"""More than the tokens that the template adds to a message and to the reply."""


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**RECURRENT, context_length=4096, chat_template=TEMPLATE)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as model:
        yield model


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def letters(n: int, length: int = 30) -> str:
    """A text of `length` letters; those of different `n` differ from the first token on."""
    return chr(65 + n % 26) * length


def reply(chat: Chat, asked: list[dict[str, str]], **options: Any) -> tuple[str, int, int]:
    """The text of the reply, the tokens of the prompt, and how many of these were computed."""
    done = chat.reply(asked, **options).completion()
    return done.text, done.stats.prompt_tokens, done.stats.prompt_tokens - done.stats.cached_tokens


def talk(chat: Chat, turns: int) -> list[dict[str, str]]:
    """A conversation of user messages and replies, each turn computed alone."""
    asked = list[dict[str, str]]()
    for turn in range(turns):
        asked.append(user(letters(turn)))
        text, _, computed = reply(chat, asked)
        assert 30 < computed < 30 + HEADER, f"turn {turn}"
        asked.append({"role": "assistant", "content": text})
    return asked


def pages(model: Model) -> int:
    """The state pages that memory was taken for."""
    engine: Any = model.engine
    return len(engine._runner.checkpoints.states.pool._references)


def test_each_of_twenty_turns_computes_its_own_message_alone(model: Model) -> None:
    chat = model.chat(**GREEDY)
    asked = talk(chat, 20)
    assert reply(chat, [*asked, user("QQ")])[0] == reply(model.chat(**GREEDY), [*asked, user("QQ")])[0]
    for edited in (18, 10, 2):
        other = [*asked[:edited], user("Z" * 30)]
        text, _, computed = reply(chat, other)
        assert 30 < computed < 30 + HEADER, "from the checkpoint where the message before it ends"
        assert text == reply(model.chat(**GREEDY), other)[0]
    for branch in ([*asked[:3], user("YY")], [*asked, user("RR")]):
        assert reply(chat, branch)[2] < HEADER, "an old branch, and the newest one again"


def test_a_reply_is_regenerated_from_the_last_token_of_its_prompt(model: Model) -> None:
    chat = model.chat(**GREEDY)
    asked = [*talk(chat, 3), user("QQQQ")]
    first, *_ = reply(chat, asked)
    for _ in range(3):
        text, _, computed = reply(chat, asked)
        assert (text, computed) == (first, 1)


def test_a_thought_that_later_prompts_leave_out_costs_the_reply_and_no_more(model_file: ModelFile) -> None:
    with Model.open(model_file(**RECURRENT, context_length=4096, chat_template=THINKING), threads=1) as model:
        chat, asked = model.chat(**GREEDY), list[dict[str, str]]()
        for turn in range(10):
            asked.append(user(letters(turn)))
            text, _, computed = reply(chat, asked)
            assert computed < 30 + 2 * HEADER + 12, "a message, and the reply before it without its thought"
            asked.append({"role": "assistant", "content": text})
        assert text == reply(model.chat(**GREEDY), asked[:-1])[0]


@pytest.mark.parametrize("alphabet", ["ABC", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"])
def test_a_reply_that_a_stop_string_ended_is_not_computed_again(
    model: Model, alphabet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state holds tokens of the stop string, also as drafts, and that before them is kept.

    With few letters many beginnings of a stop string do not go on.
    """
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    bias = {i: -float("inf") for i in range(320) if i not in {3 + ord(letter) for letter in alphabet}}
    forward, stopped, drafted = model.engine.forward, 0, list[int]()
    monkeypatch.setattr(
        model.engine, "forward", lambda segments: drafted.append(segments[0].drafts) or forward(segments)
    )
    for seed in range(12):
        options: dict[str, Any] = {"temp": 2, "seed": seed, "max_tokens": 40, "logit_bias": bias}
        chat, asked = model.chat(**options), [user(letters(seed))]
        whole = reply(model.chat(**options), asked)[0]
        for at in range(5, 36):
            stop = whole[at : at + 4]
            if whole.find(stop) == at and stop[0] not in stop[1:]:  # else it may begin before a beginning ends
                break
        else:
            continue
        done = chat.reply(asked, stop=[stop]).completion()
        assert (done.text, done.finish_reason) == (whole[:at], "stop")
        asked += [{"role": "assistant", "content": done.text}, user("QQ")]
        after = chat.reply(asked).completion()
        assert after.stats.cached_tokens == done.stats.prompt_tokens + at
        assert after.text == reply(model.chat(**options), asked)[0]
        stopped += 1
    assert stopped > 6 and sum(drafted) > 100


def test_the_memory_of_checkpoints_stays_within_the_budget(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten checkpoints for a chat that would like sixty, and for its branches."""
    monkeypatch.setattr("edgellm.engine.recurrent_states.MAX_STATE_CHECKPOINTS", 10)
    with Model.open(path, threads=1) as model, Model.open(path, threads=1) as other_model:
        chat = model.chat(**GREEDY)
        asked, shares = talk(chat, 20), []
        for edited in (36, 20, 4):
            other = [*asked[:edited], user("Z" * 30)]
            text, prompt, computed = reply(chat, other)
            assert text == reply(other_model.chat(**GREEDY), other)[0]
            shares.append(computed / prompt)
            assert pages(model) <= most_state_pages(10) + MAX_DRAFT
        near, far, _ = shares
        assert near < 0.15, "checkpoints are close together near the end"
        assert near < far < 0.8


def test_checkpoints_and_drafts_take_as_many_states_as_plan_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.engine.recurrent_states.MAX_STATE_CHECKPOINTS", 10)
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions(gpu_layers=0))
    with Model.open(path, threads=1, gpu_layers=0) as model:
        chat = model.chat(**GREEDY, stop=["AZAZ"])
        talk(chat, 12)
        repeated = {**GREEDY["logit_bias"], 68: 1000.0}
        reply(chat, [user(letters(1))], max_tokens=40, logit_bias=repeated)
        assert pages(model) * plan.state_bytes == plan.states


def test_small_states_are_limited_by_their_number(model: Model) -> None:
    engine: Any = model.engine
    assert engine._runner.checkpoints.states.most == most_state_pages(MAX_STATE_CHECKPOINTS)
    assert engine._runner.cpu.pages.page_bytes[-1] * MAX_STATE_CHECKPOINTS < CHECKPOINT_BYTES


def test_a_reply_that_shifts_its_context_goes_on_from_the_system_prompt(model_file: ModelFile) -> None:
    path = model_file(**RECURRENT, context_length=4096, chat_template=TEMPLATE)
    with Model.open(path, threads=1, ctx=128) as model:
        long: dict[str, Any] = {**GREEDY, "max_tokens": 200, "overflow": "window"}
        chat = model.chat(**long)
        asked = [{"role": "system", "content": "S" * 20}, user("Q" * 20)]
        done = chat.reply(asked).completion()
        fresh = model.chat(**long).reply(asked).completion()
        assert len(done.tokens) == 200
        assert done.tokens == fresh.tokens
        assert reply(chat, [asked[0], user("R" * 20)], max_tokens=9)[2] < 20 + HEADER, (
            "the system prompt is not read again"
        )


def test_the_end_of_a_long_message_is_edited_without_reading_all_of_it(model: Model) -> None:
    chat, text = model.chat(**GREEDY), "".join(map(letters, range(100)))
    reply(chat, [user(text)])
    edited = [user(text[:-5] + "ZZ")]
    again, prompt, computed = reply(chat, edited)
    assert prompt > 2 * MARK_EVERY
    assert computed <= MARK_EVERY
    assert again == reply(model.chat(**GREEDY), edited)[0]


def test_what_follows_a_completion_is_edited_without_reading_the_completion_again(model: Model) -> None:
    """Without a token that ends messages: the end of what was generated is a checkpoint of its own."""
    prompt = "A" * 30
    prompt += model.generate(prompt, **GREEDY).text
    first, other = (model.generate(prompt + each * 30, **GREEDY) for each in "BC")
    assert first.stats.cached_tokens == other.stats.cached_tokens > 30


def test_a_cancelled_prompt_is_continued(model: Model) -> None:
    """What was computed before the stop stays, with its checkpoints."""
    chat, long = model.chat(**GREEDY), [user(letters(i, 200)) for i in range(12)]
    fresh = reply(model.chat(**GREEDY), long)
    generation = chat.reply(long, progress=lambda done, total: done and generation.cancel())
    assert generation.completion().finish_reason == "cancelled"
    text, prompt, computed = reply(chat, long)
    assert text == fresh[0]
    assert computed < prompt
    assert reply(chat, [*long[:1], user("QQ")])[2] < HEADER
