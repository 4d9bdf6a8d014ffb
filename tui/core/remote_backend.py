"""Models of a server for the chat. What sends requests is imported only when a model is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from edgellm.errors import EdgeLLMError
from tui.core.backend import SeveralModelsError
from tui.core.continued_reply import ContinuedReply

if TYPE_CHECKING:
    from edgellm.remote.address import ServerAddress
    from edgellm.remote.model import RemoteModel, RemoteServer
    from edgellm.text.inspection import Inspection
    from tui.core.backend import Messages, OpenModel, Options, ReplyStream, Report

_COUNTS = "only the server counts tokens: the figures of a reply say how many its prompt had"


class RemoteChatModel:
    """An OpenModel of a server. Its name has the host, so that it is not that of a model of this machine."""

    threads = 0
    thinking = effort = calls = True
    """Which of these a model can do the server does not tell; it refuses what it does not know."""

    counts = False
    drafter = ""
    defaults: Mapping[str, Any] = {}
    devices: list[dict[str, Any]] = []  # noqa: RUF012
    weights_in_memory = (None, 0)

    def __init__(self, model: RemoteModel, path: str) -> None:
        self._model, self.path, self.ctx, self.continues = model, path, model.ctx, model.continues
        self.name = title_of(model.name, model.host)

    def reply(self, messages: Messages, options: Mapping[str, Any], begun: str) -> ReplyStream:
        """Begin a reply, or continue the text `begun`. Raises EdgeLLMError."""
        reply = self._model.reply(messages, options, begun)
        return ContinuedReply(begun, reply) if begun else reply

    def cancel(self) -> None:
        """Nothing: `reply` returns at once, and its stream is cancelled."""

    def inspect(self, messages: Messages, options: Mapping[str, Any]) -> Inspection:
        """Raises EdgeLLMError: a server does not show the prompt."""
        raise EdgeLLMError("the server makes the prompt, and does not show it; /export has the messages")

    def count(self, messages: Messages, options: Mapping[str, Any]) -> int:
        """Raises EdgeLLMError."""
        raise EdgeLLMError(_COUNTS)

    def count_text(self, text: str) -> int:
        """Raises EdgeLLMError."""
        raise EdgeLLMError(_COUNTS)

    def close(self) -> None:
        """Nothing: each request has a connection of its own."""


class RemoteBackend:
    """The Backend of a server. `key` is sent to that server alone, and is stored nowhere."""

    def __init__(self, address: ServerAddress, key: str | None) -> None:
        self._address, self._key = address, key
        self.server = address.host

    @cached_property
    def _remote(self) -> RemoteServer:
        """The server. Raises EdgeLLMError if the environment has an invalid proxy or certificate."""
        from edgellm.remote.model import RemoteServer

        return RemoteServer(self._address, self._key)

    def reference(self, model: str) -> str:
        """The address and the name of a model; an empty name means the only model."""
        return model if self.owns(model) else f"{self._address.reference}{model}"

    def title(self, reference: str) -> str:
        """The name of the model, and the host."""
        name = reference.removeprefix(self._address.reference)
        return title_of(name, self.server) if name else self.server

    def owns(self, model: str) -> bool:
        """Whether this is a reference to a model of this server."""
        return model.startswith(self._address.reference)

    def _opened(self, reference: str) -> RemoteModel:
        from edgellm.remote.listing import UnnamedModelError

        try:
            return self._remote.model(reference.removeprefix(self._address.reference))
        except UnnamedModelError as error:
            raise SeveralModelsError(str(error)) from error

    def open(self, model: str, options: Options, report: Report) -> OpenModel:
        """Ask the server for a model. Raises EdgeLLMError."""
        report(f"connecting to {self.server}")
        found = self._opened(model)
        return RemoteChatModel(found, self.reference(found.name))

    def check(self, model: str, options: Options) -> None:
        """Ask the server for a model. Raises EdgeLLMError."""
        self._opened(model)

    def names(self) -> Sequence[str]:
        """The names of the models that the server lists. Raises EdgeLLMError, also while it does not answer."""
        return [model.name for model in self._remote.models()]


def title_of(model: str, host: str) -> str:
    """What people call a model of a server."""
    return f"{model} at {host}"
