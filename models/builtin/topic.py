"""The topics: questions in many forms, and the answer to each."""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("term", "task", "why", "ability", "feature", "ask", "plain")
"""The kinds of forms: a term to explain, a task, a fact to give the reason for, an ability or feature of the program,
a whole question, a plain statement."""


@dataclass(frozen=True)
class Topic:
    """The answer `say`, a phrase that every correct answer has (`expect`), and forms of the question by kind."""

    name: str
    say: str
    expect: str
    forms: dict[str, list[str]]


def read_topics() -> list[Topic]:
    """All topics, in the order of file names.

    A file has blocks: `## name`, then `say:`, `expect:` and lines of forms, separated by ` ; `. In a form, (a|b)
    means one of a and b, and {word} one word of a list in words/words.txt.
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
    """The lists in a file by name; a line is `name: one | another`."""
    lines = (line.split(": ", 1) for line in read_lines(name) if line[0] != "#")
    return {key: words.split(" | ") for key, words in lines}


def read_lines(name: str) -> list[str]:
    """The lines of a file in the folder words."""
    return (HERE / "words" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
