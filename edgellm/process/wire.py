"""What goes through the pipes between us and a process of ours.

Both ways a message is a code and a payload, little-endian:

    int32 code    uint32 n    n bytes

STOP and CLEAR work at once and get no reply; every other request gets one, in order. Before a reply there may be PROGRESS.
The codes from 0 on mean whatever the two sides agree on.
"""

import struct
from typing import BinaryIO

_HEADER = struct.Struct("<iI")
STOP, CLEAR, PROGRESS = -1, -2, -3
LONGEST = (1 << 32) - 1
"""Bytes of a payload, at most."""


def send(stream: BinaryIO, code: int, payload: bytes = b"") -> None:
    """Write a message; OSError if nobody reads any more."""
    for part in (_HEADER.pack(code, len(payload)), payload):
        rest = memoryview(part)
        while rest:  # a signal may cut a long write short
            rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: BinaryIO, most: int = LONGEST) -> tuple[int, bytes]:
    """Read a message; EOFError if the other side is gone, or writes a payload of more than `most` bytes."""
    code, n = _HEADER.unpack(_exactly(stream, _HEADER.size))
    if n > most:
        raise EOFError
    return code, _exactly(stream, n)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    """That many bytes, also from a stream without a buffer, which gives what there is."""
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
