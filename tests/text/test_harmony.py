"""The harmony format of gpt-oss: replies become text, and text becomes the beginning of a reply."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgellm.text.harmony import MARKS, HarmonyReader, continuation, is_harmony
from edgellm.text.thought import Thought, with_thinking

_IDS = dict(enumerate(MARKS))
_AT_MARKS = re.compile(f"({'|'.join(map(re.escape, MARKS))})")
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"


def read(reply: str, begun: str = "", size: int = 1) -> str:
    """The text of a reply that comes in pieces of `size` characters, up to where it ends itself."""
    reader, found = HarmonyReader(_IDS, begun), list[str]()
    for part in _AT_MARKS.split(reply):
        if reader.ended:
            break
        if part in MARKS:
            found.append(reader.mark(part))
        else:
            found += [reader.text(part[i : i + size]) for i in range(0, len(part), size)]
    return "".join(found) + reader.flush()


REPLIES = {
    "an answer behind an analysis": (
        f"{ANALYSIS}Let me see.<|end|>{FINAL}It is noon.<|return|>",
        "<think>\nLet me see.\n</think>\n\nIt is noon.",
    ),
    "an answer alone": ("<|channel|>final<|message|>It is noon.<|return|>", "It is noon."),
    "a call of a tool, named before its channel": (
        f"{ANALYSIS}A<|end|><|start|>assistant to=functions.clock<|channel|>commentary json<|message|>{{}}<|call|>",
        "<think>\nA\n\nfunctions.clock: {}\n</think>",
    ),
    "a call of a tool, named in its channel": (
        "<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}<|call|>",
        "<think>\nfunctions.clock: {}\n</think>",
    ),
    "a preamble": (
        f"<|channel|>commentary<|message|>First the clock.<|end|>{FINAL}Noon.<|return|>",
        "<think>\nFirst the clock.\n</think>\n\nNoon.",
    ),
    "an analysis in two messages": (
        f"{ANALYSIS}A<|end|><|start|>assistant{ANALYSIS}B<|end|>{FINAL}C<|return|>",
        "<think>\nA\n\nB\n</think>\n\nC",
    ),
    "cut off in an analysis": (f"{ANALYSIS}Let me", "<think>\nLet me"),
    "cut off in a header": (f"{ANALYSIS}A<|end|><|start|>assistant<|channel|>fi", "<think>\nA"),
    "cut off before a header": (f"{ANALYSIS}A<|end|><|start|>assis", "<think>\nA\n</think>\n\nassis"),
    "an answer that ends as a message": (f"{ANALYSIS}A<|end|>{FINAL}B<|end|>{FINAL}C", "<think>\nA\n</think>\n\nB"),
    "without the format": ("It is noon.<|return|>", "It is noon."),
    "without a channel": ("<|message|>It is noon.<|return|>", "It is noon."),
    "without the end of an analysis": (f"{ANALYSIS}A{FINAL}B<|return|>", "<think>\nA\n</think>\n\nB"),
    "without the end and the start": (f"{ANALYSIS}A<|channel|>final<|message|>B", "<think>\nA\n</think>\n\nB"),
    "without the start": (f"{ANALYSIS}A<|end|>assistant<|channel|>final<|message|>B", "<think>\nA\n</think>\n\nB"),
    "with spaces between messages": (f"{ANALYSIS}A<|end|>\n {FINAL}B<|return|>", "<think>\nA\n</think>\n\nB"),
    "without a message": (f"<|channel|>analysis<|end|>{FINAL}B<|return|>", "B"),
    "another role": (
        f"{ANALYSIS}A<|end|><|start|>user<|message|>And?<|end|>{FINAL}B<|return|>",
        "<think>\nA\n\nuser: And?\n</think>\n\nB",
    ),
    "the result of a tool": (
        "<|start|>functions.clock to=assistant<|channel|>commentary<|message|>12<|end|>",
        "<think>\nfunctions.clock: 12",
    ),
    "a message in a message": (f"{ANALYSIS}A<|message|>B<|end|>", "<think>\nAB"),
    "nothing": ("<|return|>", ""),
    "a long text without the format": ("word " * 80, "word " * 80),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_become_text(name: str) -> None:
    reply, expected = REPLIES[name]
    assert read(reply) == read(reply, size=1000) == expected


pieces = st.sampled_from((*MARKS, "assistant", "analysis", "final", " to=f", "commentary", "Noon.", "\n", "x" * 150))


@given(parts=st.lists(pieces, max_size=14), size=st.integers(1, 9))
@example(parts=["x" * 150, "<|channel|>", "x" * 150, "<|message|>"], size=7)
def test_any_pieces_give_the_same_text(parts: list[str], size: int) -> None:
    reply = "".join(parts)
    assert read(reply, size=size) == read(reply, size=10**6)


words = st.text(alphabet="ab \n<", max_size=8)


@given(thought=st.none() | words, answer=words, place=st.integers(0, 60))
def test_a_reply_that_was_cut_off_goes_on(thought: str | None, answer: str, place: int) -> None:
    """Read from any place in its messages, what follows the text before that place makes the whole text."""
    begin = f"{ANALYSIS}{thought}<|end|><|start|>assistant" if thought is not None else ""
    first = begin + "<|channel|>final<|message|>"
    whole = read(first + answer)
    begun = read(first + answer[:place])
    assert "".join(text for text, _ in continuation(begun)) == (first + answer[:place] if begun else "")
    assert begun + read(answer[place:] if begun else first + answer, begun=begun) == whole
    if thought is not None:
        open_thought = f"<think>\n{thought}"
        assert continuation(open_thought) == [(ANALYSIS, True), (thought, False)]
        assert open_thought + read(f"<|end|>{FINAL}{answer}", begun=open_thought) == whole


def test_the_words_of_a_message_are_no_marks() -> None:
    parts = continuation("<think>\n<|end|>\n</think>\n\n<|return|>")
    assert [text for text, is_mark in parts if not is_mark] == ["<|end|>", "<|return|>"]
    assert continuation("") == []


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Noon.", None, "Noon."),
        ("<think>\nA\n</think>\n\nB", "A", "B"),
        ("<think>A</think>B", "A", "B"),
        (" <think>\n\nA", "\nA", None),
        ("<think>\nA\n</think>", "A", ""),
        ("<think>\nA\n</think>\n\n\nB</think>", "A", "\nB</think>"),
        ("So <think>A</think>", None, "So <think>A</think>"),
    ],
)
def test_thoughts_are_split_from_answers(text: str, thought: str | None, answer: str | None) -> None:
    assert Thought.of(text) == (thought, answer)


def test_templates_get_thoughts_apart_from_answers() -> None:
    reply = {"role": "assistant", "content": "<think>\nA\n</think>\n\nB"}
    assert with_thinking(reply, "thinking") == {"role": "assistant", "thinking": "A", "content": "B"}
    for message in ({"role": "user", "content": "<think>A</think>B"}, {**reply, "thinking": ""}, {"role": "assistant"}):
        assert with_thinking(message, "thinking") == message


def test_templates_of_the_format_are_known() -> None:
    assert is_harmony("{{ '<|start|>assistant<|channel|>final<|message|>' }}")
    assert not is_harmony("<|start|>assistant<|message|>") and not is_harmony("<|channel|>")
