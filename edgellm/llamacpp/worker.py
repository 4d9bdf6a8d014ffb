"""The child process that holds llama.cpp: `python -m edgellm.llamacpp.worker`."""

import json
from typing import TYPE_CHECKING

import numpy as np

from edgellm.llamacpp.stopflag import StopFlag
from edgellm.llamacpp.wire import NUMBER, PAIR, Column, Opening, Reply, Request
from edgellm.process.serve import serve

if TYPE_CHECKING:
    from edgellm.llamacpp.binding import Context


class Server:
    """Answers requests, one after the other."""

    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self._context: Context | None = None

    def answer(self, request: int, payload: bytes, news: object = None) -> tuple[Reply, bytes]:
        """What to reply; whatever goes wrong is a line of text."""
        try:
            if request == Request.OPEN:
                return Reply.OK, self._open(payload)
            assert self._context, "OPEN comes first"
            return self._compute(self._context, request, payload)
        except Exception as error:
            return Reply.FAILED, " ".join(f"{error or type(error).__name__}".split()).encode()

    def _open(self, payload: bytes) -> bytes:
        from edgellm.llamacpp.binding import Context  # here, so that an import that fails is told in a reply

        self._context = Context(Opening(**json.loads(payload)), self._stop)
        return NUMBER.pack(self._context.vocab)

    def _compute(self, context: "Context", request: int, payload: bytes) -> tuple[Reply, bytes]:
        if request == Request.DECODE:
            return context.decode(np.frombuffer(payload, "<i4").reshape(-1, len(Column)))
        if request == Request.TRIM:
            return Reply.OK, NUMBER.pack(context.trim(*PAIR.unpack(payload)))
        context.copy(*PAIR.unpack(payload))
        return Reply.OK, b""


def main() -> None:
    """Serve requests until stdin ends."""
    stop = StopFlag()
    serve(Server(stop).answer, stop.set)


if __name__ == "__main__":
    main()
