"""What goes through the pipes between us and a process of ours.

Both ways a message is a code and a payload, little-endian:

    int32 code    uint32 n    n bytes

STOP and CLEAR work at once and get no reply; every other request gets one, in order. Before a reply there may be NEWS.
The codes from 0 on mean whatever the two sides agree on.
"""

import struct
from typing import BinaryIO

_HEADER = struct.Struct("<iI")
STOP, CLEAR, NEWS = -1, -2, -3


def send(stream: BinaryIO, code: int, payload: bytes = b"") -> None:
    """Write a message; OSError if nobody reads any more."""
    for part in (_HEADER.pack(code, len(payload)), payload):
        rest = memoryview(part)
        while rest:  # a signal may cut a long write short
            rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: BinaryIO) -> tuple[int, bytes]:
    """Read a message; EOFError if the other side is gone."""
    code, n = _HEADER.unpack(_exactly(stream, _HEADER.size))
    return code, _exactly(stream, n)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError
    return data
