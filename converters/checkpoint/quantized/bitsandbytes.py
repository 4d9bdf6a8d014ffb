"""bitsandbytes: floats of 4 bits in blocks (bitsandbytes_4bit.py), or integers of 8 bits with a scale for each row.

8 bits, the module `Linear8bitLt`:

    MODULE.weight         I8   [rows, columns]
    MODULE.SCB            F32  [rows]                weight = code · SCB[row] / 127
    MODULE.weight_format  U8   []                    0, rows as they are; not always there

Sources: `Linear8bitLt` of bitsandbytes/nn/modules.py, and `int8_vectorwise_dequant` of bitsandbytes/functional.py.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.bitsandbytes_4bit import find_4bit
from converters.checkpoint.quantized.parts import modules_with, part_of
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.small import check_finite, read_floats
from converters.checkpoint.quantized.weight import Finder, Method, Precision, QuantizedWeight, Tensors
from converters.checkpoint.rows import stored
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import RowReader
from edgellm.fmt import printable

_LARGEST = 127
_PRECISION = Precision("bitsandbytes", 8, "with a scale for each row")


def find_bitsandbytes(tensors: Tensors) -> Iterator[QuantizedWeight]:
    """The weights of 4 and of 8 bits. Raises ModelFileError."""
    yield from find_4bit(tensors)
    for module in modules_with(tensors, "SCB"):
        codes = part_of(tensors, module, "weight", ("I8",), (None, None))
        scales = part_of(tensors, module, "SCB", ("F32",), (codes.shape[0],))
        order = tensors.get(f"{module}.weight_format")
        parts = (codes, scales, order) if order else (codes, scales)
        yield QuantizedWeight(codes.name, codes.shape, "F32", parts, _PRECISION, partial(_reader, codes, scales, order))


def _recognizes(settings: Settings) -> bool:
    return settings.method == "bitsandbytes"


def _finder(settings: Settings) -> Finder:
    return find_bitsandbytes


BITSANDBYTES = Method(_recognizes, _finder)


def _reader(codes: StoredTensor, scales: StoredTensor, order: StoredTensor | None) -> RowReader:
    if order and read_bytes(order.file, order.offset, order.nbytes).any():
        problem = f"tensor {printable(codes.name)} is ordered for one kind of GPU (weight_format)"
        fail(codes.file, f"{problem}; save the checkpoint anew with another version of bitsandbytes")
    factors = read_floats(scales)
    check_finite(scales, factors, 0, "row")
    read = stored(codes)

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        exact = read(first, last).view(np.int8) * factors[first:last, None].astype(np.float64) / _LARGEST
        with np.errstate(over="ignore"):  # the encoder refuses Inf, naming row and column
            return exact.astype(np.float32).view(np.uint8)

    return rows
