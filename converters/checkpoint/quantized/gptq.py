"""GPTQ, as AutoGPTQ and GPTQModel store it.

A module of `rows` outputs and `columns` inputs has, in place of `MODULE.weight`:

    MODULE.qweight   I32  [columns · bits / 32, rows]   integers packed along the columns, the first in the lowest bits
    MODULE.qzeros    I32  [groups, rows · bits / 32]    zero points packed along the rows
    MODULE.scales    F16  [groups, rows]                or BF16, or F32
    MODULE.g_idx     I32  [columns]                     the group of each column; not in all checkpoints

The format "gptq" stores zero points reduced by 1, "gptq_v2" as they are. With act-order (`desc_act`) the columns of a
group are scattered, and g_idx alone says where. Sources: `pack` of auto_gptq/nn_modules/qlinear/qlinear_cuda.py, and
`convert_gptq_v1_to_v2_format_module` of gptqmodel/utils/model.py. AutoRound writes the same layouts under other names.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.grouped import GroupedCache, GroupedMatrix, GroupedParts, Packing, Words
from converters.checkpoint.quantized.parts import checked_group_size, modules_with, part_of, sharing
from converters.checkpoint.quantized.settings import AUTOROUND, Settings, of_module
from converters.checkpoint.quantized.small import FLOATS
from converters.checkpoint.quantized.weight import Finder, Method, Precision, QuantizedWeight, Tensors
from converters.checkpoint.quantized.words import BITS, unpacked, word_count
from converters.checkpoint.shard import StoredTensor
from edgellm.fmt import printable

_FORMATS = {"gptq": True, "gptq_v2": False}
"""Whether zero points are stored reduced by 1, by `checkpoint_format`."""

_AUTOROUND = {
    "auto_round:auto_gptq": True,
    "auto_round:gptq": True,
    "auto_round:gptqmodel": False,
    "auto_round": False,
}
"""The same by AutoRound's `packing_format` (auto_round/inference/backend.py)."""


_STREAM = 3
"""The bits with which integers go on in the next word."""


class _Plan(NamedTuple):
    """The settings that matter; `reduced` tells whether zero points are stored reduced by 1."""

    bits: int
    group_size: int
    reduced: bool
    by_module: Mapping[str, Any]


def _recognizes(settings: Settings) -> bool:
    if settings.method == AUTOROUND:
        return settings.word("packing_format", "") in _AUTOROUND
    return settings.method == "gptq"


def _finder(settings: Settings) -> Finder:
    bits = settings.one_of("bits", BITS)
    return partial(_find, plan=_Plan(bits, settings.group_size(), _is_reduced(settings), settings.by_module))


def _is_reduced(settings: Settings) -> bool:
    """Whether zero points are stored reduced by 1. Raises ModelFileError for formats with other layouts."""
    if settings.method == AUTOROUND:
        return _AUTOROUND[settings.word("packing_format", "")]
    kind = settings.word("checkpoint_format", settings.word("format", "gptq"))
    if settings.flag("is_marlin_format", default=False):
        kind = "marlin"
    if kind not in _FORMATS:
        problem = f"GPTQ weights in the format {printable(kind)} are not read, only {' and '.join(_FORMATS)}"
        settings.fail(f"{problem}; get one of these")
    return _FORMATS[kind]


GPTQ = Method(_recognizes, _finder)


def _find(tensors: Tensors, plan: _Plan) -> Iterator[QuantizedWeight]:
    cache = GroupedCache()
    for module in modules_with(tensors, "qweight"):
        parts, bits, shape = _parts(tensors, module, plan)
        packing = Packing(bits, 1, partial(_codes, bits=bits), partial(_zeros, bits=bits, reduced=plan.reduced))
        precision = Precision("GPTQ", bits, sharing(shape[1], parts.scales.shape[0]))
        yield GroupedMatrix(parts, packing, shape, cache).weight(f"{module}.weight", precision)


def _parts(tensors: Tensors, module: str, plan: _Plan) -> tuple[GroupedParts, int, tuple[int, int]]:
    """The tensors of a module, its bits, and the shape of its weight. Raises ModelFileError."""
    codes = part_of(tensors, module, "qweight", ("I32",), (None, None))
    words, rows = codes.shape
    own = tensors.get(f"{module}.g_idx")
    bits = _bits_of_module(plan, module)
    columns = words * 32 // bits
    if own is not None:
        own = part_of(tensors, module, "g_idx", ("I32",), (None,))
        columns = own.shape[0]
        bits = _bits_that_fit(codes, columns, bits)
    elif word_count(columns, bits) != words:
        problem = f"tensor {printable(codes.name)} has {words} words in a column, which no integers of {bits} bits fill"
        fail(codes.file, f"{problem}; download the checkpoint again")
    scales = part_of(tensors, module, "scales", tuple(FLOATS), (None, rows))
    groups = scales.shape[0]
    zeros = part_of(tensors, module, "qzeros", ("I32",), (groups, word_count(rows, bits)))
    each = of_module(plan.by_module, module, "group_size", plan.group_size)
    size = columns if own is not None else checked_group_size(scales, each, columns, groups)
    return GroupedParts(codes, zeros, scales, own, size), bits, (rows, columns)


def _bits_of_module(plan: _Plan, module: str) -> int:
    """The bits of a module; AutoRound lists those of modules that have others than the rest."""
    bits = of_module(plan.by_module, module, "bits", plan.bits)
    return bits if bits in BITS else plan.bits


def _bits_that_fit(codes: StoredTensor, columns: int, bits: int) -> int:
    """The bits with which `columns` integers fill the words of a column of `codes`; modules may differ in them."""
    for each in (bits, *BITS):
        if word_count(columns, each) == codes.shape[0]:
            return each
    problem = f"tensor {printable(codes.name)} has {codes.shape[0]} words in a column, and g_idx {columns} numbers"
    return fail(codes.file, f"{problem}; download the checkpoint again")


def _codes(words: Words, bits: int) -> NDArray[np.uint8]:
    """The integers of words [n, rows], by row."""
    return unpacked(np.ascontiguousarray(words.T), bits)


def _zeros(words: Words, bits: int, reduced: bool) -> NDArray[np.uint8]:
    """The zero points [groups, rows] of words [groups, n].

    They were reduced in whole words, so that a 0 borrowed from the next one, but for 3 bits, where each was for itself.
    """
    if reduced and bits != _STREAM:
        words = words + np.uint32(sum(1 << at for at in range(0, 32, bits)))
    zeros = unpacked(words, bits)
    return zeros + np.uint8(1) & np.uint8((1 << bits) - 1) if reduced and bits == _STREAM else zeros
