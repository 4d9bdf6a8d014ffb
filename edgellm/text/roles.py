"""Which message each character of a rendered conversation comes from.

Templates trim messages, cut thoughts out of them, or write them twice. So each word of a message gets a private
character on both sides, one for each message, and where these come out again is where the message went. Tags such as
</think> get none inside, since templates look for them.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.text.guard import unused_characters
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import Message

TEMPLATE = "template"
"""The role of what the template writes itself."""

_TAG = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_WORDS = re.compile(rf"{_TAG.pattern}|((?:(?!{_TAG.pattern})\S)+)")


def roles(prompts: ChatPrompts, messages: Sequence[Message], text: str, /, **args: Any) -> list[str] | None:
    """The role of each character of `text`, which is how the template renders these messages.

    White space around a message counts as the template's. None where that cannot be told: if the template does
    something else with a marked message, or writes parts of one several times.
    """
    marks = list(islice(unused_characters(prompts.template.source, messages, args), len(messages)))
    if len(marks) < len(messages):
        return None
    contents = [_marked(message["content"], mark) for message, mark in zip(messages, marks, strict=True)]
    marked = [{**message, "content": content} for message, content in zip(messages, contents, strict=True)]
    try:
        rendered = prompts.render(marked, **args).text
    except EdgeLLMError:
        return None
    places: dict[str, list[int]] = {mark: [] for mark in marks}
    for i, character in enumerate(rendered):
        if character in places:
            places[character].append(i)
    owners = [TEMPLATE] * len(rendered)
    for message, mark, content in zip(messages, marks, contents, strict=True):
        spans = _spans(rendered, places[mark], content.split(mark))
        if spans is None:
            return None
        for start, end in spans:
            owners[start:end] = [message["role"]] * (end - start)
    kept = [i for i, character in enumerate(rendered) if character not in places]
    return [owners[i] for i in kept] if "".join(rendered[i] for i in kept) == text else None


def _marked(content: str, mark: str) -> str:
    if any(found[1] for found in _WORDS.finditer(content)):
        return _WORDS.sub(lambda found: f"{mark}{found[0]}{mark}" if found[1] else found[0], content)
    core = content.strip()
    return content.replace(core, f"{mark}{core}{mark}", 1) if core else content


def _spans(rendered: str, places: list[int], segments: list[str]) -> list[tuple[int, int]] | None:
    """Where the message is whose marks are at `places`, with `segments` between them; None where that is not clear."""
    n = min(len(places), len(segments) - 1)
    if not n:
        return None if any(tag in rendered for tag in _TAG.findall("".join(segments))) else []
    if len(places) % n or n % 2:
        return None
    return [_grown(rendered, places[i], places[i + n - 1] + 1, segments, n) for i in range(0, len(places), n)]


def _grown(rendered: str, start: int, end: int, segments: list[str], n: int) -> tuple[int, int]:
    """The span from the first of `n` marks to the last, and the tags of the content around it."""
    last_word = rendered[start : end - 1].rsplit(rendered[start], 1)[-1]
    # Of a message that was cut, most often the end is left.
    before, after = (segments[-1 - n], segments[-1]) if last_word == segments[-2] else (segments[0], segments[n])
    backwards = _alike(reversed(rendered[max(0, start - len(before)) : start]), reversed(before))
    forwards = _alike(rendered[end : end + len(after)], after)
    tags_before = (len(before) - tag.start() for tag in _TAG.finditer(before))
    tags_after = (tag.end() for tag in _TAG.finditer(after))
    start -= max((length for length in tags_before if length <= backwards), default=0)
    return start, end + max((length for length in tags_after if length <= forwards), default=0)


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
