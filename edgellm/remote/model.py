"""A model of a server: it continues text and replies to conversations, as `Model` and `Chat` do on this machine."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from edgellm.remote.address import ServerAddress
from edgellm.remote.answer import answer_parts
from edgellm.remote.client import ServerClient, is_openai
from edgellm.remote.dialects import dialect_of
from edgellm.remote.failures import ServerError, StatusError, without_key
from edgellm.remote.listing import ListedModel, chosen_model, listed_models
from edgellm.remote.parts import AnswerPart
from edgellm.remote.reply import RemoteReply
from edgellm.remote.requests import RequestOptions, chat_body, completion_body
from edgellm.system.http import RequestConnection

_USAGE = "stream_options"


class RemoteServer:
    """A server with OpenAI's API. `key` is sent to it with each request, and nowhere else."""

    def __init__(self, address: ServerAddress, key: str | None = None) -> None:
        self.address = address
        self._client = ServerClient(address, key)

    def models(self) -> list[ListedModel]:
        """The models that it lists; none if it has no such list. Raises ServerError."""
        try:
            return listed_models(self._client.get("models"), self.address.host)
        except StatusError as error:
            if error.status in (404, 405, 501):
                return []
            raise

    def model(self, name: str = "") -> "RemoteModel":
        """The model of a name, or the only one. Raises ServerError."""
        return RemoteModel(self._client, chosen_model(self.models(), name, self.address.host))


class RemoteModel:
    """One model of a server. `name` is its name there, `ctx` its context in tokens, 0 if the server does not tell."""

    def __init__(self, client: ServerClient, listed: ListedModel) -> None:
        self._client, self.name, self.ctx = client, listed.name, listed.ctx
        self.host = client.address.host
        self._dialect = dialect_of(listed.owner, is_openai(client.address))
        self._tells_usage = True

    def complete(self, prompt: str, options: Mapping[str, Any]) -> RemoteReply:
        """The continuation of plain text. Raises OptionError; errors of the server come with the first piece."""
        chosen = RequestOptions(options)
        return self._reply("completions", completion_body(prompt, chosen, self._dialect), chosen)

    @property
    def continues(self) -> bool:
        """Whether the server is known to continue replies that were begun."""
        return self._dialect.continuing is not None

    def reply(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any], begun: str = "") -> RemoteReply:
        """The reply to a conversation, with the options of `edgellm.chat.Chat.reply` that are given.

        The server continues `begun`, and the text of the reply is the continuation. Raises OptionError; errors of the
        server come with the first piece.
        """
        chosen = RequestOptions(options)
        body = chat_body(messages, chosen, self._dialect, begun)
        first = sum(len(message.get("tool_calls") or ()) for message in messages)
        return self._reply("chat/completions", body, chosen, first)

    def _reply(self, route: str, body: Mapping[str, Any], options: RequestOptions, first: int = 0) -> RemoteReply:
        whole = {"model": self.name, **body, "stream": True}
        return RemoteReply(lambda connection: self._sent(route, whole, connection), self.host, options, first)

    @contextmanager
    def _sent(
        self, route: str, body: Mapping[str, Any], connection: RequestConnection
    ) -> Iterator[Iterator[AnswerPart]]:
        """The parts of the answer to a request. Raises ServerError, also while they come, without the key."""
        try:
            with self._post(route, body, connection) as (kind, chunks):
                yield answer_parts(kind, chunks, self.host)
        except ServerError as error:
            raise ServerError(without_key(str(error), self._client.key)) from error

    @contextmanager
    def _post(
        self, route: str, body: Mapping[str, Any], connection: RequestConnection
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The answer to a request. A server that does not know `stream_options` is asked again without it."""
        with ExitStack() as stack:
            usage = {_USAGE: {"include_usage": True}} if self._tells_usage else {}
            try:
                answer = stack.enter_context(self._client.post(route, {**body, **usage}, connection))
            except StatusError as error:
                if not (usage and _USAGE in error.problem):
                    raise
                self._tells_usage = False
                answer = stack.enter_context(self._client.post(route, body, connection))
            yield answer
