"""The loop of a child process: requests on stdin, replies on stdout.

It ends with its parent, however that ends, as stdin then ends.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from edgellm.process.wire import CLEAR, PROGRESS, STOP, receive, send

Answer = Callable[[int, bytes, Callable[[bytes], None]], tuple[int, bytes]]
"""From (request, payload, function that sends progress) to the reply."""


def serve(answer: Answer, stop: Callable[[bool], None]) -> None:
    """Answer requests, one after the other, until stdin ends; `stop` is called at once, in another thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, which sends STOP
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not get between the replies
    requests: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
    threading.Thread(target=_listen, args=(stop, requests), daemon=True).start()
    while True:
        send(replies, *answer(*requests.get(), lambda payload: send(replies, PROGRESS, payload)))


def _listen(stop: Callable[[bool], None], requests: "SimpleQueue[tuple[int, bytes]]") -> None:
    while True:
        try:
            request, payload = receive(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        if request in (STOP, CLEAR):
            stop(request == STOP)
        else:
            requests.put((request, payload))
