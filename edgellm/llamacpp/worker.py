"""The child process with llama.cpp: `python -m edgellm.llamacpp.worker`."""

import json
from typing import TYPE_CHECKING

import numpy as np

from edgellm.llamacpp.stop_flag import StopFlag
from edgellm.llamacpp.wire import NUMBER, PAIR, BatchColumn, LlamaCppParams, ReplyCode, RequestCode
from edgellm.process.serve import serve

if TYPE_CHECKING:
    from edgellm.llamacpp.binding import LlamaContext


class LlamaCppWorker:
    """Answers requests, one after the other."""

    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self._context: LlamaContext | None = None

    def answer(self, request: int, payload: bytes, send_progress: object = None) -> tuple[ReplyCode, bytes]:
        """The reply to a request; an exception becomes FAILED with a line of text."""
        try:
            if request == RequestCode.OPEN:
                return ReplyCode.OK, self._open(payload)
            assert self._context, "OPEN comes first"
            return self._compute(self._context, request, payload)
        except Exception as error:
            return ReplyCode.FAILED, " ".join(f"{error or type(error).__name__}".split()).encode()

    def _open(self, payload: bytes) -> bytes:
        from edgellm.llamacpp.binding import LlamaContext  # imported here, so that a failed import becomes a reply

        self._context = LlamaContext(LlamaCppParams(**json.loads(payload)), self._stop)
        return PAIR.pack(self._context.vocab, self._context.goes_back)

    def _compute(self, context: "LlamaContext", request: int, payload: bytes) -> tuple[ReplyCode, bytes]:
        if request == RequestCode.DECODE:
            return context.decode(np.frombuffer(payload, "<i4").reshape(-1, len(BatchColumn)))
        if request == RequestCode.TRIM:
            return ReplyCode.OK, NUMBER.pack(context.trim(*PAIR.unpack(payload)))
        context.copy(*PAIR.unpack(payload))
        return ReplyCode.OK, b""


def main() -> None:
    """Serve requests until stdin ends."""
    stop = StopFlag()
    serve(LlamaCppWorker(stop).answer, stop.set)


if __name__ == "__main__":
    main()
