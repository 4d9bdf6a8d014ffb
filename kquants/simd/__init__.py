"""Vectors as Numba values: the types and the operations that the kernels are written in.

`@intrinsic` functions emit plain LLVM vector instructions, which LLVM lowers to whatever the CPU has (two AVX2
registers, four NEON ones, ...). But for products (`kquants.simd.dot4`, `kquants.matmul.row_by_row`,
`kquants.matmul.amx`, `kquants.simd.bf16`) and bits and permutations of bytes (`kquants.simd.bytes`), nothing names an
instruction.

| type    | lanes | holds                               |
|---------|-------|-------------------------------------|
| `F32`   | 16    | float32 weights, activations, sums  |
| `I32`   | 16    | exact integer sums                  |
| `I8`    | 32    | one block of quantized values       |
| `I8_64` | 64    | one block of two rows               |

Kernels call operations on such values (`add_f32`, `load_f32x16`, …). Functions that take an LLVM builder `b` first
(`at`, `load`, `splat`, `fold`, …) are what operations are made of: they run while a kernel is compiled.
"""

from kquants.simd.bf16 import *  # noqa: F403
from kquants.simd.bytes import *  # noqa: F403
from kquants.simd.floats import *  # noqa: F403
from kquants.simd.memory import *  # noqa: F403
from kquants.simd.vector_memory import *  # noqa: F403
from kquants.simd.vectors import *  # noqa: F403
