"""The child process that holds llama.cpp: `python -m edgellm.llamacpp.worker`, requests on stdin, replies on stdout.

It ends with its parent, however that ends: then nobody holds the other end of stdin any more.
"""

import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from edgellm.llamacpp.stopflag import StopFlag
from edgellm.llamacpp.wire import NUMBER, PAIR, Column, Opening, Reply, Request, receive, send

if TYPE_CHECKING:
    from edgellm.llamacpp.binding import Context

Requests = SimpleQueue[tuple[int, bytes]]


class Server:
    """Answers requests, one after the other."""

    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self._context: Context | None = None

    def answer(self, request: int, payload: bytes) -> tuple[Reply, bytes]:
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, and it knows what is meant
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the replies
    stop, requests = StopFlag(), Requests()
    threading.Thread(target=_listen, args=(stop, requests), daemon=True).start()
    server = Server(stop)
    while True:
        send(replies, *server.answer(*requests.get()))


def _listen(stop: StopFlag, requests: Requests) -> None:
    while True:
        try:
            request, payload = receive(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        if request in (Request.STOP, Request.CLEAR):
            stop.set(request == Request.STOP)
        else:
            requests.put((request, payload))


if __name__ == "__main__":
    main()
