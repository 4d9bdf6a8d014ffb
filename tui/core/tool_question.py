"""The question to the user before a call of a tool runs, and the answers to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from edgellm.tools.calls import ToolCall

if TYPE_CHECKING:
    from edgellm.tools.tool import Tool


class Answer(Enum):
    """What the user says to a call: run it once, run this tool without a question from now on, or do not run it."""

    ONCE = "once"
    ALWAYS = "always"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for an answer. `tool` is what would run, and `text` says exactly what that is."""

    call: ToolCall
    tool: Tool
    text: str
