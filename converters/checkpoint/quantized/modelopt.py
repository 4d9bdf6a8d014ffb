"""ModelOpt of NVIDIA: FP8 (fp8.py) and NVFP4 (nvfp4.py), also mixed in one checkpoint.

The tensors of a module tell which of them it has. `quant_algo` tells whether there is more to compute, such as inputs
that are scaled first (AWQ). It is in config.json or in hf_quant_config.json, for each module under `quantized_layers`
where it is "MIXED_PRECISION". Source: modelopt/torch/export/quant_utils.py and model_config.py.
"""

from collections.abc import Iterator, Mapping

from converters.checkpoint.quantized.fp8 import find_fp8
from converters.checkpoint.quantized.nvfp4 import find_nvfp4
from converters.checkpoint.quantized.refused import INSTEAD
from converters.checkpoint.quantized.settings import MODELOPT as NAME
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.weight import Finder, Method, QuantizedWeight, Tensors
from edgellm.fmt import printable

_MIXED = "MIXED_PRECISION"
_ALGORITHMS = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4")


def _recognizes(settings: Settings) -> bool:
    return settings.method.startswith(NAME)


def _finder(settings: Settings) -> Finder:
    algorithm = settings.word("quant_algo", "")
    found = {algorithm} - {"", _MIXED}
    for layer in settings.section("quantized_layers").values():
        own = layer.get("quant_algo") if isinstance(layer, Mapping) else None
        found |= {str(own)} if own else set()
    for name in sorted(found - {*_ALGORITHMS}):
        read = ", ".join(_ALGORITHMS)
        settings.fail(f"ModelOpt weights in {printable(name)} are not read, only {read}; {INSTEAD}")
    return _find


MODELOPT = Method(_recognizes, _finder)


def _find(tensors: Tensors) -> Iterator[QuantizedWeight]:
    yield from find_nvfp4(tensors)
    yield from find_fp8(tensors)
