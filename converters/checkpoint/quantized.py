"""Refusing checkpoints whose weights are quantized already, but for FP8 and MXFP4."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from converters.checkpoint.files import fail, without_nulls
from edgellm.fmt import printable

_READ = ("fp8", "fbgemm_fp8", "compressed-tensors", "mxfp4")
# "dense" marks checkpoints in which only the KV cache is quantized.
_FORMATS_WITH_FP8 = ("float-quantized", "naive-quantized", "dense")
_NAMES = {"gptq": "GPTQ", "awq": "AWQ"}
_ORIGINAL = "get the checkpoint that it was made from"


def check_quantization(path: Path, config: Mapping[str, Any]) -> tuple[int, int]:
    """The rows and columns of a block of FP8 weights that shares a scale.

    Raises ModelFileError for weights quantized by another method; `path` names config.json.
    """
    settings = without_nulls(config.get("quantization_config")) or {}
    if not isinstance(settings, dict):
        fail(path, "quantization_config must be a JSON object; download it again")
    if settings:
        _check_method(path, settings)
    block = settings.get("weight_block_size") or [128, 128]
    if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
        fail(path, "weight_block_size must be two numbers above 0; download it again")
    return block[0], block[1]


def _check_method(path: Path, settings: dict[str, Any]) -> None:
    in_bits = settings.get("load_in_4bit") or settings.get("load_in_8bit")
    method = str(settings.get("quant_method", "bitsandbytes" if in_bits else "a method without a name"))
    kind = str(settings.get("format", _FORMATS_WITH_FP8[0]))
    if method in _READ and (method != "compressed-tensors" or kind in _FORMATS_WITH_FP8):
        return
    name = f"{method} ({kind})" if method == "compressed-tensors" else _NAMES.get(method, method)
    fail(path, f"the weights are quantized already, by {printable(name)}; {_ORIGINAL}")


def check_names(path: Path, names: Iterable[str]) -> None:
    """Refuse the tensors of older quantized checkpoints, whose config.json does not mention it."""
    for name in names:
        if name.endswith(".qweight"):
            fail(path, f"tensor {printable(name)} is quantized already, by GPTQ or AWQ; {_ORIGINAL}")
