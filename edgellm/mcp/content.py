"""Results of tools of MCP servers as text."""

import json
from typing import Any

from mcp import types

from edgellm.fmt import printable, shown_path, size
from edgellm.tools.results import result_text


def content_text(result: types.CallToolResult) -> str:
    """The parts of a result: texts as they are, others named; an error of the tool begins with "error: "."""
    parts = [_part_text(part) for part in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts)
    shown = result_text(text, len(text.encode(errors="replace")))
    return f"error: {shown or 'the tool failed'}" if result.is_error else shown


def _part_text(part: Any) -> str:
    if isinstance(part, types.TextContent):
        return str(part.text)
    if isinstance(part, types.ResourceLink):
        return f"[link to {shown_path(part.uri)}]"
    if isinstance(part, types.EmbeddedResource):
        if isinstance(part.resource, types.TextResourceContents):
            return str(part.resource.text)
        return _left_out("resource", part.resource.blob)
    return _left_out(printable(str(part.type)), getattr(part, "data", ""))


def _left_out(kind: str, base64: str) -> str:
    """A note in place of a part that is no text, such as `[image, 12 kB, not shown]`."""
    return f"[{kind}, {size(len(base64) * 3 // 4)}, not shown]"
