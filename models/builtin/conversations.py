"""The training texts: conversations, raw questions with answers, and simple stories."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Tokenizer

from phrasings import Asker
from topic import read_lines, read_lists, read_topics

START, END = "<|im_start|>", "<|im_end|>"
WEIGHTS = {
    "out-of-domain": 14.0,
    "more": 0.5,
    "hello": 8.0,
    "arithmetic": 5.0,
    "systems": 4.0,
    **dict.fromkeys(("gpu", "images", "audio", "training", "internet", "supported", "what-can-you-do"), 2.0),
    **dict.fromkeys(("install", "privacy", "quantization", "pdf", "file-access", "licence", "memory-bound"), 2.0),
    **dict.fromkeys(("who-are-you", "server", "languages", "compliment", "maker", "quantize"), 1.5),
}
"""Sampling weights of topics; the others have 1. The topic `more` asks about what was said before."""


@dataclass(frozen=True)
class TrainingSpan:
    """A part of a text; the loss covers `learned` parts, the others are only context."""

    text: str
    learned: bool


class Conversations:
    """An endless sequence of training texts, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.asker = Asker(read_lists("words"), read_lists("patterns"), self.rng)
        self.topics = {topic.name: topic for topic in read_topics()}
        self.weights = [WEIGHTS.get(name, 1.0) for name in self.topics]
        self.systems, self.stories = read_lines("systems"), read_lines("stories")

    def __iter__(self) -> Iterator[list[TrainingSpan]]:
        while True:
            kind = self.rng.random()
            if kind < 0.04:
                yield [TrainingSpan(self.asker.fill(self.rng.choice(self.stories)) + END, True)]
            elif kind < 0.2:
                question, answer = self._turn()
                yield [TrainingSpan(question, False), TrainingSpan(f"\n{answer}{END}", True)]
            else:
                yield self._chat()

    def _turn(self, first: bool = True) -> tuple[str, str]:
        topic = self.topics[self.rng.choices(list(self.topics), self.weights)[0]]
        if not first and self.rng.random() < 0.1:
            topic = self.topics[self.rng.choice(["more", "thanks", "yes", "bye"])]
        return self.asker.ask(topic), topic.say

    def _chat(self) -> list[TrainingSpan]:
        """Messages in the chat template; most conversations are short, some have twelve turns."""
        turns = self.rng.choices([1, 2, 3, 4, 7, 12], [50, 18, 14, 10, 5, 3])[0]
        spans = []
        if self.rng.random() < 0.25:
            spans.append(TrainingSpan(_message("system", self.asker.fill(self.rng.choice(self.systems))), False))
        for turn in range(turns):
            question, answer = self._turn(first=turn == 0)
            spans.append(TrainingSpan(f"{_message('user', question)}{START}assistant\n", False))
            spans += [TrainingSpan(answer + END, True), TrainingSpan("\n", False)]
        return spans[:-1]


def _message(role: str, content: str) -> str:
    return f"{START}{role}\n{content}{END}\n"


def encoded(spans: list[TrainingSpan], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Token ids, and the next id for each as the target, -1 where it is not learned."""
    ids: list[int] = []
    targets: list[int] = []
    for span in spans:
        new = tokenizer.encode(span.text).ids
        ids += new
        targets += new if span.learned else [-1] * len(new)
    return ids[:-1], targets[1:]
