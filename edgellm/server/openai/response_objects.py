"""Whole answers of /v1/responses, and its events."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgellm.server.asked import OneReply, Stamp
from edgellm.server.blocks import BlockKind, Change, ReplyBlock, ReplyBlocks, Step
from edgellm.server.events import Event, ReplyBegun, ReplyEnd, ReplyPart, ScoredToken
from edgellm.server.openai.replies import logprob_entry, usage

_PREFIXES = {BlockKind.THOUGHT: "rs_", BlockKind.TEXT: "msg_", BlockKind.CALL: "fc_"}
_DELTAS = {
    BlockKind.THOUGHT: "response.reasoning_text",
    BlockKind.TEXT: "response.output_text",
    BlockKind.CALL: "response.function_call_arguments",
}


class ResponseMaker(OneReply):
    """Makes one answer. `echoed` are fields of the request that the answer repeats."""

    def __init__(self, model: str, stamp: Stamp, echoed: Mapping[str, Any]) -> None:
        self._model, self._stamp, self._echoed = model, stamp, echoed
        self._id, self._created, self._number = stamp.new_id("resp_"), stamp.created, 0
        self._blocks, self._ids = ReplyBlocks(), list[str]()

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields the events of a stream."""
        for value in self._events(event):
            yield value | {"sequence_number": self._number}
            self._number += 1

    def _events(self, event: Event) -> Iterator[dict[str, Any]]:
        if isinstance(event, ReplyBegun):
            yield {"type": "response.created", "response": self.whole()}
            yield {"type": "response.in_progress", "response": self.whole()}
        if isinstance(event, ReplyPart):
            for step in self._blocks.add(event):
                yield from self._changed(step)
        if isinstance(event, ReplyEnd):
            for step in self._blocks.close():
                yield from self._changed(step)
            self._end = event
            yield {"type": f"response.{self._status()}", "response": self.whole()}

    def _status(self) -> str:
        if self._end is None:
            return "in_progress"
        return "incomplete" if self._end.reason == "length" else "completed"

    def whole(self) -> dict[str, Any]:
        """The whole answer, as far as it is there."""
        status = self._status()
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "model": self._model,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": [self._item(block, "completed") for block in self._blocks.all],
            "usage": _usage(self._end) if self._end else None,
            "previous_response_id": None,
            "store": False,
            **self._echoed,
        }

    def _changed(self, step: Step) -> Iterator[dict[str, Any]]:
        block = step.block
        if step.change is Change.OPENED:
            self._ids.append(self._stamp.new_id(_PREFIXES[block.kind]))
            item = self._item(block, "in_progress")
            yield {"type": "response.output_item.added", "output_index": block.index, "item": item}
            if block.kind is not BlockKind.CALL:
                yield self._place(block) | {"type": "response.content_part.added", "part": _part(block)}
        elif step.change is Change.GROWN:
            kind = {"type": f"{_DELTAS[block.kind]}.delta"}
            yield self._place(block) | kind | {"delta": step.added, **_logprobs(block, step.scored)}
        else:
            yield from self._closed(block)

    def _closed(self, block: ReplyBlock) -> Iterator[dict[str, Any]]:
        kind = {"type": f"{_DELTAS[block.kind]}.done"}
        if block.call:
            yield self._place(block) | kind | {"arguments": block.text, "name": block.call.name}
        else:
            yield self._place(block) | kind | {"text": block.text, **_logprobs(block, block.scored)}
            yield self._place(block) | {"type": "response.content_part.done", "part": _part(block)}
        item = self._item(block, "completed")
        yield {"type": "response.output_item.done", "output_index": block.index, "item": item}

    def _place(self, block: ReplyBlock) -> dict[str, Any]:
        """Where a block is."""
        found: dict[str, Any] = {"item_id": self._ids[block.index], "output_index": block.index}
        return found if block.kind is BlockKind.CALL else found | {"content_index": 0}

    def _item(self, block: ReplyBlock, status: str) -> dict[str, Any]:
        """A block as an item of the output; in progress it has no content yet."""
        found: dict[str, Any] = {"id": self._ids[block.index], "status": status}
        if block.call:
            call = {"call_id": block.call.id, "name": block.call.name, "arguments": block.text}
            return found | {"type": "function_call", **call}
        content = [_part(block)] if status == "completed" else []
        if block.kind is BlockKind.THOUGHT:
            return found | {"type": "reasoning", "summary": [], "content": content}
        return found | {"type": "message", "role": "assistant", "content": content}


def _part(block: ReplyBlock) -> dict[str, Any]:
    if block.kind is BlockKind.THOUGHT:
        return {"type": "reasoning_text", "text": block.text}
    return {"type": "output_text", "text": block.text, "annotations": [], **_logprobs(block, block.scored)}


def _logprobs(block: ReplyBlock, scored: Iterable[ScoredToken]) -> dict[str, Any]:
    """The field `logprobs` of the text of an answer."""
    return {"logprobs": list(map(logprob_entry, scored))} if block.kind is BlockKind.TEXT else {}


def _usage(end: ReplyEnd) -> dict[str, Any]:
    found = usage([end])
    return {
        "input_tokens": found["prompt_tokens"],
        "input_tokens_details": {**found["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": found["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": end.thought_tokens},
        "total_tokens": found["total_tokens"],
    }
