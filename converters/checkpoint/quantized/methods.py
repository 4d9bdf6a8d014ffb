"""The methods of quantization that are read, and which of them a checkpoint has."""

from collections.abc import Iterator, Mapping, Sequence

from converters.checkpoint.files import fail
from converters.checkpoint.quantized.awq import AWQ
from converters.checkpoint.quantized.bitsandbytes import BITSANDBYTES, find_bitsandbytes
from converters.checkpoint.quantized.compressed_tensors import COMPRESSED_TENSORS
from converters.checkpoint.quantized.fp8 import FP8, find_fp8
from converters.checkpoint.quantized.gptq import GPTQ
from converters.checkpoint.quantized.modelopt import MODELOPT
from converters.checkpoint.quantized.mxfp4 import MXFP4, find_mxfp4
from converters.checkpoint.quantized.nvfp4 import find_nvfp4
from converters.checkpoint.quantized.refused import refuse_method, refuse_names
from converters.checkpoint.quantized.settings import Settings
from converters.checkpoint.quantized.weight import Finder, Method, QuantizedWeight, Tensors
from converters.checkpoint.shard import StoredTensor
from edgellm.fmt import printable

_METHODS: tuple[Method, ...] = (AWQ, BITSANDBYTES, COMPRESSED_TENSORS, FP8, GPTQ, MODELOPT, MXFP4)
_WITHOUT_SETTINGS: tuple[Finder, ...] = (find_nvfp4, find_fp8, find_mxfp4, find_bitsandbytes)
"""Those whose tensors say all that must be known."""


def finders_of(settings: Settings) -> Sequence[Finder]:
    """The finders for a checkpoint with these settings. Raises ModelFileError for a method that is not read."""
    if not settings:
        return _WITHOUT_SETTINGS
    method = next((each for each in _METHODS if each.recognizes(settings)), None)
    return (method.finder(settings), *_WITHOUT_SETTINGS) if method else refuse_method(settings)


def find_quantized(finders: Sequence[Finder], stored: Tensors) -> Mapping[str, StoredTensor | QuantizedWeight]:
    """The tensors of a checkpoint by name: quantized ones in place of their parts, all others as they are stored.

    Raises ModelFileError for parts that do not fit each other, and for tensors of methods that are not read.
    """
    rest, found = dict(stored), dict[str, QuantizedWeight]()
    for weight in _all_weights(finders, rest):
        for part in weight.parts:
            rest.pop(part.name, None)
        if weight.name in found:
            fail(weight.file, f"tensor {printable(weight.name)} is there twice, quantized; download it again")
        found[weight.name] = weight
    for name in found.keys() & rest.keys():
        fail(rest[name].file, f"tensor {printable(name)} is there twice, once quantized; download it again")
    refuse_names(rest, has_settings=finders is not _WITHOUT_SETTINGS)
    return {**rest, **found}


def _all_weights(finders: Sequence[Finder], rest: Tensors) -> Iterator[QuantizedWeight]:
    """What each finder finds among the tensors that those before it leave in `rest`."""
    for finder in finders:
        yield from list(finder(rest))
