"""Messages of a conversation with calls of tools, as OpenAI's API has them."""

from typing import Any

from edgellm.text.reply_format import ReplyReader
from edgellm.tools.calls import ToolCall
from edgellm.tools.collector import CallCollector


def reply_message(text: str, reader: ReplyReader | None) -> dict[str, Any]:
    """The message of a reply. A call that does not parse is text of it, so that nothing of the reply is lost."""
    if not isinstance(reader, CallCollector):
        return {"role": "assistant", "content": text}
    text += "".join(broken.text for broken in reader.broken)
    if not reader.calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": [call.as_message() for call in reader.calls]}


def result_message(call: ToolCall, result: str) -> dict[str, Any]:
    """The message that has the result of a call."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result}
