"""Asks the built-in model questions that it was not trained on, and counts the right answers.

    python models/builtin/check.py [MODEL.gguf]

held_out.json holds the questions, each with a phrase that every right answer contains. They were written by somebody
who knew the topics and their answers, but none of the phrasings of the recipe.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from edgellm import Model, builtin

HELD_OUT = Path(__file__).parent / "held_out.json"


class Answer(NamedTuple):
    """What the model said to a question, and what it should have said."""

    question: str
    expected: str
    text: str

    @property
    def right(self) -> bool:
        """Whether the phrase is in the answer; capitals do not matter."""
        return self.expected.casefold() in self.text.casefold()


def answers(path: Path) -> list[Answer]:
    """The model's answers to all questions, each in a chat of its own, the likeliest token always."""
    asked = json.loads(HELD_OUT.read_text(encoding="utf-8"))
    with Model.open(path) as model:
        replies = [model.chat(temp=0, max_tokens=100).send(each["question"]).text for each in asked]
    return [Answer(each["question"], each["expected"], text) for each, text in zip(asked, replies, strict=True)]


def main() -> None:
    """Print every wrong answer, and the score."""
    found = answers(Path(sys.argv[1]) if len(sys.argv) > 1 else builtin.PATH)
    for answer in found:
        if not answer.right:
            print(f"{answer.question}\n  expected: {answer.expected}\n  said: {answer.text}")
    print(f"{sum(answer.right for answer in found)} of {len(found)} are right")


if __name__ == "__main__":
    main()
