"""A SIGBUS handler that replaces lost pages of mapped files by zeros, and counts the faults.

If another program cuts a mapped file short, or its disk fails, the system sends SIGBUS to the thread that reads a
lost page, and by default ends the process. A handler must either replace the page or never return. It runs in threads
of compiled code, without Python's lock, so it is machine code: it maps zeros over the rest of the file's map, counts,
and returns; the interrupted instruction then reads zeros. Code that computes with a map checks the count before it
shows a result (`edgellm.gguf.mapped_file`).

Signals for other addresses, and signals that a program sends, go to the previous handler, such as that of Python's
faulthandler, or the system's, which ends the process.

Sources: sigaction(2), mmap(2) and <signal.h> of Linux (glibc and musl) and macOS. On other systems nothing is
installed; Windows does not let programs cut a mapped file short.
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
    """The layout of signal structures of an operating system.

    `flags` are SA_SIGINFO, SA_ONSTACK and SA_RESTART, `flags_at` is their offset in struct sigaction, which begins with
    the handler. `address_at` is the offset of si_addr in siginfo_t. `nbytes` is at least the size of struct sigaction.
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
_MAX_FAULTS = 1 << 16
"""After this number of faults of one map, the signal goes to the previous handler. Each thread has few faults, unless
mapping zeros does not work."""

_TABLE = (ctypes.c_int64 * (_SLOTS * _WORDS))()
_FREE = deque(range(0, _SLOTS * _WORDS, _WORDS))

_installed: dict[int, tuple[Any, ...]] = {}
"""The objects that our handlers use, by the address of the handler.

They are never freed, because a handler that another library installs later may call ours."""

_installing = Lock()


def register_map(address: int, nbytes: int) -> int | None:
    """Register a map, whose lost pages then read as zeros once `install` was called.

    Returns the number of its slot, or None if all slots are taken.
    """
    try:
        slot = _FREE.popleft()
    except IndexError:
        return None
    _TABLE[slot + _FAULTS] = 0
    _TABLE[slot + _START] = address  # before the end: while the end is 0, the slot contains no address
    _TABLE[slot + _END] = address + -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    return slot


def unregister_map(slot: int) -> None:
    """Unregister a map. Call it once, before the map's addresses can be used again."""
    _TABLE[slot + _END] = 0  # the start stays, so that an end that the handler has just read still belongs to it
    _FREE.append(slot)


def fault_count(slot: int) -> int:
    """The number of faults on lost pages of a map."""
    return _TABLE[slot + _FAULTS]


def install() -> None:
    """Make a handler of ours the first one, where the system is supported. Imports LLVM."""
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
    """Install a new handler that passes signals for other addresses to `previous`."""
    functions = {name: _address(libc[name]) for name in FUNCTIONS}
    table = MapTable(ctypes.addressof(_TABLE), _WORDS, len(_TABLE), _MAX_FAULTS)
    address, code = compiled(system.address_at, table, ctypes.addressof(previous), functions)
    action = ctypes.create_string_buffer(system.nbytes)
    struct.pack_into("=Q", action, 0, address)
    struct.pack_into("=i", action, system.flags_at, system.flags)
    _installed[address] = code, previous
    _sigaction(libc, action, None)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
