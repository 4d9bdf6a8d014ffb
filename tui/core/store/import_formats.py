"""Reads conversations of other programs: OpenAI's lists of messages, and ChatGPT's export.

All values are checked before use, and all lists are bounded. An image or other part that is no text becomes its type in
brackets; messages without text or calls of tools are left out.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from time import time
from typing import Any

from edgellm.tools.calls import ToolCall
from tui.core.store.records import SavedChat
from tui.core.store.validation import CALLS, InvalidError, tool_calls
from tui.core.tree import Message, Tree

_MAX_CHATS, _MAX_MESSAGES, _MAX_PARTS = 10_000, 100_000, 1000
_TITLE = 48
_ROLES = {"user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}
_SYSTEM_ROLES = ("system", "developer")
_LATEST = 4_102_444_800.0  # the year 2100
_HIDDEN_CONTENT = ("model_editable_context", "user_editable_context")


def parse_chats(value: Any) -> list[SavedChat] | None:
    """The chats in a JSON value, in its order; None if the value has neither of the two formats.

    Raises InvalidError if it is damaged or exceeds the bounds.
    """
    found = _conversations(value)
    if found is None:
        return None
    if len(found) > _MAX_CHATS:
        raise InvalidError(f"more than {_MAX_CHATS:,} conversations")
    chats = [
        _from_chatgpt(one) if "mapping" in one else _from_messages(one["messages"], one.get("title")) for one in found
    ]
    if not (chats := [chat for chat in chats if chat.tree.messages]):
        raise InvalidError("no message in it has a text")
    return chats


def parse_jsonl(text: str) -> Any:
    """The values of a JSONL text; None if a line is no JSON."""
    # JSON strings may contain the other separators of `splitlines`.
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        return [json.loads(line) for line in lines[: _MAX_MESSAGES + 1]]
    except (ValueError, RecursionError):
        return None


def _conversations(value: Any) -> list[Mapping[str, Any]] | None:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, dict) for one in values):
        return None
    if all("role" in one for one in values):
        return [{"messages": values}]
    known = all(isinstance(one.get("mapping"), dict) or isinstance(one.get("messages"), list) for one in values)
    return values if known and not any("format" in one for one in values) else None


def _from_messages(messages: list[Any], title: Any) -> SavedChat:
    """A chat from a list of messages. A system message at its beginning becomes the system prompt."""
    system, found = None, list[Message]()
    for place, message in enumerate(_bounded(messages), 1):
        role, text = _role(message, place), _text(message.get("content"))
        calls = tuple(_calls(message)) if role == "assistant" else ()
        if role == "system" and not found and system is None:
            system = text or None
        elif text or calls or role == "tool":
            parent = found[-1].id if found else None
            about: dict[str, Any] = {"tool_calls": calls, **_result_of(message, role)}
            found.append(Message(place, parent, role, text, time(), finish_reason=_reason(role, calls), **about))
    return SavedChat(0, _title(title, found), system, tree=Tree(found, found[-1].id if found else None))


def _bounded(messages: list[Any]) -> list[Any]:
    if len(messages) > _MAX_MESSAGES:
        raise InvalidError(f"more than {_MAX_MESSAGES:,} messages in one conversation")
    return messages


def _role(message: Any, place: int) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in (*_ROLES, *_SYSTEM_ROLES):
        raise InvalidError(f"message {place} has no role of user, assistant, system, developer or tool")
    return _ROLES.get(role, "system")


def _text(content: Any) -> str:
    """The text of a message, or the texts of its parts, separated by empty lines."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n\n".join(filter(None, map(_part, parts[:_MAX_PARTS])))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(text := part.get("text"), str):
        return text
    kind = part.get("type") or part.get("content_type")
    return f"[{kind[:40]}]" if isinstance(kind, str) else ""


def _reason(role: str, calls: tuple[ToolCall, ...] = ()) -> str | None:
    return ("tool_calls" if calls else "eog") if role == "assistant" else None


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """The calls of tools in a message, without those of other kinds, such as OpenAI's custom ones."""
    entries = message.get("tool_calls")
    for entry in entries[:_MAX_PARTS] if isinstance(entries, list) else ():
        with suppress(InvalidError):
            yield from tool_calls(CALLS([entry]))


def _result_of(message: Mapping[str, Any], role: str) -> dict[str, str | None]:
    """Which call a message of the role `tool` is the result of."""
    found = {name: message.get(name) if role == "tool" else None for name in ("name", "tool_call_id")}
    return {name: value if isinstance(value, str) else None for name, value in found.items()}


def _title(title: Any, messages: list[Message]) -> str:
    first = next((message.text for message in messages if message.role == "user"), "")
    words = " ".join(title.split())[:200] if isinstance(title, str) else ""
    return words or " ".join(first[:1000].split())[:_TITLE]


# ChatGPT's export: a tree of nodes by their ids, some of them without a message


def _from_chatgpt(conversation: Mapping[str, Any]) -> SavedChat:
    nodes = {name: node for name, node in conversation["mapping"].items() if isinstance(node, dict)}
    _bounded(list(nodes))
    tree, places, system = Tree(), dict[str, int | None](), None
    for name in _parents_first(nodes):
        parent = places.get(_parent(nodes[name]) or "")
        message = _message(nodes[name].get("message"), len(tree.messages) + 1, parent)
        places[name] = parent
        if message and message.role == "system":
            system = system or message.text
        elif message:
            tree.put(message)
            places[name] = message.id
    current = conversation.get("current_node")
    leaf = places.get(current) if isinstance(current, str) else None
    tree.show(leaf or max(tree.messages, default=None))
    return SavedChat(0, _title(conversation.get("title"), list(tree.messages.values())), system, tree=tree)


def _parent(node: Mapping[str, Any]) -> str | None:
    parent = node.get("parent")
    return parent if isinstance(parent, str) else None


def _parents_first(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The ids of the nodes, each after its parent. Nodes in a cycle, which no root leads to, are left out."""
    children: dict[str | None, list[str]] = {}
    for name, node in nodes.items():
        parent = _parent(node)
        children.setdefault(parent if parent in nodes else None, []).append(name)
    waiting = children.get(None, [])[::-1]
    while waiting:
        name = waiting.pop()
        yield name
        waiting += children.get(name, [])[::-1]


def _message(value: Any, number: int, parent: int | None) -> Message | None:
    """The message of a node; None if it has no text or is hidden from the user."""
    if not isinstance(value, dict) or not isinstance(author := value.get("author"), dict):
        return None
    content, about = value.get("content"), value.get("metadata")
    about = about if isinstance(about, dict) else {}
    role = author.get("role")
    if not isinstance(content, dict) or not isinstance(role, str) or role not in (*_ROLES, *_SYSTEM_ROLES):
        return None
    text = _text(content.get("parts") or content.get("text"))
    if (
        not text.strip()
        or content.get("content_type") in _HIDDEN_CONTENT
        or about.get("is_visually_hidden_from_conversation")
    ):
        return None
    role = _ROLES.get(role, "system")
    model = about.get("model_slug")
    name = model[:200] if role == "assistant" and isinstance(model, str) else None
    return Message(number, parent, role, text, _time(value.get("create_time")), name, _reason(role))


def _time(seconds: Any) -> float:
    known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < _LATEST
    return float(seconds) if known else time()
