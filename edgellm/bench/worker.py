"""The child process that times llama.cpp: `python -m edgellm.bench.worker`. Requests and replies are lines of JSON.

    {"open": fields of LlamaCppParams, "depth": tokens, "parallel": sequences}    {"version": of llama-cpp-python}
    {"prefill": [tokens]}                                                  {"seconds": float}
    {"decode": [steps, steps before them]}                                 {"seconds": float}

The time is taken here, so that communication between the processes does not count. An error is {"error": one line}.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence as Ids
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np

from edgellm.bench.workload import Workload
from edgellm.engine import protocol
from edgellm.engine.protocol import Segment
from edgellm.llamacpp.stop_flag import StopFlag
from edgellm.llamacpp.wire import BatchColumn, LlamaCppParams, ReplyCode


class Slot(protocol.Sequence):
    """A sequence in llama.cpp's KV cache."""

    def __init__(self, context: Any, number: int) -> None:
        super().__init__()
        self._context, self.number = context, number

    def fork(self) -> "Slot":
        """Not supported."""
        raise NotImplementedError

    def trim(self, n: int) -> int:
        """Remove all but the first `n` tokens; returns the number left."""
        if n < len(self.tokens):
            del self.tokens[self._context.trim(self.number, n) :]
        return len(self.tokens)


class DirectEngine:
    """A `TimedEngine` that calls llama.cpp's context directly."""

    def __init__(self, params: LlamaCppParams) -> None:
        from edgellm.llamacpp.binding import LlamaContext  # here, so that a reply reports a failed import

        self._context = LlamaContext(params, StopFlag())
        self.vocab, self.max_rows = self._context.vocab, params.rows
        self._slots = 0

    def new_sequence(self) -> Slot:
        """An empty sequence in the next slot."""
        self._slots += 1
        return Slot(self._context, self._slots - 1)

    def forward(self, segments: Ids[Segment[Slot]]) -> bytes:
        """Compute rows; returns the requested logits as float32."""
        reply, logits = self._context.decode(np.concatenate([_rows(segment) for segment in segments]))
        if reply is not ReplyCode.OK:
            raise RuntimeError("has no room for so many tokens in its context")
        for segment in segments:
            segment.sequence.tokens.extend(segment.tokens)
        return logits


def _rows(segment: Segment[Slot]) -> Any:
    """The rows of a segment in llama.cpp's batch, int32 [tokens, 4]."""
    n, held = len(segment.tokens), len(segment.sequence)
    rows = np.zeros((n, len(BatchColumn)), np.int32)
    rows[:, BatchColumn.TOKEN] = segment.tokens
    rows[:, BatchColumn.POSITION] = np.arange(held, held + n)
    rows[:, BatchColumn.SLOT] = segment.sequence.number
    rows[list(segment.wanted), BatchColumn.WANTED] = 1
    return rows


class BaselineServer:
    """Answers one request after the other."""

    def __init__(self) -> None:
        self._workload: Workload | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; an exception becomes a line of text."""
        try:
            if "open" in request:
                return self._open(request)
            assert self._workload, "open comes first"
            name, numbers = next(iter(request.items()))
            return {"seconds": getattr(self._workload, name)(*numbers)}
        except Exception as error:
            return {"error": " ".join(f"{error or type(error).__name__}".split())}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        direct = DirectEngine(LlamaCppParams(**request["open"]))
        self._workload = Workload(direct, request["depth"], request["parallel"])
        return {"version": version("llama-cpp-python")}


def main() -> None:
    """Serve requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too, which then ends this process
    replies = os.fdopen(os.dup(1), "w")
    with suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here (see `open_baseline`)
    os.dup2(2, 1)  # output of libraries must not mix with the replies
    server = BaselineServer()
    for line in sys.stdin:
        print(json.dumps(server.answer(json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
