"""Earlier versions of a conversation: only new tokens are computed, and the memory is bounded."""

import random
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import Chat, EdgeLLMError, Model
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.generate.cancel_flag import CancelFlag
from edgellm.generate.prefix_cache import MAX_SEQUENCES, MIN_FORK_TOKENS, PrefixCache
from edgellm.generate.session import Session
from kquants.kv_layout import PAGE
from support.model_file import ModelFile
from support.stateless import Sequence

CTX = 1000
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


class Reader:
    """Reads prompts as a generation does, on an engine that computes nothing; `held`: all tokens that were stored."""

    def __init__(self, most: int = MAX_SEQUENCES) -> None:
        engine: Any = SimpleNamespace(ctx=CTX, new_sequence=Sequence)
        self.session = Session(engine, "m")
        self.cache = PrefixCache(self.session, most)
        self.held: list[list[int]] = []

    def read(self, prompt: list[int], reply: list[int] | None = None) -> int:
        """The number of cached tokens of a prompt."""
        cancel = CancelFlag(self.session.engine)
        with self.cache.acquire(prompt, cancel) as sequence:
            cached = self.session.rewind(sequence, prompt, cancel)
            assert sequence.tokens == prompt[:cached]
            sequence.tokens += [*prompt[cached:], *(reply or [])]
            self.held.append(list(sequence.tokens))
        return cached


def text(n: int, length: int) -> list[int]:
    """A message that has nothing in common with those of another number."""
    return [n] * length


def distinct(texts: Iterable[list[int]]) -> int:
    """The number of distinct tokens, shared prefixes counted once: the nodes of a tree."""
    root: dict[int, Any] = {}
    count = 0
    for tokens in texts:
        node = root
        for token in tokens:
            count += token not in node
            node = node.setdefault(token, {})
    return count


lengths = st.integers(MIN_FORK_TOKENS, 40)


@given(st.lists(st.tuples(st.integers(0, 30), lengths, lengths), max_size=MAX_SEQUENCES - 1))
@settings(deadline=None)
def test_everything_read_before_is_there(steps: list[tuple[int, int, int]]) -> None:
    """Each step continues from any node of the tree, with a new message and reply."""
    reader, nodes = Reader(), [[0]]
    for number, (parent, asked, replied) in enumerate(steps, 1):
        prompt = nodes[parent % len(nodes)] + text(2 * number, asked)
        best = max((common(prompt, held) for held in reader.held), default=0)
        assert reader.read(prompt, text(2 * number + 1, replied)) == best
        nodes += [prompt, prompt + text(2 * number + 1, replied)]
    for held in reversed(reader.held):
        assert reader.read(held[:-1]) == len(held) - 2  # the last one's logits are asked for


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 300), st.integers(0, 300)), max_size=40))
@settings(deadline=None)
def test_memory_is_bounded(steps: list[tuple[int, int, int]]) -> None:
    reader, nodes = Reader(), [[0]]
    for number, (parent, asked, replied) in enumerate(steps, 1):
        prompt = (nodes[parent % len(nodes)] + text(2 * number, asked))[:CTX]
        reply = text(2 * number + 1, replied)[: CTX - len(prompt)]
        assert reader.read(prompt, reply) <= max((common(prompt, held) for held in reader.held[:-1]), default=0)
        nodes += [prompt, prompt + reply]
        free = reader.cache._free
        assert len(free) <= MAX_SEQUENCES
        assert distinct(each.tokens for each in free) <= 2 * CTX + len(reply)


def test_a_linear_conversation_needs_one_sequence() -> None:
    reader, prompt = Reader(), [0]
    for number in range(1, 20):
        prompt = prompt + text(number, 20)
        reader.read(prompt, text(99, 20))
        prompt += text(99, 17)  # the template leaves out what a reply ends with
    assert len(reader.cache._free) == 1


class Coarse(Sequence):
    """A sequence that goes back to multiples of 50 tokens alone, as one with checkpoints does."""

    def fork(self) -> "Coarse":
        child = Coarse()
        child.tokens = list(self.tokens)
        return child

    def reach(self, n: int) -> int:
        return len(self) if n >= len(self) else n // 50 * 50

    def trim(self, n: int) -> int:
        return super().trim(self.reach(n))


def test_a_sequence_is_kept_whose_end_would_cost_many_tokens() -> None:
    """Few tokens would be lost, but they could be computed from the last checkpoint alone."""
    reader = Reader()
    reader.session.engine.new_sequence = Coarse
    prompt = text(1, 100)
    assert reader.read(prompt, text(2, 4)) == 0
    assert reader.read(prompt[:98] + text(3, 20)) == 50
    assert reader.read(prompt + text(2, 4) + text(4, 20)) == 104
    assert reader.read(prompt[:98] + text(3, 20) + text(5, 9)) == 118, "the sequence that reaches farthest"


def test_the_sequence_that_reaches_farthest_is_taken_not_that_with_the_longest_prefix() -> None:
    reader, near, far, prompt = Reader(), Coarse(), Coarse(), text(1, 100)
    near.tokens, far.tokens = prompt[:60], prompt[:99] + text(2, 10)
    reader.cache._free += [near, far]
    assert reader.read(prompt) == 60, "of the other sequence 50 tokens could be kept"


def test_the_most_recently_used_sequences_are_kept() -> None:
    reader = Reader()
    for number in range(1, MAX_SEQUENCES + 3):
        reader.read(text(number, 50))
        assert reader.read(text(1, 50)) == 49
    assert [reader.read(text(number, 50)) for number in (MAX_SEQUENCES + 2, MAX_SEQUENCES + 1)] == [49, 49]
    assert reader.read(text(2, 50)) == 0


def test_one_sequence_serves_all() -> None:
    reader = Reader(most=1)
    assert [reader.read(text(number, 50)) for number in (1, 1, 2, 1)] == [0, 49, 0, 0]
    assert len(reader.cache._free) == 1


def test_a_long_conversation_may_keep_twice_its_tokens() -> None:
    reader = Reader()
    reader.session.engine.ctx = 100_000
    trunk = text(1, 6000)
    for number in range(2, 6):
        reader.read(trunk + text(number, 2500))
    # Two of the longest are 17,000 tokens: the trunk and its four ends, and not one more.
    assert [reader.read(trunk + text(number, 2500)) for number in range(2, 6)] == [8499] * 4
    reader.read(trunk + text(6, 2500))
    assert reader.read(trunk + text(2, 2500)) == 6000


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
        for step in range(MAX_SEQUENCES):
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
        assert len(held) == 2 * MAX_SEQUENCES


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
        assert again.cached_tokens < 20  # at most what all begin with: it was read longest ago
        with pytest.raises(EdgeLLMError, match="no memory for another"):
            chat.reply([user("Z" * 300)]).completion()
        assert chat.reply(prompts[1]).completion().tokens == alone[1]


def test_a_prompt_that_is_computed_no_longer_is_not_waited_for() -> None:
    """A reply that outgrew the context has another beginning than its prompt."""
    reader, prompt, cancel = Reader(), text(1, 300), CancelFlag(None)  # type: ignore[arg-type]
    with reader.cache.acquire(prompt, cancel) as sequence:
        sequence.tokens += text(2, 400)
        assert reader.read(prompt + text(3, 10)) == 0
