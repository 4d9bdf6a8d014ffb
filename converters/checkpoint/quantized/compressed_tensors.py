"""compressed-tensors, the format of LLM Compressor: integers, FP8, NVFP4 and MXFP4, also mixed in one checkpoint.

config.json describes groups of modules (`config_groups`), each by the modules that it is for and the scheme of their
weights. The stored tensors of a module tell which kind it is of, and which scheme fits it:

    weight_packed I32                      packed integers                  packed_integers.py
    weight I8, weight_scale                integers in bytes                packed_integers.py
    weight F8_E4M3, weight_scale           FP8                              fp8.py
    weight_packed U8, weight_scale F8      NVFP4                            nvfp4.py
    weight_packed U8, weight_scale U8      MXFP4                            mxfp4_packed.py

Source: `QuantizationArgs` of compressed_tensors/quantization/quant_args.py, and `CompressionFormat` of
compressed_tensors/config/base.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from converters.checkpoint.quantized.fp8 import Block, find_fp8, read_block
from converters.checkpoint.quantized.mxfp4_packed import SCALE_DTYPES, packed_mxfp4
from converters.checkpoint.quantized.nvfp4 import find_nvfp4
from converters.checkpoint.quantized.packed_integers import IntegerScheme, byte_integers, packed_integers
from converters.checkpoint.quantized.parts import modules_with
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.weight import Finder, Method, QuantizedWeight, Tensors
from edgellm.fmt import printable

_FORMATS = (
    *("pack-quantized", "int-quantized", "float-quantized", "naive-quantized"),
    *("nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision", "dense"),
)
"""The formats that are read; "dense" marks checkpoints in which only the KV cache is quantized."""
_BITS = (2, 8)
"""The least and the most bits of integers."""


def _recognizes(settings: Settings) -> bool:
    return settings.method == "compressed-tensors"


def _finder(settings: Settings) -> Finder:
    _check_format(settings)
    sparsity = Settings(settings.path, settings.section("sparsity_config"))
    if sparsity.word("format", "dense") != "dense":
        settings.fail(f"sparse weights in the format {printable(sparsity.word('format', ''))} are not read; {_INSTEAD}")
    _check_transforms(settings)
    integers, blocks = list[IntegerScheme](), list[Block]()
    for group in _objects(settings, settings.section("config_groups")):
        _check_format(group)
        weights = Settings(settings.path, group.section("weights"))
        if not weights:
            continue
        size = weights.group_size()
        if weights.word("type", "int") == "int":
            integers.append(IntegerScheme(weights.integer("num_bits", 8, *_BITS), size if size > 0 else None))
        elif "block_structure" in weights:
            blocks.append(read_block(weights, "block_structure"))
        elif size > 0:
            blocks.append((1, size))
    return partial(_find, integers=integers, blocks=blocks)


COMPRESSED_TENSORS = Method(_recognizes, _finder)

_INSTEAD = "get the checkpoint that it was made from, or one without it"


def _check_format(settings: Settings) -> None:
    """Refuse a layout that is not read, such as that of one GPU kernel. Raises ModelFileError."""
    kind = settings.word("format", "dense")
    if kind not in _FORMATS:
        problem = f"compressed-tensors weights in the format {printable(kind)} are not read"
        settings.fail(f"{problem}, only {', '.join(_FORMATS[:6])}; get one of these")


def _check_transforms(settings: Settings) -> None:
    """Refuse weights whose inputs must be rotated before. Raises ModelFileError.

    Rotations of weights alone are part of the weights (`TransformLocation` of compressed_tensors/transform).
    """
    transforms = Settings(settings.path, settings.section("transform_config"))
    for scheme in _objects(settings, transforms.section("config_groups")):
        applied = scheme.value("apply") or []
        if not isinstance(applied, list) or not all(map(_is_for_weights, applied)):
            settings.fail(f"weights whose inputs are rotated (transform_config) are not read; {_INSTEAD}")


def _is_for_weights(applied: Any) -> bool:
    """Whether a rotation is applied to weights, by its `location`."""
    place = applied.get("location") if isinstance(applied, Mapping) else applied
    return str(place).startswith("weight")


def _objects(settings: Settings, section: Mapping[str, Any]) -> Iterator[Settings]:
    """The objects in a section of the settings."""
    for key, value in section.items():
        if not isinstance(value, dict):
            settings.fail(f"{printable(str(key))} of the quantization is no object; download it again")
        yield Settings(settings.path, value)


def _find(tensors: Tensors, integers: Sequence[IntegerScheme], blocks: Sequence[Block]) -> Iterator[QuantizedWeight]:
    yield from find_nvfp4(tensors)
    for module in modules_with(tensors, "weight_packed"):
        scale = tensors.get(f"{module}.weight_scale")
        if tensors[f"{module}.weight_packed"].dtype != "U8":
            yield packed_integers(tensors, module, integers)
        elif scale is None or scale.dtype in SCALE_DTYPES:
            yield packed_mxfp4(tensors, module)
    for module in modules_with(tensors, "weight_scale"):
        weight = tensors.get(f"{module}.weight")
        if weight is not None and weight.dtype == "I8":
            yield byte_integers(tensors, module)
    yield from find_fp8(tensors, blocks)
