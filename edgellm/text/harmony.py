"""The harmony format of gpt-oss: a reply is a series of messages in channels. (https://cookbook.openai.com/articles/openai-harmony)

    <|start|>assistant<|channel|>analysis<|message|>Let me see.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}<|call|>
    <|start|>assistant<|channel|>final<|message|>It is noon.<|return|>

What a caller reads is text as other models write it: the answer, which is what is said in `final`, behind the messages
of all other channels in <think> … </think>. A call of a tool is among these, behind the name of the tool.
"""

import re
from collections.abc import Mapping

from edgellm.text.thought import CLOSING, OPENING, Thought

START, CHANNEL, CONSTRAIN, MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
MARKS = (START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN)
"""The texts of the control tokens of the format."""

_ASSISTANT, _FINAL = "assistant", "final"
_BETWEEN = "\n\n"
_RECIPIENT = re.compile(r"\bto=(\S+)")
_MAX_HEADER = 256
"""Characters of the longest header; a longer text before <|message|> is what the model says."""


def is_harmony(source: str) -> bool:
    """Whether a chat template writes the format."""
    return START + _ASSISTANT + CHANNEL in source and MESSAGE in source


def continuation(begun: str) -> list[tuple[str, bool]]:
    """What follows the prompt of a reply that begins with the text `begun`: texts, and whether each is a mark."""
    if not begun:
        return []
    thought, answer = Thought.of(begun)
    parts = list[tuple[str, bool]]()
    if thought is not None:
        parts = [(f"{CHANNEL}analysis{MESSAGE}", True), (thought, False)]
        if answer is not None:
            parts.append((f"{END}{START}{_ASSISTANT}", True))
    if answer is not None:
        parts += [(f"{CHANNEL}{_FINAL}{MESSAGE}", True), (answer, False)]
    return parts


class HarmonyReader:
    """Turns a reply in the format into its text, as it comes: the same text however it is split into pieces.

    Messages that lack parts, and those of other roles than the assistant's, are read as far as they go.
    """

    def __init__(self, marks: Mapping[int, str], begun: str = "", leaves_calls: bool = False) -> None:
        """`marks` are MARKS by the ids of their tokens, `begun` is the text of the reply so far, see `continuation`.

        With `leaves_calls`, messages to tools are no text; `recipient` tells the tool during one.
        """
        self.marks, self.ended = marks, False
        """Whether the reply has its answer. Models that learned from whole conversations end it as a message there."""
        self._leaves_calls = leaves_calls
        self.recipient: str | None = None
        """The tool that the current message is to, if it is left out."""
        thought, answer = Thought.of(begun) if begun else (None, None)
        self._header: list[str] | None = None if begun else [_ASSISTANT]  # the texts between marks; None in a message
        self._thinks = thought is not None and answer is None
        self._answers = answer is not None

    def text(self, text: str) -> str:
        """Read text between control tokens. Returns what becomes certain of the reply."""
        if self._header is None:
            return text if self.recipient is None else ""
        self._header[-1] += text
        return self._spoken() if len("".join(self._header)) > _MAX_HEADER else ""

    def mark(self, mark: str) -> str:
        """Read a control token of the format, one of MARKS; see `text`."""
        if mark != MESSAGE:
            self.recipient = None
        if mark in (END, CALL, RETURN):
            return self._end(mark)
        if mark == START:
            said, self._header = self._left(), [""]
            return said
        if mark == MESSAGE:
            return self._begin() if self._header is not None else ""
        if self._header is None:
            self._header = [_ASSISTANT]
        if mark == CHANNEL:
            self._header.append("")
        else:
            self._header[-1] += " "
        return ""

    def flush(self) -> str:
        """The rest of a reply that was cut off."""
        return self._left()

    def _end(self, mark: str) -> str:
        said = self._left()
        self._header = [""]
        if mark == END:
            self.ended = self._answers
            return said
        closing = CLOSING.rstrip() if self._thinks else ""
        self._thinks = False
        return said + closing

    def _left(self) -> str:
        """The text of a header without a channel that no message follows: a model without the format said it."""
        header = self._header
        if header is None or len(header) > 1 or header[0].strip() in ("", _ASSISTANT):
            return ""
        return self._spoken()

    def _spoken(self) -> str:
        """Read the header as the text of an answer."""
        assert self._header is not None
        text = " ".join(self._header).removeprefix(_ASSISTANT)
        return self._open_answer() + text

    def _begin(self) -> str:
        """Begin the message that the header describes."""
        assert self._header is not None
        role, channel = self._header[0].split()[:1], (self._header[-1].split() if len(self._header) > 1 else [])
        recipient = _RECIPIENT.search(" ".join(self._header))
        is_own = role in ([], [_ASSISTANT])
        if is_own and channel[:1] in ([], [_FINAL]) and not recipient:
            return self._open_answer()
        if is_own and recipient and self._leaves_calls:
            self._header, self.recipient = None, recipient[1]
            return ""
        name = recipient[1] if recipient and is_own else "" if is_own else role[0]
        return self._open_thought() + (f"{name}: " if name else "")

    def _open_answer(self) -> str:
        opening = CLOSING if self._thinks else _BETWEEN if self._answers else ""
        self._header, self._thinks, self._answers = None, False, True
        return opening

    def _open_thought(self) -> str:
        opening = _BETWEEN if self._thinks or self._answers else OPENING
        self._header, self._thinks = None, not self._answers
        return opening
