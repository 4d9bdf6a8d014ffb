"""Damage for files: a hypothesis strategy that changes bytes, in the header foremost."""

import struct
from collections.abc import Callable

from hypothesis import strategies as st

Change = Callable[[bytearray], None]
# What lengths, counts, offsets and types are confused by.
_NUMBERS = [0, 1, 2, 7, 8, 9, 31, 32, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**60, 2**61, 2**63, 2**64 - 1]
_BYTES = st.sampled_from([0, 1, 7, 8, 9, 10, 13, 27, 127, 128, 255]) | st.integers(0, 255)


def _set_byte(at: int, value: int) -> Change:
    def change(content: bytearray) -> None:
        if content:
            content[at % len(content)] = value

    return change


def _set_number(at: int, value: int) -> Change:
    def change(content: bytearray) -> None:
        start = at % (len(content) + 1)
        content[start : start + 8] = struct.pack("<Q", value)[: len(content) - start]

    return change


def _add_to_number(at: int, value: int) -> Change:
    def change(content: bytearray) -> None:
        if len(content) >= 8:
            start = at % (len(content) - 7)
            (old,) = struct.unpack_from("<Q", content, start)
            struct.pack_into("<Q", content, start, (old + value) % 2**64)

    return change


def _cut(at: int, length: int) -> Change:
    def change(content: bytearray) -> None:
        del content[at : at + length]

    return change


def _repeat(at: int, length: int) -> Change:
    def change(content: bytearray) -> None:
        content[at:at] = content[at : at + length]

    return change


def _end(at: int, _: int) -> Change:
    def change(content: bytearray) -> None:
        del content[at:]

    return change


def damaged(content: bytes, header: int) -> st.SearchStrategy[bytes]:
    """`content` with one to four changes, most of them in its first `header` bytes."""
    at = st.integers(0, header - 1) | st.integers(0, header - 1) | st.integers(0, len(content) - 1)
    change = (
        st.builds(_set_byte, at, _BYTES)
        | st.builds(_set_number, at, st.sampled_from(_NUMBERS))
        | st.builds(_add_to_number, at, st.integers(-40, 40))
        | st.builds(_cut, at, st.integers(1, 40))
        | st.builds(_repeat, at, st.integers(1, 80))
        | st.builds(_end, at, st.just(0))
    )

    def apply(changes: list[Change]) -> bytes:
        result = bytearray(content)
        for one in changes:
            one(result)
        return bytes(result)

    return st.lists(change, min_size=1, max_size=4).map(apply)
