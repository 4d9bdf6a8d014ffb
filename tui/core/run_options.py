"""What the command line says for one run: none of it is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`options` are fields of `LoadOptions`, `GenerationOptions`, `ChatOptions` and `TemplateOptions`.

    `template_args` are names for the template. `system` is the system prompt of the chats that begin in this run, and
    of the one that it goes on with; `message` is what is said first.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    template_args: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    message: str = ""


NO_RUN_OPTIONS = RunOptions()
