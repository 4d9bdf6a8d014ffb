"""A message in the transcript."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """A message. `text` is as written, including a model's `<think>...</think>`.

    `role` is `user`, `assistant`, `system` or `tool`; a reply is Markdown, other texts are shown as written.
    `stats` is a line of statistics below a reply. With several `versions`, the heading shows `version`, counted
    from 1. An `unseen` message was not in the context of the last reply, and is dimmed. A `running` reply streams now.
    `calls` are calls of tools, as a summary of one line and the details that it stands for: those of a reply that have
    no result, or the one that a message of the role `tool` is the result of.
    """

    key: int
    role: str
    text: str
    stats: str = ""
    version: int = 1
    versions: int = 1
    unseen: bool = False
    running: bool = False
    title: str = ""
    calls: tuple[tuple[str, str], ...] = ()
