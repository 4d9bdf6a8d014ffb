"""Pages of a mapped file that cannot be read any more: zeros take their place, and a count tells.

Where another program cuts a mapped file short, or its disk fails, the system sends SIGBUS to the thread that touches a
lost page, and by default ends the process. A handler must then either replace the page or never return, in threads that
run compiled code and hold no lock of Python's. So it is machine code: it maps zeros over the rest of the file's map,
counts, and returns, and the instruction that was interrupted reads them. Whoever computes with the map asks for the
count before anything of the result is shown (`edgellm.gguf.mapped_file`).

Signals for other addresses, and those that a program sends, go to the handler that was there before: that of Python's
faulthandler, for instance, or the system's, which ends the process.

Sources: sigaction(2), mmap(2) and <signal.h> of Linux (glibc and musl) and macOS. Elsewhere nothing is installed;
Windows lets nobody cut a mapped file short.
"""

import ctypes
import mmap
import platform
import signal
import struct
import sys
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from edgellm.gguf.sigbus_handler import FUNCTIONS, MapTable, compiled


class _System(NamedTuple):
    """Flags of sigaction (SA_SIGINFO, SA_ONSTACK and SA_RESTART), where it has them, and where siginfo_t has si_addr.

    A struct sigaction begins with the handler; `nbytes` is more than all of it.
    """

    flags: int
    flags_at: int
    address_at: int
    nbytes: int = 256


_SYSTEMS = {"linux": _System(0x4 | 0x0800_0000 | 0x1000_0000, 136, 16), "darwin": _System(0x40 | 0x1 | 0x2, 12, 24)}
_MACHINES = ("x86_64", "aarch64", "arm64")
_SYSTEM = _SYSTEMS.get(sys.platform) if platform.machine() in _MACHINES else None

_START, _END, _FAULTS, _WORDS = range(4)
_SLOTS = 1024
_MOST_FAULTS = 1 << 16
"""Faults of one map after which the signal is passed on: each thread has few, unless zeros are no help."""

_TABLE = (ctypes.c_int64 * (_SLOTS * _WORDS))()
_FREE = deque(range(0, _SLOTS * _WORDS, _WORDS))

_installed: dict[int, tuple[Any, ...]] = {}
"""What handlers of ours use, by their addresses: they stay, as a handler that came later may go back to them."""

_installing = Lock()


def register_map(address: int, nbytes: int) -> int | None:
    """Have zeros take the place of what is lost of a map, once `install` was called; the number of its slot.

    None where all slots are taken.
    """
    try:
        slot = _FREE.popleft()
    except IndexError:
        return None
    _TABLE[slot + _FAULTS] = 0
    _TABLE[slot + _START] = address  # before the end: as long as that is 0, the slot holds no address
    _TABLE[slot + _END] = address + -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    return slot


def unregister_map(slot: int) -> None:
    """Forget a map, once, before anything else may lie where it was."""
    _TABLE[slot + _END] = 0  # the beginning stays: with it, an end that the handler has read already is a true one
    _FREE.append(slot)


def fault_count(slot: int) -> int:
    """How many times a lost page of a map was touched."""
    return _TABLE[slot + _FAULTS]


def install() -> None:
    """Make sure that a handler of ours gets the signal first, where there can be one. Brings LLVM."""
    if _SYSTEM is None:
        return
    with _installing, suppress(OSError):
        libc = ctypes.CDLL(None, use_errno=True)
        current = ctypes.create_string_buffer(_SYSTEM.nbytes)
        _sigaction(libc, None, current)
        if _word(current) not in _installed:
            _put_before(libc, _SYSTEM, current)


def _sigaction(libc: Any, new: Any, old: Any) -> None:
    if libc.sigaction(int(signal.SIGBUS), new, old) != 0:
        raise OSError(ctypes.get_errno(), "sigaction")


def _word(action: Any) -> int:
    """The handler in a struct sigaction."""
    return int(struct.unpack_from("=Q", action)[0])


def _put_before(libc: Any, system: _System, previous: Any) -> None:
    """Install a new handler that passes on to a previous one."""
    functions = {name: _address(libc[name]) for name in FUNCTIONS}
    table = MapTable(ctypes.addressof(_TABLE), _WORDS, len(_TABLE), _MOST_FAULTS)
    address, code = compiled(system.address_at, table, ctypes.addressof(previous), functions)
    action = ctypes.create_string_buffer(system.nbytes)
    struct.pack_into("=Q", action, 0, address)
    struct.pack_into("=i", action, system.flags_at, system.flags)
    _installed[address] = code, previous
    _sigaction(libc, action, None)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
