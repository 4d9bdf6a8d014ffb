"""Earlier versions of a conversation: only new tokens are computed, and the memory is bounded."""

import random
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from edgellm import Chat, EdgeLLMError, Model
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.protocol import Segment
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.batching.computation import Computation
from edgellm.generate.prefix_cache import PrefixCache, promised
from kquants.kv_layout import PAGE
from support.model_file import ModelFile
from support.stateless import Sequence

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
# Capital letters alone, which are one token each, so that what was written is read as the same tokens.
LETTERS = {3 + byte for byte in range(65, 91)}
GREEDY: dict[str, Any] = {"temp": 0, "max_tokens": 12}
GREEDY["logit_bias"] = {i: -float("inf") for i in range(320) if i not in LETTERS}


def common(one: list[int], other: list[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, chat_template=TEMPLATE)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_over_a_tree_of_conversations(path: Path, seed: int) -> None:
    """The same tokens as in a new chat, and none is computed twice."""
    rng = random.Random(seed)
    with Model.open(path, threads=1) as model:
        chat, held = model.chat(**GREEDY), list[list[int]]()
        talks: list[list[dict[str, str]]] = [[]]
        for step in range(8):
            talk = [*rng.choice(talks), user("".join(rng.choices("QWXYZ", k=12)))]
            for messages in (talk, rng.choice(talks[1:]) if step else talk):
                reply = chat.reply(messages).completion()
                fresh = model.chat(**GREEDY).reply(messages).completion()
                assert reply.tokens == fresh.tokens
                ids = prompt_of(model, messages)
                best = max((common(ids, tokens) for tokens in held), default=0)
                assert reply.stats.cached_tokens == min(best, len(ids) - 1)
                held.append(ids + reply.tokens[:-1])
            talks += [talk] if rng.random() < 0.3 else []
            answered = chat.reply(talk).completion().text
            talks.append([*talk, {"role": "assistant", "content": answered}, user("QQQQ" + "XYZ" * 3)])
        assert len(held) == 2 * 8


def prompt_of(model: Model, messages: list[dict[str, str]]) -> list[int]:
    rendered = "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant: "
    return model.tokenizer.encode(rendered, add_special=True)


def alternate(chat: Chat, check: Callable[[int], None]) -> None:
    """A conversation, another reply, an edited message, and back."""
    first = chat.reply([user("A" * 20)]).completion()
    again = chat.reply([user("A" * 20)], temp=1.0, seed=1).completion()
    assert again.stats.cached_tokens == again.stats.prompt_tokens - 1
    edited = chat.reply([user("A" * 10 + "B" * 20)]).completion()
    assert edited.stats.cached_tokens > 10
    for reply in (first, again):
        messages = [user("A" * 20), {"role": "assistant", "content": reply.text}, user("C" * 10)]
        back = chat.reply(messages).completion()
        check(back.stats.cached_tokens - (first.stats.prompt_tokens + len(reply.tokens) - 1))


def test_another_reply_an_edit_and_back(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        alternate(model.chat(**GREEDY), lambda off: pytest.fail(f"{off} tokens") if off else None)


def test_the_same_with_llama_cpp(path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python")
    with Model.open(path, threads=1, engine="llama.cpp") as model:
        alternate(model.chat(**GREEDY), lambda off: pytest.fail(f"{off} tokens") if off else None)


def test_llama_cpp_lets_go_of_old_branches_by_itself(path: Path) -> None:
    """Its cache has room for one context, so that eight prompts of a third of it evict each other."""
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python")
    with Model.open(path, threads=1, engine="llama.cpp", ctx=256) as model:
        chat = model.chat(**GREEDY)
        prompts = [[user(letter * 60)] for letter in "ABCDEFGH"]
        alone = [model.chat(**GREEDY).reply(prompt).completion().tokens for prompt in prompts]
        assert [chat.reply(prompt).completion().tokens for prompt in prompts * 2] == alone * 2
        last = chat.reply(prompts[-1]).completion().stats
        assert last.cached_tokens == last.prompt_tokens - 1


def test_sequences_that_llama_cpp_evicted_are_not_used(path: Path) -> None:
    """Of two sequences with a common prefix, the better one has lost its state: the other one is used."""
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python")
    with Model.open(path, threads=1, engine="llama.cpp") as model:
        chat = model.chat(**GREEDY)
        for end in "BC":
            chat.reply([user("A" * 60 + end * 20)]).completion()
        slots: Any = vars(model.engine)["_slots"]
        slots.make_room([])
        again = chat.reply([user("A" * 60 + "B" * 20)]).completion().stats
        assert 60 < again.cached_tokens < 80


def test_old_branches_go_when_there_is_no_memory_for_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages for 200 tokens and no more: room for one of the prompts at a time."""
    monkeypatch.setattr("edgellm.engine.host_kv_pages.CHUNK", 0)
    hold = HostKVPages.ensure_pages

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        with monkeypatch.context() as patch:
            if pages * PAGE > 200 + PAGE:
                patch.setattr("edgellm.engine.host_kv_pages.huge", fail)
            hold(store, group, pages)

    def fail(n: int) -> None:
        raise MemoryError

    with Model.open(path, threads=1) as model:
        prompts = [[user(letter * 90)] for letter in "ABC"]
        alone = [model.chat(**GREEDY).reply(prompt).completion().tokens for prompt in prompts]
    monkeypatch.setattr(HostKVPages, "ensure_pages", limited)
    with Model.open(path, threads=1) as model:
        chat, other = model.chat(**GREEDY), model.chat(**GREEDY)
        replies = [each.reply(prompt).completion() for each in (chat, other) for prompt in prompts]
        assert [reply.tokens for reply in replies] == alone * 2
        again = chat.reply(prompts[0]).completion().stats
        assert again.cached_tokens <= PAGE  # it was read longest ago: its first page may be left
        with pytest.raises(EdgeLLMError, match="no memory for another"):
            chat.reply([user("Z" * 300)]).completion()
        assert chat.reply(prompts[1]).completion().tokens == alone[1]


@pytest.mark.parametrize(
    ("goes_back", "ids", "tokens"),
    [
        (True, [1, 2, 9, 4, 5, 6, 7], 7),
        (True, [1, 2, 9, 4, 8], 4),
        (False, [1, 2, 9, 4, 8], 3),
        (False, [1, 2, 9, 4, 5, 6, 7], 6),
        (False, [1, 2], 0),
    ],
)
def test_a_request_waits_for_what_it_can_continue(goes_back: bool, ids: list[int], tokens: int) -> None:
    """With windows or states that are ends of messages, here token 9, and the last but one token of the prompt."""
    computing = Sequence()
    computing.goes_back, computing.tokens = goes_back, [1]
    assert promised(computing, [1, 2, 9, 4, 5, 6, 7], ids, {9}) == tokens
    computing.tokens = [3, 4]  # a reply that has outgrown the context begins with other tokens than its prompt
    assert promised(computing, [1, 2, 9, 4, 5, 6, 7], ids, {9}) == 0


def test_a_request_does_not_wait_for_one_that_waits_for_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was preempted goes on after another request has ended, which may take minutes."""

    def fail(seconds: float) -> None:
        pytest.fail("it waits")

    monkeypatch.setattr("edgellm.generate.prefix_cache.sleep", fail)
    ids = list(range(68, 68 + 3 * PAGE))
    with Model.open(path, threads=1) as model:
        session = model._generator.session
        batcher, cancel = session._batcher, CancelFlag(session.engine)
        with PrefixCache(session).acquire(ids, cancel) as older, PrefixCache(session).acquire(ids[1:], cancel) as young:
            both = [Computation(Segment(each, ids, [0]), CancelFlag(session.engine)) for each in (older, young)]
            batcher._waiting.update(dict.fromkeys(both))
            with batcher.arrivals.join(both[0].cancel):
                assert batcher._admission.make_room_for(both[0])
                assert session.waits_for_memory(young) and not session.waits_for_memory(older)
                with PrefixCache(session).acquire(ids[1:], cancel) as sequence:
                    assert len(sequence) == 0
                with pytest.raises(pytest.fail.Exception, match="it waits"), PrefixCache(session).acquire(ids, cancel):
                    pass
