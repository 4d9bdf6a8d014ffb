"""Asks the built-in model questions that it was not trained on, and counts correct answers.

    python models/builtin/check.py [MODEL.gguf]

held_out.json and first_messages.json have the questions, each with a phrase that every correct answer contains; the
README says how they were written.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from edgellm import Model, builtin

LISTS = ("held_out", "first_messages")


class CheckedAnswer(NamedTuple):
    """A question, the expected phrase, and the model's answer."""

    question: str
    expected: str
    text: str

    @property
    def right(self) -> bool:
        """Whether the answer contains the phrase, ignoring case."""
        return self.expected.casefold() in self.text.casefold()


def answers(path: Path, name: str) -> list[CheckedAnswer]:
    """The model's answers to the questions of a list, each in a new chat, with greedy decoding."""
    asked = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    with Model.open(path) as model:
        replies = [model.chat(temp=0, max_tokens=100).send(each["question"]).text for each in asked]
    return [CheckedAnswer(each["question"], each["expected"], text) for each, text in zip(asked, replies, strict=True)]


def main() -> None:
    """Print every wrong answer, and the score of each list."""
    for name in LISTS:
        found = answers(Path(sys.argv[1]) if len(sys.argv) > 1 else builtin.PATH, name)
        for answer in found:
            if not answer.right:
                print(f"{answer.question}\n  expected: {answer.expected}\n  said: {answer.text}")
        print(f"{name}: {sum(answer.right for answer in found)} of {len(found)} are right")


if __name__ == "__main__":
    main()
