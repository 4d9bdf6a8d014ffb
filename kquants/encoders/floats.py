"""F32, F16 and BF16: each value rounded to nearest, ties to even.

F16   IEEE, denormals too: what numpy's astype gives
BF16  the upper half of a float32, after adding half of what the lower half can hold
"""

from typing import Any

import numba as nb

from kquants.compiler.decorators import kernel
from kquants.encoders.encode_result import first_beyond, write_bad, write_result
from kquants.encoders.vectors import stack_buffer, store_bf16x16
from kquants.formats import bf16, f16, f32
from kquants.simd import add_square, copy, load_f32x16_part, store_f16x16, store_f32x16, sub_f32, zero_f64

_LARGEST = 3.4028234663852886e38


def _define(name: str, fmt: Any, store: Any, limit: float) -> None:
    """Register the encoder of a float format; values above `limit` would become Inf."""
    lanes, size, limit = fmt.lanes, fmt.WEIGHT_BYTES, nb.float32(limit)
    take_buffer = stack_buffer(64)

    @kernel(f"encode_{name}", arguments=6)
    def encode(source: int, rows: int, columns: int, importance: int, target: int, result: int) -> None:
        n, packed = rows * columns, take_buffer()
        errors, squares = zero_f64(), zero_f64()
        for k in range(0, n, 16):
            count = min(16, n - k)
            bad = first_beyond(source + 4 * k, count, limit)
            if bad >= 0:
                write_bad(result, k + bad)
                return
            x = load_f32x16_part(source + 4 * k, count)
            at = target + size * k if count == 16 else packed
            store(at, x)
            errors, squares = add_square(errors, sub_f32(x, lanes(at))), add_square(squares, x)
            if count < 16:
                copy(target + size * k, packed, size * count)
        write_result(result, errors, squares)


_define("f32", f32, store_f32x16, _LARGEST)
_define("f16", f16, store_f16x16, 65519.99609375)  # from 65520 on the nearest float16 would be 65536
_define("bf16", bf16, store_bf16x16, 3.396177326406364e38)  # the largest that does not round to 2**128
