"""Pages of a mapped file that cannot be read any more: zeros take their place, and a count tells.

Where another program cuts a mapped file short, or its disk fails, the system sends SIGBUS to the thread that touches a
lost page, and by default ends the process. A handler must then either replace the page or never return, in threads that
run compiled code and hold no lock of Python's. So it is machine code: it maps zeros over the rest of the file's map,
counts, and returns, and the instruction that was interrupted reads them. Whoever computes with the map asks for the
count before anything of the result is shown (`edgellm.gguf.mapped`).

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

_MAP_FIXED = 0x10
_HANDLER = """
define void @handler(i32 %signal, ptr %info, ptr %context) nounwind {{
start:
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %above = sub i32 %code, 1
  %is_fault = icmp ult i32 %above, 65535
  %address_at = getelementptr i8, ptr %info, i64 {address_at}
  %address = load i64, ptr %address_at
  br i1 %is_fault, label %look, label %pass
look:
  %slot = phi i64 [ 0, %start ], [ %next, %other ]
  %start_at = getelementptr i64, ptr inttoptr (i64 {table} to ptr), i64 %slot
  %first = load atomic i64, ptr %start_at monotonic, align 8
  %end_at = getelementptr i64, ptr %start_at, i64 1
  %end = load atomic i64, ptr %end_at monotonic, align 8
  %after = icmp uge i64 %address, %first
  %before = icmp ult i64 %address, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %found, label %other
other:
  %next = add i64 %slot, {words}
  %more = icmp ult i64 %next, {all_words}
  br i1 %more, label %look, label %pass
found:
  %faults_at = getelementptr i64, ptr %start_at, i64 2
  %faults = atomicrmw add ptr %faults_at, i64 1 seq_cst, align 8
  %few = icmp ult i64 %faults, {most_faults}
  br i1 %few, label %replace, label %pass
replace:
  %page = and i64 %address, -{page}
  %length = sub i64 %end, %page
  %there = inttoptr i64 %page to ptr
  %mapped = call ptr inttoptr (i64 {mmap} to ptr)(ptr %there, i64 %length, i32 1, i32 {map_flags}, i32 -1, i64 0)
  %replaced = icmp eq ptr %mapped, %there
  br i1 %replaced, label %end_of_it, label %pass
pass:
  %previous = load i64, ptr inttoptr (i64 {previous} to ptr), align 8
  %is_function = icmp ugt i64 %previous, 1
  br i1 %is_function, label %chain, label %give_up
chain:
  %function = inttoptr i64 %previous to ptr
  call void %function(i32 %signal, ptr %info, ptr %context)
  ret void
give_up:
  %a = call i32 inttoptr (i64 {sigaction} to ptr)(i32 %signal, ptr inttoptr (i64 {previous} to ptr), ptr null)
  br i1 %is_fault, label %end_of_it, label %again
again:
  %b = call i32 inttoptr (i64 {raise_} to ptr)(i32 %signal)
  ret void
end_of_it:
  ret void
}}
"""
"""The handler, in LLVM's language. A handler of one argument takes three, too, on all machines above."""

_installed: dict[int, tuple[Any, ...]] = {}
"""What handlers of ours use, by their addresses: they stay, as a handler that came later may go back to them."""

_installing = Lock()


def watch(address: int, nbytes: int) -> int | None:
    """Have zeros take the place of what is lost of a map, once `install` was called; the number of its slot.

    None where all slots are taken.
    """
    try:
        slot = _FREE.popleft()
    except IndexError:
        return None
    _TABLE[slot + _FAULTS] = 0
    _TABLE[slot + _START] = address  # first: with the end, which is 0, the slot holds no address
    _TABLE[slot + _END] = address + -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    return slot


def unwatch(slot: int) -> None:
    """Forget a map, once, before anything else may lie where it was."""
    _TABLE[slot + _END] = 0
    _TABLE[slot + _START] = 0
    _FREE.append(slot)


def faults(slot: int) -> int:
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
    address, code = _compiled(libc, system, previous)
    action = ctypes.create_string_buffer(system.nbytes)
    struct.pack_into("=Q", action, 0, address)
    struct.pack_into("=i", action, system.flags_at, system.flags)
    _installed[address] = code, previous
    _sigaction(libc, action, None)


def _compiled(libc: Any, system: _System, previous: Any) -> tuple[int, Any]:
    """The address of a handler, and what owns its code."""
    import llvmlite.binding as llvm  # here: nothing else of a file needs it

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _HANDLER.format(
        address_at=system.address_at,
        table=ctypes.addressof(_TABLE),
        words=_WORDS,
        all_words=_SLOTS * _WORDS,
        most_faults=_MOST_FAULTS,
        page=mmap.PAGESIZE,
        map_flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED,
        previous=ctypes.addressof(previous),
        **{name + "_" * (name == "raise"): _address(libc[name]) for name in ("mmap", "sigaction", "raise")},
    )
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    linker = llvm.create_mcjit_compiler(module, machine)
    linker.finalize_object()
    return int(linker.get_function_address("handler")), linker


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
