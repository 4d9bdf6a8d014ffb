"""The handler of SIGBUS that `edgellm.gguf.sigbus` installs, made by LLVM for this process."""

import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

FUNCTIONS = ("mmap", "sigaction", "raise")
"""The functions of the C library that the handler calls."""


class MapTable(NamedTuple):
    """The maps that are watched: slots of `words` int64 from `address` on, `all_words` in all.

    The first words of each are where the map begins and ends, and how many faults it had, of which `most_faults` are
    handled.
    """

    address: int
    words: int
    all_words: int
    most_faults: int


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
  %few = icmp ult i64 %faults, {table.most_faults}
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
"""The handler, in LLVM's language. A handler of one argument takes three, too, on all machines that it is made for.

It reads the end of a map before the beginning: who fills a slot at that moment writes them the other way round. A
beginning of before and an end of after would be a range with other memory in it.
"""


def compiled(address_at: int, table: MapTable, previous: int, functions: Mapping[str, int]) -> tuple[int, Any]:
    """The address of a handler, and what owns its code.

    siginfo_t has the address of a fault at byte `address_at`. `previous` is the address of the struct sigaction that
    was there before; `functions` are the addresses of FUNCTIONS.
    """
    import llvmlite.binding as llvm  # here: nothing else of a file needs it

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
