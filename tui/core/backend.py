"""The interfaces through which the worker opens and calls models.

`tui.core.edge_backend` implements them for models of this machine, `tui.core.remote_backend` for those of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgellm.errors import EdgeLLMError

if TYPE_CHECKING:
    from edgellm.generate.stats import Live, Stats
    from edgellm.text.inspection import Inspection
    from edgellm.tools.calls import BrokenCall, ToolCall

Messages = Sequence[Mapping[str, Any]]
"""A conversation as `edgellm.chat.Chat` takes it: `role` and `content`, the system prompt first; calls and results."""

Report = Callable[[str], None]
"""Takes a few words about the progress of loading. Raises an exception to end the loading."""

Options = Callable[[str, str], Mapping[str, Any]]
"""Returns the fields of `LoadOptions` and `TemplateOptions` for a model, given its name in lists and its path."""


class SeveralModelsError(EdgeLLMError):
    """No model of a server was named, and it has several to choose from."""


class NoTemplateError(EdgeLLMError):
    """A model has no chat template; it opens once the setting `template` names one."""


class ReplyStream(Protocol):
    """A reply; iterating over it writes it.

    `edgellm.generate.generation.Generation` is one, and `edgellm.remote.reply.RemoteReply`.
    """

    @property
    def text(self) -> str:
        """The text so far."""

    @property
    def finish_reason(self) -> str | None:
        """Why the reply ended; None before its end."""

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls of tools so far, which are no part of the text."""

    @property
    def broken_calls(self) -> Sequence[BrokenCall]:
        """The calls so far that do not parse."""

    @property
    def dropped_tokens(self) -> int:
        """The tokens of the conversation that the model did not see."""

    @property
    def dropped_messages(self) -> int:
        """The messages that the model did not see, from the first one on, the system prompt not counted."""

    @property
    def stats(self) -> Stats:
        """The figures so far."""

    def __iter__(self) -> Any: ...

    def live(self) -> Live:
        """The figures of this moment; from any thread."""

    def cancel(self) -> None:
        """End the reply; from any thread."""


class OpenModel(Protocol):
    """A model that is ready to reply.

    `ctx` is its context in tokens, 0 if a server does not tell. `thinking` is true if its template can switch thinking
    on and off, `effort` if it takes an effort of thinking, `calls` if it shows how the model calls tools. `counts`: it
    counts tokens and shows prompts. `continues`: it continues replies. `defaults` are the generation options for which
    its file brings values. `path` opens it again from any folder.
    """

    name: str
    path: str
    ctx: int
    threads: int
    thinking: bool
    effort: bool
    calls: bool
    counts: bool
    continues: bool
    defaults: Mapping[str, Any]

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The devices that compute now, as in `edgellm.generate.stats.Stats`."""

    @property
    def weights_in_memory(self) -> tuple[int | None, int]:
        """Bytes of the weights that are in memory now (None if unknown), and of all. May take 0.3 s."""

    @property
    def drafter(self) -> str:
        """The model or head that drafts now, in words; empty without one. Drafts from the text are always there."""

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> ReplyStream:
        """Begin a reply, or continue the text `begun`. Raises EdgeLLMError."""

    def cancel(self) -> None:
        """Make a `reply` that is making its prompt fail at once; from any thread."""

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Inspection:
        """The prompt of a conversation. Raises EdgeLLMError."""

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        """The number of tokens of a conversation. Raises EdgeLLMError."""

    def count_text(self, text: str) -> int:
        """The number of tokens of a text alone."""

    def close(self) -> None:
        """Release its memory and its file."""


class Backend(Protocol):
    """Finds models and opens them. `server` is the host whose models these are, empty for those of this machine."""

    server: str

    def reference(self, model: str) -> str:
        """What opens a model that the user names, from any folder: a path is absolute."""

    def title(self, reference: str) -> str:
        """What people call a model before it is open."""

    def owns(self, model: str) -> bool:
        """Whether a model that is stored with a chat is one of these: no chat leads to another server."""

    def open(self, model: str, options: Options, report: Report) -> OpenModel:
        """Open a model by its path or name. Raises EdgeLLMError, and whatever `report` raises."""

    def check(self, model: str, options: Options) -> None:
        """Check quickly whether `open` would work. Raises EdgeLLMError if it would not."""

    def names(self) -> Sequence[str]:
        """The names of the models on this machine, or of the server; may take long. Raises EdgeLLMError."""
