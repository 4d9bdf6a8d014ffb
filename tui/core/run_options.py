"""The options of the command line, for one run: none of them is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`options` are fields of `LoadOptions`, `GenerationOptions`, `ChatOptions` and `TemplateOptions`.

    `template_args` are variables for the chat template. `system` is the system prompt of the chats that begin in this
    run, and of the chat that it resumes. `message` is sent first.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    template_args: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    message: str = ""


NO_RUN_OPTIONS = RunOptions()
