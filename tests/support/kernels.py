"""The kernels, called one by one: their op records and batches as `kquants.records` documents them."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from kquants import FORMATS, jit
from kquants.compiler.kernel_names import KERNELS_BY_MODULE
from kquants.ggml import NAMED_TYPES, GGMLType
from kquants.kv_layout import PAGE_SIZES
from kquants.layout import PREPARED, SHARE_BYTES, SHARE_END, THREADS
from kquants.records import Arguments, BatchRecord, OpHeader, record_of_op
from support import gguf_types

gguf_types.register()
KINDS: dict[str, GGMLType] = {name: NAMED_TYPES[name] for name in FORMATS}
PLAIN = [
    name
    for module, names in KERNELS_BY_MODULE.items()
    if module.startswith(
        (
            "kquants.activations.",
            "kquants.experts.",
            "kquants.threadpool.",
            "kquants.attention.latent_",
            "kquants.recurrent.",
        )
    )
    for name in names
]
OF_FORMAT = [f"{op}_{name.lower()}" for op in ("embed", "dequantize", "matmul") for name in FORMATS]
OF_PAGE = [f"{op}_{kv}" for op in ("rope_store", "attention", "attention_latent") for kv in PAGE_SIZES]
NAMES = [*PLAIN, "attention_merge", *OF_FORMAT, *OF_PAGE]
GUARD = 0xA5
"""What memory holds that a kernel must not write."""

Array = NDArray[Any]


def cache_folder() -> Path:
    """Where tests keep compiled kernels between runs (see conftest)."""
    return Path(os.environ["EDGELLM_CACHE"])


@cache
def addresses() -> dict[str, int]:
    """The address of every kernel; all at once, as they compile in parallel."""
    return jit.load(NAMES, cache_folder())


_ENGINES: list[Any] = []
"""Kept, as each would take LLVM's code generator with it."""


def compiled(module: ir.Module, pointers: int) -> Any:
    """Function `f` of a module, which takes `pointers` addresses."""
    machine = jit.target_machine.__wrapped__()  # its own: that of kernels expects an aligned stack
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * pointers)(engine.get_function_address("f"))


def call_address(address: int, *arguments: int) -> None:
    """Call compiled code: Numba's two leading pointers, then int64."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * len(arguments))
    spare = ctypes.c_int64()
    assert prototype(address)(ctypes.addressof(spare), None, *arguments) == 0


def compile_kernel(function: Callable[..., None]) -> Callable[..., None]:
    """A function of int64, compiled as a kernel of its test alone."""
    from kquants.compiler import compile, decorators  # here, as they take a second to import

    name = function.__name__
    decorators.kernel(name, arguments=function.__code__.co_argcount)(function)
    try:
        address = jit._link(compile.object_code(name), name)
    finally:
        del decorators.KERNELS[name]
    return lambda *arguments: call_address(address, *arguments)


def call(name: str, *arguments: int) -> None:
    """Call a kernel."""
    call_address(addresses()[name], *arguments)


def op_record(
    name: str,
    arguments: Arguments,
    units: int = 0,
    per_row: int = 0,
    outputs: bool = False,
    barrier: bool = True,
    slots: int = 1,
    units_factor: int = 0,
) -> NDArray[np.int64]:
    """An op of a program; an array stands for its address, and must outlive the record."""
    header = OpHeader(addresses()[name], units, per_row, int(outputs), int(barrier), slots, units_factor)
    given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    return np.array(record_of_op(header, type(arguments)(*given)), np.int64)


def batch_record(rows: int, outputs: int = 0, **parts: Array) -> NDArray[np.int64]:
    """A batch; `parts` are arrays named as in BatchRecord, and must outlive the record."""
    return np.array(BatchRecord(rows, outputs, **{name: a.ctypes.data for name, a in parts.items()}), np.int64)


def run_op(
    op: NDArray[np.int64],
    batch: NDArray[np.int64],
    units: int,
    scratch_bytes: int = 0,
    chunk: int = 1,
    threads: int = 1,
    order: Callable[[range], Iterable[int]] = reversed,
) -> None:
    """All units of an op in this thread, `chunk` at once, from the last to the first: no chunk may need another.

    Or in another `order` of the chunks' first units. Kernels see a job of `threads` threads.
    """
    scratch = fenced(np.full(scratch_bytes + 64, GUARD, np.uint8))
    if scratch_bytes >= SHARE_BYTES:
        scratch[PREPARED : PREPARED + 8] = 0
        scratch[SHARE_END : SHARE_END + 8].view(np.int64)[:] = units
        scratch[THREADS : THREADS + 8].view(np.int64)[:] = threads
    for first in order(range(0, units, chunk)):
        last = min(first + chunk, units)
        call_address(int(op[0]), op.ctypes.data, batch.ctypes.data, first, last, scratch.ctypes.data)
    assert (scratch[scratch_bytes:] == GUARD).all(), "wrote past the scratch"


def guarded(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array full of GUARD bytes."""
    array: Array = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, GUARD, np.uint8).view(dtype)
    return array.reshape(shape)


def fenced(data: Array) -> Array:
    """A copy whose last byte is followed by memory that cannot be read (where there is mprotect)."""
    room = -(-data.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, room + mmap.PAGESIZE), np.uint8)
    if os.name == "posix":
        end = ctypes.c_void_p(memory.ctypes.data + room)
        assert ctypes.CDLL(None).mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy: Array = memory[room - data.nbytes : room].view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def padded_rows(x: Array) -> Array:
    """Rows of float32, zero up to a multiple of 16 columns, as buffers of activations are."""
    return np.pad(x.astype(np.float32), ((0, 0), (0, -x.shape[1] % 16)))


def random_blocks(rng: np.random.Generator, kind: GGMLType, n: int) -> NDArray[np.uint8]:
    """`n` blocks of random bytes whose scales are finite, uint8 [n, bytes]: any sign, any exponent."""
    data = rng.integers(0, 256, (n, kind.nbytes), dtype=np.uint8)
    for at in kind.scales:
        data[:, at + 1] &= 0xFB  # clears an exponent bit, so that not all are ones
    if kind.name == "IQ1_M":
        data[:, 55] &= 0xBF
    return data


def put_scales(kind: GGMLType, blocks: NDArray[np.uint8], *scales: Array | int) -> None:
    """Set the float16 scales of blocks, uint8 [n, bytes], to these bits: a number for all, or one for each."""
    for at, bits in zip(kind.scales, scales, strict=False):
        blocks[:, at : at + 2] = np.asarray(bits, "<u2").reshape(-1, 1).view(np.uint8)
    if kind.name == "IQ1_M":  # four bits of its scale are the highest of each 16 bits
        words = blocks[:, 48:56].copy().view("<u2") & 0xFFF
        words |= np.asarray(scales[0], "<u2").reshape(-1, 1) >> np.array([0, 4, 8, 12], "<u2") << 12
        blocks[:, 48:56] = words.view(np.uint8)


def scales_of(kind: GGMLType, blocks: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """The float16 scales of blocks, uint8 [n, bytes]: for each that a block has, float32 [n]."""
    if kind.name == "IQ1_M":
        tops = blocks[:, 48:56].copy().view("<u2") >> 12 << np.array([0, 4, 8, 12], "<u2")
        return [tops.sum(1).astype("<u2").view(np.float16).astype(np.float32)]
    return [blocks[:, at : at + 2].copy().view(np.float16).astype(np.float32)[:, 0] for at in kind.scales]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two float32 arrays hold the same bits; one NaN is as good as another."""
    nan = np.isnan(a) & np.isnan(b)
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | nan).all())
