"""The views of the screen as lines for `--plain`."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size, table
from tui.commands import COMMANDS, OTHER_NAMES
from tui.core.call_results import call_results
from tui.core.call_texts import result_summary, summary
from tui.core.controller import ChatController
from tui.core.conversation import Conversation
from tui.core.display_names import display_name
from tui.core.error_text import error_line
from tui.core.memory import memory
from tui.core.titles import one_line
from tui.core.tree import Message
from tui.instruments.metric_row import TextValue
from tui.instruments.metric_values import metric_values
from tui.instruments.metrics import SECTIONS
from tui.instruments.numbers import UNKNOWN
from tui.instruments.reply_stats import reply_stats_line

if TYPE_CHECKING:
    from edgellm.text.inspection import Inspection


def _help(_: ChatController) -> Iterator[str]:
    """The commands, and how to type messages."""
    yield from table(("command", ""), ((f"/{c.name} {c.argument}".rstrip(), c.help) for c in COMMANDS.values()))
    yield ""
    yield OTHER_NAMES
    yield 'A message is one line; several lines stand between two lines of """. Ctrl-C stops a reply, or'
    yield "drops what you have typed; where nothing is typed it leaves, as Ctrl-D does."


def _settings(controller: ChatController) -> Iterator[str]:
    """The settings of the model in use."""
    model = controller.model
    yield from table(("setting", "value", ""), ((s.name, model.value(s.name), s.help) for s in model.settable))


def _chats(controller: ChatController) -> Iterator[str]:
    """The stored chats, with the number by which /chats opens one."""
    rows = (
        (str(row.id), f"{datetime.fromtimestamp(row.updated):%Y-%m-%d %H:%M}", str(row.messages), one_line(row.title))
        for row in controller.chats.list()
    )
    yield from table(("number", "last used", "messages", "title"), rows)


def _models(controller: ChatController) -> Iterator[str]:
    """The models on this machine, or of the server."""
    if controller.model.server:
        try:
            yield from table(("name",), ((name,) for name in controller.worker.backend.names()))
        except EdgeLLMError as error:
            yield error_line(error)
        return
    from edgellm.models import find_models

    rows = (
        (printable(m.name), size(m.bytes or 0), m.quantization or "", printable(m.problem or "", 200))
        for m in find_models()
        if not m.is_auxiliary
    )
    yield from table(("name", "size", "type", ""), rows)


def _stats(controller: ChatController) -> Iterator[str]:
    """The line of the last reply, and below it the figures of the panel."""
    last = next((m for m in reversed(controller.conversation.path) if m.stats), None)
    yield reply_stats_line(last.stats or {}, last.finish_reason, last.dropped_tokens) if last else "no reply yet"
    known = metric_values(controller.status.activity(), memory())
    labels = {entry.name: entry.label for entries in SECTIONS.values() for entry in entries if entry.label}
    figures = (
        (label, value.text.strip()) for name, label in labels.items() if isinstance(value := known[name], TextValue)
    )
    yield from table(("figure", ""), (figure for figure in figures if figure[1] != UNKNOWN))


def place_lines(conversation: Conversation) -> Iterator[str]:
    """The title of a conversation, and its last two messages."""
    path = conversation.path
    yield f"{conversation.chat.title or 'an empty chat'}, {len(path)} messages" if path else "a new chat"
    calls = call_results(path).calls
    for message in path[-2:]:
        if call := calls.get(message.id):
            yield result_summary(call, message.text)
        else:
            yield from message_lines(conversation, message)


def message_lines(conversation: Conversation, message: Message) -> Iterator[str]:
    """Who wrote a message, which of several versions it is, and its text."""
    versions = conversation.chat.tree.versions(message.id)
    number = f" ({versions.index(message.id) + 1} of {len(versions)})" if len(versions) > 1 else ""
    name = "you" if message.role == "user" else display_name(message.model or message.name or message.role)
    yield f"{name}{number}: {message.text}"
    yield from (f"calls {summary(call)}" for call in message.tool_calls)


def inspection_lines(inspection: "Inspection") -> Iterator[str]:
    """The prompt as the model gets it: text, tokens, and warnings."""
    yield inspection.text
    yield ""
    yield f"{len(inspection.ids):,} tokens: {' '.join(map(str, inspection.ids))}"
    yield from (f"warning: {warning}" for warning in inspection.warnings)


VIEWS: Mapping[str, Callable[[ChatController], Iterator[str]]] = {
    "help": _help,
    "settings": _settings,
    "chats": _chats,
    "models": _models,
    "stats": _stats,
}
"""The views, by the names that commands have for them."""
