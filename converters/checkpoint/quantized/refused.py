"""Methods of quantization that are not read, refused by their names."""

import re
from typing import NoReturn

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.weight import Tensors
from edgellm.fmt import printable

_NAMES = {
    "aqlm": "AQLM",
    "auto-round": "AutoRound",
    "awq": "AWQ",
    "bitblas": "BitBLAS",
    "bitnet": "BitNet",
    "bitsandbytes": "bitsandbytes",
    "eetq": "EETQ",
    "exl2": "EXL2",
    "exl3": "EXL3",
    "fouroversix": "Four Over Six",
    "fp_quant": "FP-Quant",
    "gptq": "GPTQ",
    "higgs": "HIGGS",
    "hqq": "HQQ",
    "marlin": "Marlin",
    "paroquant": "ParoQuant",
    "qqq": "QQQ",
    "quanto": "Quanto",
    "quark": "Quark",
    "sinq": "SINQ",
    "spqr": "SpQR",
    "torchao": "torchao",
    "vptq": "VPTQ",
}
"""The names of methods as their makers write them, by `quant_method` in config.json."""

_TENSORS = {
    r"\.qweight$": "GPTQ or AWQ",
    r"\.q_(weight|scale_max|invperm)$": "EXL2",
    r"\.trellis$": "EXL3",
    r"\.quant_state\.bitsandbytes__\w+$": "bitsandbytes",
    r"\.W_q$": "HQQ",
}
"""Methods by the names of tensors."""

INSTEAD = "get the checkpoint that it was made from, or one in GPTQ, AWQ, compressed-tensors, bitsandbytes or FP8"


def refuse_method(settings: Settings) -> NoReturn:
    """Raise ModelFileError that names the method of `settings`."""
    method = settings.method
    name = printable(_NAMES.get(method, method) if method else "a method without a name")
    for key in ("format", "packing_format"):
        if key in settings:
            name = f"{name} ({printable(str(settings.value(key)))})"
    settings.fail(f"the weights are quantized already, by {name}, which is not read; {INSTEAD}")


def refuse_names(tensors: Tensors, has_settings: bool) -> None:
    """Raise ModelFileError if one of the tensors that no finder took is of a method of quantization.

    `has_settings` tells whether the checkpoint says of a quantization at all.
    """
    what = "and the settings of the quantization say otherwise" if has_settings else "and config.json does not say so"
    for name, tensor in tensors.items():
        for pattern, method in _TENSORS.items():
            if re.search(pattern, name):
                problem = f"tensor {printable(name)} is quantized already, by {method}"
                fail(tensor.file, f"{problem}, {what}; {INSTEAD}")
