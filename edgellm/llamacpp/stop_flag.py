"""A flag that llama.cpp polls at every op, without calling Python, which would need its lock."""

import ctypes
import sys


class StopFlag:
    """Set from any thread. `callback` and `data` are addresses of llama.cpp's abort callback and its argument."""

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        libc = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
        # The callback is `strlen`: of the flag as a string it is 1 when the flag is set, and 0 when not.
        self.callback = ctypes.cast(libc.strlen, ctypes.c_void_p).value or 0
        self.data = ctypes.addressof(self._text)

    def set(self, stop: bool) -> None:
        """Set or clear the flag."""
        self._text[0] = b"\1" if stop else b"\0"

    def __bool__(self) -> bool:
        return self._text[0] != b"\0"
