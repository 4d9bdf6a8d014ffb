"""AWQ, as AutoAWQ stores it: integers of 4 bits with zero points, eight in a word.

A module of `rows` outputs and `columns` inputs has, in place of `MODULE.weight`, in the version "gemm":

    MODULE.qweight   I32  [columns, rows / 8]    packed along the rows: bits 4 i … 4 i + 3 of a word are row _ORDER[i]
    MODULE.qzeros    I32  [groups, rows / 8]     packed in the same way
    MODULE.scales    F16  [groups, rows]         or BF16, or F32

The version "gemv" is in awq_gemv.py. Source: `from_linear` of awq/modules/linear/gemm.py. AutoRound writes the same
layout under the `packing_format` "auto_round:auto_awq".
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.awq_gemv import find_gemv
from converters.checkpoint.quantized.grouped import GroupedCache, GroupedMatrix, GroupedParts, Packing, Words
from converters.checkpoint.quantized.parts import checked_group_size, modules_with, part_of, sharing
from converters.checkpoint.quantized.refused import INSTEAD
from converters.checkpoint.quantized.settings import AUTOROUND, Settings, of_module
from converters.checkpoint.quantized.small import FLOATS
from converters.checkpoint.quantized.weight import Finder, Method, Precision, QuantizedWeight, Tensors
from converters.checkpoint.quantized.words import unpacked
from edgellm.fmt import printable

_BITS, _IN_WORD = 4, 8
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_PLACES = np.argsort(_ORDER)
"""The place in a word of each of its eight rows."""

_AUTOROUND = "auto_round:auto_awq"


def _recognizes(settings: Settings) -> bool:
    if settings.method == AUTOROUND:
        return settings.word("packing_format", "") == _AUTOROUND
    return settings.method == "awq"


def _finder(settings: Settings) -> Finder:
    version = settings.word("version", settings.word("checkpoint_format", settings.word("format", "gemm")))
    finders: dict[str, Finder] = {
        "gemm": partial(_find_gemm, group_size=settings.group_size(128), by_module=settings.by_module),
        "gemv": partial(find_gemv, group_size=settings.group_size(128)),
    }
    if version.lower() not in finders:
        read = " and ".join(finders)
        settings.fail(f"AWQ weights in the version {printable(version)} are not read, only {read}; get one of these")
    settings.one_of("bits", (_BITS,), _BITS)
    return finders[version.lower()]


AWQ = Method(_recognizes, _finder)


def _find_gemm(tensors: Tensors, group_size: int, by_module: Mapping[str, Any]) -> Iterator[QuantizedWeight]:
    cache, packing = GroupedCache(), Packing(_BITS, _IN_WORD, _codes, _in_order)
    for module in modules_with(tensors, "qweight"):
        codes = part_of(tensors, module, "qweight", ("I32",), (None, None))
        if (bits := of_module(by_module, module, "bits", _BITS)) != _BITS:
            what = f"{printable(module)} is quantized by AWQ at {bits} bits (extra_config), and only {_BITS} are read"
            fail(codes.file, f"{what}; {INSTEAD}")
        columns, rows = codes.shape[0], codes.shape[1] * _IN_WORD
        scales = part_of(tensors, module, "scales", tuple(FLOATS), (None, rows))
        groups = scales.shape[0]
        zeros = part_of(tensors, module, "qzeros", ("I32",), (groups, codes.shape[1]))
        each = of_module(by_module, module, "group_size", group_size)
        size = checked_group_size(scales, each, columns, groups)
        parts = GroupedParts(codes, zeros, scales, None, size)
        precision = Precision("AWQ", _BITS, sharing(columns, groups))
        yield GroupedMatrix(parts, packing, (rows, columns), cache).weight(f"{module}.weight", precision)


def _codes(words: Words) -> NDArray[np.uint8]:
    """The integers of words [columns, n], by row."""
    return _in_order(words).T


def _in_order(words: Words) -> NDArray[np.uint8]:
    """The integers of words [·, n], as [·, 8 n] in the order of rows."""
    return unpacked(words, _BITS).reshape(len(words), -1, _IN_WORD)[..., _PLACES].reshape(len(words), -1)
