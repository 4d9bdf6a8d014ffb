"""Steps of talking to a child process, which run in threads of their own (see `edgellm.process.call_thread`)."""

import subprocess
from collections import deque
from contextlib import suppress
from typing import IO, BinaryIO

from edgellm.process.call_thread import CallThread
from edgellm.process.wire import PROGRESS, receive, send

_EXIT_TIMEOUT_S = 3.0


class EndedError(Exception):
    """The process has ended."""


def exchange(
    sender: CallThread, requests: BinaryIO, replies: BinaryIO, progress: deque[bytes], request: int, payload: bytes
) -> tuple[int, bytes]:
    """Send a request, append the payloads of progress messages, and return the reply. Raises EndedError."""
    sender.submit(send, requests, request, payload)  # if it fails, there is no reply either
    try:
        while (message := receive(replies))[0] == PROGRESS:
            progress.append(message[1])
    except (EOFError, OSError):
        raise EndedError from None
    return message


def end_process(
    process: subprocess.Popen[bytes],
    requests: BinaryIO,
    replies: BinaryIO,
    log: IO[bytes],
    sender: CallThread,
    exchanger: CallThread,
) -> None:
    """Let a process end, kill it if it computes for some seconds more, and free everything that belongs to it."""
    sender.submit(requests.close)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_TIMEOUT_S)
    finally:  # also after an interrupt, as this is called only once
        process.kill()
        process.wait()
        sender.close()
        exchanger.close()
        replies.close()
        log.close()
