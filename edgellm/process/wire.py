"""The messages between a process and its child.

In both directions a message is a code and a payload, little-endian:

    int32 code    uint32 n    n bytes

STOP and CLEAR act at once and get no reply; every other request gets one, in order, and perhaps PROGRESS messages
before it. The two sides define the codes from 0 on.
"""

import struct
from typing import BinaryIO

_HEADER = struct.Struct("<iI")
STOP, CLEAR, PROGRESS = -1, -2, -3
MAX_PAYLOAD = (1 << 32) - 1
"""The most bytes of a payload."""


def send(stream: BinaryIO, code: int, payload: bytes = b"") -> None:
    """Write a message. Raises OSError if the other side is gone."""
    for part in (_HEADER.pack(code, len(payload)), payload):
        rest = memoryview(part)
        while rest:  # a signal may cut a long write short
            rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: BinaryIO, most: int = MAX_PAYLOAD) -> tuple[int, bytes]:
    """Read a message. Raises EOFError if the other side is gone, or for a payload of more than `most` bytes."""
    code, n = _HEADER.unpack(_exactly(stream, _HEADER.size))
    if n > most:
        raise EOFError
    return code, _exactly(stream, n)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    """Read n bytes, also from an unbuffered stream, whose `read` may return fewer."""
    data = stream.read(n)
    if len(data) == n:
        return data
    whole = bytearray(data)
    while len(whole) < n:
        part = stream.read(n - len(whole))
        if not part:
            raise EOFError
        whole += part
    return bytes(whole)
