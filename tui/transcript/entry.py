"""What the transcript shows of a message."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One message as shown. `text` is as written, a model's `<think>...</think>` included.

    `role` is `user`, `assistant`, `system` or `tool`; a reply is Markdown, all else is shown as it was written.
    `figures` is one line under a reply. Where there are several `versions`, the heading names the one shown, counted
    from 1. An `unseen` message, which the last reply did not see, is dimmed. `running` is the reply that streams now.
    """

    key: int
    role: str
    text: str
    figures: str = ""
    version: int = 1
    versions: int = 1
    unseen: bool = False
    running: bool = False
    title: str = ""
