"""Chats as files: Markdown to read, and JSON with all versions of all messages, which can be imported again."""

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.terminal.sanitize import escape_json, sanitize_for_file
from tui.core.call_texts import details, summary
from tui.core.files import fenced
from tui.core.store import validation
from tui.core.store.database import storable
from tui.core.store.import_formats import parse_chats, parse_jsonl
from tui.core.store.messages import as_json
from tui.core.store.records import SavedChat
from tui.core.store.store import Store
from tui.core.tree import Message, Tree

FORMAT = "edgellm-chat"
VERSION = 2
"""Version 2 has calls of tools and their results; a chat without them is written as version 1."""

OTHER_FORMATS = (".csv", ".docx", ".htm", ".html", ".jsonl", ".odt", ".pdf", ".rtf")
"""File name endings of formats that export does not write."""

_MAX_CHARACTERS = 100_000_000
"""Of a file to import."""

_MAX_TITLE = 200

_HEAD = validation.object_with(
    format=validation.one_of([FORMAT]),
    version=validation.COUNT,
    title=validation.TEXT,
    system=validation.optional(validation.TEXT),
    model=validation.optional(validation.TEXT),
    leaf=validation.optional(validation.COUNT),
    messages=validation.instance_of(list, "a list"),
)

_THINKING = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)


def to_markdown(chat: SavedChat) -> str:
    """The messages of the path as Markdown: roles are headings, thinking is folded, figures are a small line."""
    parts = [f"# {' '.join(chat.title.split()) or 'Chat'}"]
    if chat.system:
        parts += ["## System", _closed(chat.system)]
    for message in chat.tree.path():
        parts += [f"## {message.role.capitalize()}", *_body(message)]
        if line := _line(message):
            parts.append(f"<sub>{line}</sub>")
    return storable(sanitize_for_file("\n\n".join(parts)) + "\n")


def _body(message: Message) -> list[str]:
    if message.role == "tool":
        return [_folded(printable(message.name or "result"), fenced(message.text))]
    thinking = _THINKING.match(message.text) if message.role == "assistant" else None
    text = message.text[thinking.end() :] if thinking else message.text
    parts = [_folded("Thinking", _closed(thinking[1]))] if thinking else []
    return [*parts, _closed(text), *(_folded(summary(call), fenced(details(call))) for call in message.tool_calls)]


def _folded(heading: str, text: str) -> str:
    return f"<details><summary>{escape(heading)}</summary>\n\n{text}\n\n</details>"


def _closed(text: str) -> str:
    """A text with its last code block closed, so that the text after it is not part of the block."""
    opened = ""
    for fence, info in _FENCE.findall(text):
        if not opened:
            opened = fence
        elif fence.startswith(opened) and not info.strip():
            opened = ""
    return f"{text.strip()}\n{opened}" if opened else text.strip()


def _line(message: Message) -> str:
    """Model and figures of a reply."""
    stats: Mapping[str, Any] = message.stats or {}
    parts = [message.model or ""]
    parts += [f"{stats['generated_tokens']:,} tokens"] if "generated_tokens" in stats else []
    parts += [f"TTFT {stats['ttft_s']:.2f} s"] if stats.get("ttft_s") is not None else []
    parts += [f"{stats['decode_tps']:.1f} tokens/s"] if stats.get("decode_tps") is not None else []
    parts += [f"did not see {message.dropped_tokens:,} tokens"] if message.dropped_tokens else []
    parts += [message.finish_reason] if message.finish_reason in ("length", "cancelled", "error") else []
    return " · ".join(part for part in parts if part)


def to_json(chat: SavedChat) -> str:
    """All versions of all messages as JSON; `leaf` is the last message of the path."""
    messages = chat.tree.messages.values()
    version = VERSION if any(message.tool_calls or message.tool_call_id for message in messages) else 1
    head = {"format": FORMAT, "version": version, "title": chat.title, "system": chat.system, "model": chat.model}
    whole = {**head, "leaf": chat.tree.leaf, "messages": [as_json(message) for message in messages]}
    return escape_json(storable(json.dumps(whole, indent=1, ensure_ascii=False))) + "\n"


def from_json(store: Store, text: str) -> list[int]:
    """Store the chats of a text that `to_json` or another program wrote. Returns their ids in the order of the text.

    Raises EdgeLLMError, and stores nothing, if the text has another format.
    """
    try:
        return store.put_all(_chats(text))
    except validation.InvalidError as error:
        kinds = "a chat that edgellm exported, messages as OpenAI has them, or ChatGPT's conversations.json"
        raise EdgeLLMError(f"this is no file to import: {error}; give {kinds}") from None


def _chats(text: str) -> list[SavedChat]:
    if len(text) > _MAX_CHARACTERS:
        raise validation.InvalidError(f"more than {_MAX_CHARACTERS:,} characters")
    lines = parse_jsonl(text) if text.lstrip().startswith("{") and "\n{" in text.strip() else None
    value = _parsed(text) if lines is None else lines
    return parse_chats(value) or [_chat(value)]


def _chat(value: Any) -> SavedChat:
    found = _HEAD(value)
    if found["version"] > VERSION:
        raise EdgeLLMError(
            f"this chat has version {found['version']}, and this edgellm knows {VERSION}; update edgellm"
        )
    messages = validation.messages(found["messages"])
    leaf = found["leaf"]
    if leaf not in {message.id for message in messages} and (messages or leaf is not None):
        raise validation.InvalidError(f"leaf {leaf} is not among the messages")
    return SavedChat(
        0, " ".join(found["title"].split())[:_MAX_TITLE], found["system"], found["model"], Tree(messages, leaf)
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise validation.InvalidError(f"no JSON at line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        raise validation.InvalidError("no JSON of a chat") from None
