"""SIMD vectors as Numba values: the types and the operations that kernels are written in.

    vectors          vector types, `define` (an operation from LLVM instructions), shuffles and reductions
    memory           addresses, loads and stores of scalars, prefetches, atomic operations
    vector_memory    loads and stores of vectors
    floats, bytes    arithmetic of float32; bits, shifts and table look-ups of bytes
    doubles          sums of squares in float64
    tables           look-ups in tables that are longer than a vector
    dot4             dot products of bytes, in a lowering for each kind of CPU (`dot4_madd`, `dot_accumulator`)
    dot2             dot products of int16
    bf16             dot products of bfloat16 (AVX-512 BF16)

| type    | lanes | holds                               |
|---------|-------|-------------------------------------|
| `F32`   | 16    | float32 weights, activations, sums  |
| `F64`   | 16    | sums of squares of float32          |
| `I32`   | 16    | exact integer sums                  |
| `I8`    | 32    | one block of quantized values       |
| `I8_64` | 64    | one block of two rows               |

Kernels call operations on such values (`add_f32`, `load_f32x16`, …). Functions that take an LLVM builder `b` first
(`at`, `load`, `splat`, `reduce_lanes`, …) run while a kernel is compiled; operations are made of them.

Operations emit plain LLVM vector instructions, which LLVM lowers to those of the CPU (two AVX2 registers, four NEON
registers, …). Only dot products (here and in `kquants.matmul`) and permutations of bytes name an instruction.
"""

from kquants.simd.bf16 import *  # noqa: F403
from kquants.simd.bytes import *  # noqa: F403
from kquants.simd.doubles import *  # noqa: F403
from kquants.simd.floats import *  # noqa: F403
from kquants.simd.memory import *  # noqa: F403
from kquants.simd.tables import *  # noqa: F403
from kquants.simd.vector_memory import *  # noqa: F403
from kquants.simd.vectors import *  # noqa: F403
