"""Whole answers of /v1/messages, and its events."""

from collections.abc import Iterator
from typing import Any

from edgellm.server.asked import OneReply, Stamp
from edgellm.server.blocks import BlockKind, Change, ReplyBlock, ReplyBlocks, Step
from edgellm.server.events import Event, ReplyBegun, ReplyEnd, ReplyPart

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class MessageMaker(OneReply):
    """Makes one answer. `stops` are the stop strings that the request has."""

    def __init__(self, model: str, stamp: Stamp, stops: list[str]) -> None:
        self._model, self._stops, self._id = model, stops, stamp.new_id("msg_")
        self._blocks = ReplyBlocks()

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields the events of a stream."""
        if isinstance(event, ReplyBegun):
            yield {"type": "message_start", "message": self._message([], None) | {"usage": _usage(None)}}
        if isinstance(event, ReplyPart):
            yield from map(_event, self._blocks.add(event))
        if isinstance(event, ReplyEnd):
            self._end = event
            yield from map(_event, self._blocks.close())
            stop = {key: self._message([], event)[key] for key in ("stop_reason", "stop_sequence")}
            yield {"type": "message_delta", "delta": stop, "usage": _usage(event)}
            yield {"type": "message_stop"}

    def whole(self) -> dict[str, Any]:
        """The whole answer."""
        content = [_content(block, whole=True) for block in self._blocks.all]
        return self._message(content, self._end) | {"usage": _usage(self._end)}

    def _message(self, content: list[dict[str, Any]], end: ReplyEnd | None) -> dict[str, Any]:
        found = {"id": self._id, "type": "message", "role": "assistant", "model": self._model, "content": content}
        if end is None:
            return found | {"stop_reason": None, "stop_sequence": None}
        if end.stop_string:  # a Generation does not tell which of several stop strings it was
            only = self._stops[0] if len(self._stops) == 1 else None
            return found | {"stop_reason": "stop_sequence", "stop_sequence": only}
        return found | {"stop_reason": _REASONS[end.reason], "stop_sequence": None}


def _event(step: Step) -> dict[str, Any]:
    index = step.block.index
    if step.change is Change.OPENED:
        return {"type": "content_block_start", "index": index, "content_block": _content(step.block, whole=False)}
    if step.change is Change.CLOSED:
        return {"type": "content_block_stop", "index": index}
    kind, key = {
        BlockKind.THOUGHT: ("thinking_delta", "thinking"),
        BlockKind.TEXT: ("text_delta", "text"),
        BlockKind.CALL: ("input_json_delta", "partial_json"),
    }[step.block.kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: step.added}}


def _content(block: ReplyBlock, whole: bool) -> dict[str, Any]:
    """A block; as it is opened, or whole."""
    text = block.text if whole else ""
    if block.kind is BlockKind.THOUGHT:
        return {"type": "thinking", "thinking": text, "signature": ""}
    if block.call is None:
        return {"type": "text", "text": text}
    arguments = dict(block.call.arguments) if whole else {}
    return {"type": "tool_use", "id": block.call.id, "name": block.call.name, "input": arguments}


def _usage(end: ReplyEnd | None) -> dict[str, int]:
    """The tokens; those of the prompt are counted apart from those that the cache held."""
    if end is None:
        return {"input_tokens": 0, "output_tokens": 0}
    stats = end.stats
    return {
        "input_tokens": stats.prompt_tokens - stats.cached_tokens,
        "cache_read_input_tokens": stats.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": stats.generated_tokens,
    }
