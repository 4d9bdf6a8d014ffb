"""The child process that times llama.cpp: `python -m edgellm.bench.worker`, a line of JSON for each request and reply.

    {"open": fields of LlamaCppParams, "depth": tokens, "parallel": sequences}    {"version": of llama-cpp-python}
    {"prefill": [tokens]}                                                  {"seconds": time it took}
    {"decode": [steps, steps before them]}                                 {"seconds": time it took}

The clock is here, so that nothing between the processes counts as llama.cpp's. What fails is {"error": a line}.
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

from edgellm.bench.load import Load
from edgellm.engine import protocol
from edgellm.engine.protocol import Segment
from edgellm.llamacpp.stop_flag import StopFlag
from edgellm.llamacpp.wire import BatchColumn, LlamaCppParams, ReplyCode


class Slot(protocol.Sequence):
    """A sequence in a slot of llama.cpp's cache."""

    def __init__(self, context: Any, number: int) -> None:
        super().__init__()
        self._context, self.number = context, number

    def fork(self) -> "Slot":
        """Nothing here is shared."""
        raise NotImplementedError

    def trim(self, n: int) -> int:
        """Forget all but the first `n` tokens; how many are left."""
        if n < len(self.tokens):
            del self.tokens[self._context.trim(self.number, n) :]
        return len(self.tokens)


class Direct:
    """llama.cpp without anything between: a `Computes` over its context."""

    def __init__(self, opening: LlamaCppParams) -> None:
        from edgellm.llamacpp.binding import LlamaContext  # here, so that an import that fails is told in a reply

        self._context = LlamaContext(opening, StopFlag())
        self.vocab, self.max_rows = self._context.vocab, opening.rows
        self._slots = 0

    def new_sequence(self) -> Slot:
        """An empty sequence in the next slot."""
        self._slots += 1
        return Slot(self._context, self._slots - 1)

    def forward(self, segments: Ids[Segment[Slot]]) -> bytes:
        """Compute rows; the float32 logits of those wanted."""
        reply, logits = self._context.decode(np.concatenate([_rows(segment) for segment in segments]))
        if reply is not ReplyCode.OK:
            raise RuntimeError("has no room for so many tokens in its context")
        for segment in segments:
            segment.sequence.tokens.extend(segment.tokens)
        return logits


def _rows(segment: Segment[Slot]) -> Any:
    """The rows of llama.cpp's batch, int32 [tokens, 4]."""
    n, held = len(segment.tokens), len(segment.sequence)
    rows = np.zeros((n, len(BatchColumn)), np.int32)
    rows[:, BatchColumn.TOKEN] = segment.tokens
    rows[:, BatchColumn.POSITION] = np.arange(held, held + n)
    rows[:, BatchColumn.SLOT] = segment.sequence.number
    rows[list(segment.wanted), BatchColumn.WANTED] = 1
    return rows


class Server:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self._load: Load | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What to reply; whatever goes wrong is a line of text."""
        try:
            if "open" in request:
                return self._open(request)
            assert self._load, "open comes first"
            name, numbers = next(iter(request.items()))
            return {"seconds": getattr(self._load, name)(*numbers)}
        except Exception as error:
            return {"error": " ".join(f"{error or type(error).__name__}".split())}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        direct = Direct(LlamaCppParams(**request["open"]))
        self._load = Load(direct, request["depth"], request["parallel"])
        return {"version": version("llama-cpp-python")}


def main() -> None:
    """Serve requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, and it knows what is meant
    replies = os.fdopen(os.dup(1), "w")
    with suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here (see `open_peer`)
    os.dup2(2, 1)  # whatever a library prints must not get between the replies
    server = Server()
    for line in sys.stdin:
        print(json.dumps(server.answer(json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
