"""Chats on a model whose layers see a window: they go back and branch, and the figures tell what is computed again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import Chat, Model
from edgellm.engine.kv_pages import KEPT_BEFORE_WINDOW
from kquants.kv_layout import PAGE
from support.model_file import ModelFile

WINDOW = 100
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
# Capital letters alone, which are one token each, so that what was written is read as the same tokens.
LETTERS = {3 + byte for byte in range(65, 91)}
GREEDY: dict[str, Any] = {"temp": 0, "max_tokens": 12}
GREEDY["logit_bias"] = {i: -float("inf") for i in range(320) if i not in LETTERS}


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    window = (("attention.sliding_window", WINDOW),)
    return model_file(**SIZES, context_length=8192, chat_template=TEMPLATE, metadata=window)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as model:
        yield model


def messages(count: int, length: int = 150) -> list[dict[str, str]]:
    """Messages of about `length` tokens."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": chr(65 + i % 26) * length} for i in range(count)]


def reply(chat: Chat, asked: list[dict[str, str]]) -> tuple[list[int], int, int]:
    """The tokens of the reply, those of the prompt, and how many of these were cached."""
    done = chat.reply(asked).completion()
    return done.tokens, done.stats.prompt_tokens, done.stats.cached_tokens


def test_each_turn_computes_its_own_message_alone(model: Model) -> None:
    chat, asked = model.chat(**GREEDY), messages(1)
    for turn in range(12):
        tokens, prompt, cached = reply(chat, asked)
        assert prompt - cached < 190 or turn == 0
        answer = {"role": "assistant", "content": model.tokenizer.decode(tokens)}
        asked = [*asked, answer, *messages(1)]
    fresh = reply(model.chat(**GREEDY), asked)
    assert reply(chat, asked)[0] == fresh[0]


def test_a_reply_is_regenerated_from_the_end_of_its_prompt(model: Model) -> None:
    chat, asked = model.chat(**GREEDY), messages(9)
    first, prompt, _ = reply(chat, asked)
    again, _, cached = reply(chat, asked)
    assert (again, cached) == (first, prompt - 1)


def test_an_edited_message_is_computed_from_the_nearest_point_that_is_kept(model: Model, path: Path) -> None:
    """The reply has the tokens of a model that read nothing before, whether its start is near, far, or gone."""
    chat = model.chat(**GREEDY)
    for count in (1, 3, 5, 7, 9, 11):
        reply(chat, messages(count))
    shares = []
    for edited in (10, 8, 2):
        asked = messages(11)
        asked[edited] = {"role": asked[edited]["role"], "content": "edited" + "Z" * 40}
        tokens, prompt, cached = reply(chat, asked)
        with Model.open(path, threads=1) as other:
            assert reply(other.chat(**GREEDY), asked) == (tokens, prompt, 0)
        shares.append(cached / prompt)
    last, near, far = shares
    assert last > 0.85, "the last message begins where the one before it ended"
    assert last > near > 0.3
    assert far < near


def test_the_memory_of_a_long_prompt_is_that_of_its_window(model: Model) -> None:
    chat = model.chat(**GREEDY)
    chat.reply(messages(41)).completion()
    runner: Any = model.engine
    pools = runner._runner.pools
    assert [pool.window for pool in pools] == [WINDOW]
    assert len(pools[0]._references) * PAGE < 3 * (WINDOW + KEPT_BEFORE_WINDOW) + 256 + 2 * PAGE
