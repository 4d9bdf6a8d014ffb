"""What a reply holds beside its text: calls of tools, and calls that do not parse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ID_LENGTH = 9
"""Characters of the id of a call: templates of Mistral accept ids of nine letters and digits alone."""

REFUSED = "error: the user refused this call"
"""The result of a call that the user refused."""


@dataclass(frozen=True)
class ToolCall:
    """A call of the tool `name`. `arguments` are JSON values by name; `id` tells the calls of a conversation apart."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def as_message(self) -> dict[str, Any]:
        """The call as an entry of `tool_calls` in an assistant message."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": dict(self.arguments)}}


@dataclass(frozen=True)
class BrokenCall:
    """A call that does not parse: its text as the model wrote it, and what is wrong, as words for people."""

    text: str
    problem: str


Event = str | ToolCall | BrokenCall
"""What a reader of calls gives: text of the reply, a call, or a call that does not parse."""


def call_id(number: int) -> str:
    """The id of call `number` of a conversation."""
    return f"call{number:0{ID_LENGTH - 4}}"
