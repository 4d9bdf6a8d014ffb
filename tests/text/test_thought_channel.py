"""The thinking of Gemma 4: replies become text, and text becomes the beginning of a reply."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.text.reply_format import HARMONY, THOUGHT_CHANNEL, reply_format
from edgellm.text.thought import with_thinking
from edgellm.text.thought_channel import (
    CHANNEL_MARKS,
    channel_continuation,
    channel_reader,
)

_IDS = dict(enumerate(CHANNEL_MARKS))
_AT_MARKS = re.compile(f"({'|'.join(map(re.escape, CHANNEL_MARKS))})")


def read(reply: str, begun: str = "", size: int = 1) -> str:
    """The text of a reply that comes in pieces of `size` characters."""
    reader, found = channel_reader(_IDS, begun), list[str]()
    for part in _AT_MARKS.split(reply):
        if part in CHANNEL_MARKS:
            found.append(reader.mark(part))
        else:
            found += [reader.text(part[i : i + size]) for i in range(0, len(part), size)]
    assert not reader.ended
    return "".join(found) + reader.flush()


REPLIES = {
    "thinking and answer": (
        "<|channel>thought\nLet me\n\nsee.\n<channel|>Noon.",
        "<think>\nLet me\n\nsee.\n</think>\n\nNoon.",
    ),
    "an empty channel": ("<|channel>thought\n<channel|>Noon.", "Noon."),
    "an empty channel with line ends": ("<|channel>thought\n\n\n<channel|>Noon.", "Noon."),
    "an answer alone": ("It is\nnoon.\n", "It is\nnoon.\n"),
    "cut off in the thought": ("<|channel>thought\nLet me\n", "<think>\nLet me"),
    "cut off in the name": ("<|channel>thou", ""),
    "a channel without a name": ("<|channel><channel|>Noon.", "Noon."),
    "a long line in place of a name": (
        "<|channel>" + "a" * 70 + "\nb<channel|>c",
        f"<think>\n{'a' * 70}\nb\n</think>\n\nc",
    ),
    "two thoughts": (
        "<|channel>thought\nA<channel|><|channel>thought\nB<channel|>C",
        "<think>\nA\n</think>\n\n<think>\nB\n</think>\n\nC",
    ),
    "a thought behind the answer": ("A <|channel>thought\nB<channel|> C", "A B C"),
    "marks out of place": ("<channel|>A<channel|>", "A"),
    "a mark in a thought": ("<|channel>thought\nA<|channel>B<channel|>C", "<think>\nAB\n</think>\n\nC"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_become_text(name: str) -> None:
    reply, expected = REPLIES[name]
    assert read(reply) == read(reply, size=1000) == expected


pieces = st.sampled_from((*CHANNEL_MARKS, "thought\n", "thought", "\n", " ", "Noon.", "x" * 50))


@given(parts=st.lists(pieces, max_size=14), size=st.integers(1, 9))
def test_any_pieces_give_the_same_text(parts: list[str], size: int) -> None:
    reply = "".join(parts)
    assert read(reply, size=size) == read(reply, size=10**6)


words = st.text(alphabet="ab <", min_size=1, max_size=8)


@given(thought=words, answer=words, place=st.integers(0, 60))
def test_a_reply_that_was_cut_off_goes_on(thought: str, answer: str, place: int) -> None:
    """Read from any place in its answer or thought, what follows makes the whole text."""
    whole = read(f"<|channel>thought\n{thought}<channel|>{answer}")
    begun = f"<think>\n{thought[:place]}"
    assert channel_continuation(begun) == [("<|channel>thought\n", True), (thought[:place], False)]
    assert begun + read(f"{thought[place:]}<channel|>{answer}", begun=begun) == whole
    begun = f"<think>\n{thought}\n</think>\n\n{answer[:place]}"
    start = [("<|channel>thought\n", True), (thought, False), ("<channel|>", True), (answer[:place], False)]
    assert channel_continuation(begun) == start
    assert begun + read(answer[place:], begun=begun) == whole


def test_a_reply_without_thinking_goes_on() -> None:
    assert channel_continuation("Noon") == [("Noon", False)]
    assert read(" it is.", begun="Noon") == " it is."


def test_templates_get_thoughts_apart_from_answers() -> None:
    reply = {"role": "assistant", "content": "<think>\nA\n</think>\n\nB"}
    assert with_thinking(reply, "reasoning_content") == {"role": "assistant", "reasoning_content": "A", "content": "B"}
    for message in ({**reply, "role": "user"}, {**reply, "reasoning_content": "C"}, {"role": "assistant"}):
        assert with_thinking(message, "reasoning_content") == message


def test_the_template_tells_the_format() -> None:
    assert reply_format("{{ text.split('<channel|>') }}{{ '<|channel>thought' }}") is THOUGHT_CHANNEL
    assert reply_format("{{ '<|start|>assistant<|channel|>final<|message|>' }}") is HARMONY
    assert reply_format("{{ '<|im_start|>' }}") is None
