"""Messages of a conversation with calls of tools, as OpenAI's API has them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.text.conversation import Message
from edgellm.text.reply_format import ReplyReader
from edgellm.tools.collector import CallCollector

Results = Mapping[str, object] | Sequence[object]
"""Results of calls: by the ids of the calls, or in their order."""


def reply_message(text: str, reader: ReplyReader | None) -> dict[str, Any]:
    """The message of a reply. A call that does not parse is text of it, so that nothing of the reply is lost."""
    if not isinstance(reader, CallCollector):
        return {"role": "assistant", "content": text}
    text += "".join(broken.text for broken in reader.broken)
    if not reader.calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": [call.as_message() for call in reader.calls]}


def result_messages(messages: Sequence[Message], results: Results) -> list[dict[str, Any]]:
    """The messages that have the results of the calls which wait for one at the end of a conversation.

    A result is text, or a value that becomes JSON. Raises EdgeLLMError, in one line, unless each call gets one result.
    """
    calls, is_open = _open_calls(messages)
    if not is_open:
        raise EdgeLLMError("no call waits for a result: the last message is neither a reply with calls nor a result")
    if isinstance(results, Mapping):
        values = _by_id(calls, results)
    elif isinstance(results, str | bytes) or not isinstance(results, Sequence):
        kind = printable(type(results).__name__)
        raise EdgeLLMError(f"results are a value of type {kind}; give a list, or a mapping of ids to results")
    elif len(results) != len(calls):
        raise EdgeLLMError(f"there are {len(results)} results, but {len(calls)} calls wait for one: {_named(calls)}")
    else:
        values = list(results)
    return [
        result_message(call.get("id"), call["function"]["name"], value_text(value))
        for call, value in zip(calls, values, strict=True)
    ]


def result_message(call_id: str | None, name: str, result: str) -> dict[str, Any]:
    """The message that has the result of a call of the tool `name`."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": result}


def value_text(result: object) -> str:
    """A result as text: text as it is, other values as JSON, and those that JSON has none of as Python prints them."""
    if isinstance(result, str):
        return str(result)
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)


def _open_calls(messages: Sequence[Message]) -> tuple[list[Message], bool]:
    """The calls that have no result yet, and whether a conversation ends with calls, or with results."""
    at = next((i for i in reversed(range(len(messages))) if messages[i]["role"] != "tool"), -1)
    calls = messages[at].get("tool_calls") or () if at >= 0 else ()
    answered = {message.get("tool_call_id") for message in messages[at + 1 :]}
    return [call for call in calls if call.get("id") not in answered], bool(calls)


def _by_id(calls: Sequence[Message], results: Mapping[str, object]) -> list[object]:
    """The results in the order of the calls. Raises EdgeLLMError for one without a call, and a call without one."""
    ids = [call.get("id") for call in calls]
    if unknown := [str(key) for key in results if key not in ids]:
        raise EdgeLLMError(f"no call {printable(unknown[0])} waits for a result; those that do: {_named(calls)}")
    if missing := [call for call in calls if call.get("id") not in results]:
        raise EdgeLLMError(f"a result is missing for {_named(missing)}; give one for each call")
    return [results[str(each)] for each in ids]


def _named(calls: Sequence[Message]) -> str:
    """Calls for a message of an error: ids and tools."""
    return ", ".join(f"{printable(str(call.get('id')))} ({call['function']['name']})" for call in calls) or "none"
