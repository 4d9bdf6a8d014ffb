"""The machine code of the SIGBUS handler that `edgellm.gguf.sigbus` installs, compiled by LLVM for this process."""

import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

FUNCTIONS = ("mmap", "sigaction", "raise")
"""The functions of the C library that the handler calls."""


class MapTable(NamedTuple):
    """The table of registered maps: slots of `words` int64 each from `address` on, `all_words` int64 in total.

    The first three words of a slot are the start and the end address of the map, and its number of faults. The handler
    handles `max_faults` of them.
    """

    address: int
    words: int
    all_words: int
    max_faults: int


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
  %start_at = getelementptr i64, ptr inttoptr (i64 {table.address} to ptr), i64 %slot
  %end_at = getelementptr i64, ptr %start_at, i64 1
  %end = load atomic i64, ptr %end_at acquire, align 8
  %first = load atomic i64, ptr %start_at monotonic, align 8
  %after = icmp uge i64 %address, %first
  %before = icmp ult i64 %address, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %found, label %other
other:
  %next = add i64 %slot, {table.words}
  %more = icmp ult i64 %next, {table.all_words}
  br i1 %more, label %look, label %pass
found:
  %faults_at = getelementptr i64, ptr %start_at, i64 2
  %faults = atomicrmw add ptr %faults_at, i64 1 seq_cst, align 8
  %few = icmp ult i64 %faults, {table.max_faults}
  br i1 %few, label %replace, label %pass
replace:
  %page = and i64 %address, -{page}
  %length = sub i64 %end, %page
  %there = inttoptr i64 %page to ptr
  %mapped = call ptr inttoptr (i64 {call[mmap]} to ptr)(ptr %there, i64 %length, i32 1, i32 {map_flags}, i32 -1, i64 0)
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
  %a = call i32 inttoptr (i64 {call[sigaction]} to ptr)(i32 %signal, ptr inttoptr (i64 {previous} to ptr), ptr null)
  br i1 %is_fault, label %end_of_it, label %again
again:
  %b = call i32 inttoptr (i64 {call[raise]} to ptr)(i32 %signal)
  ret void
end_of_it:
  ret void
}}
"""
"""The handler in LLVM IR. It calls the previous handler with three arguments; on the supported machines, a function of
one argument can be called so, too.

It reads the end of a map before the start, because `register_map` writes the start first. The start of an old map with
the end of a new one would be a range that includes other memory.
"""


def compiled(address_at: int, table: MapTable, previous: int, functions: Mapping[str, int]) -> tuple[int, Any]:
    """Compile a handler. Returns its address and the object that owns its code.

    `address_at` is the offset of the fault's address in siginfo_t. `previous` is the address of the struct sigaction of
    the previous handler. `functions` are the addresses of FUNCTIONS.
    """
    import llvmlite.binding as llvm  # imported here: files that are only read do not need LLVM

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    names = {"address_at": address_at, "table": table, "previous": previous, "page": mmap.PAGESIZE, "map_flags": flags}
    module = llvm.parse_assembly(_HANDLER.format(**names, call=functions))
    module.triple = llvm.get_process_triple()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    linker = llvm.create_mcjit_compiler(module, machine)
    linker.finalize_object()
    return int(linker.get_function_address("handler")), linker
