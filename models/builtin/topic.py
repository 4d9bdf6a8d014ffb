"""The topics: what people ask, in many forms, and the one right answer to each."""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("term", "task", "why", "ability", "feature", "ask", "plain")
"""A term to explain, something to do, a fact to give the reason of, what the program can do or has, whole questions,
and things said plainly."""


@dataclass(frozen=True)
class Topic:
    """An answer, a phrase that every right answer has, and forms of what is asked, by their kind."""

    name: str
    say: str
    expect: str
    forms: dict[str, list[str]]


def read_topics() -> list[Topic]:
    """All topics, in the order of the files' names.

    A file holds blocks: `## name`, then `say:`, `expect:` and lines of forms, which ` ; ` parts. In a form
    (a|b) is one of a and b, and {word} one of a list in words/words.txt.
    """
    topics = []
    for path in sorted((HERE / "topics").glob("*.txt")):
        topics += [_topic(block) for block in path.read_text(encoding="utf-8").split("## ")[1:]]
    return topics


def _topic(block: str) -> Topic:
    name, *lines = block.strip().splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    forms = {kind: fields[kind].split(" ; ") for kind in KINDS if kind in fields}
    assert fields["expect"] in fields["say"], name
    return Topic(name, fields["say"], fields["expect"], forms)


def read_lists(name: str) -> dict[str, list[str]]:
    """A file of lists by their names, `name: one | another`."""
    lines = (line.split(": ", 1) for line in read_lines(name) if line[0] != "#")
    return {key: words.split(" | ") for key, words in lines}


def read_lines(name: str) -> list[str]:
    """The lines of a file in the folder of words."""
    return (HERE / "words" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
