"""From Hugging Face checkpoints to GGUF files, and from GGUF files to smaller ones.

    from converters import convert, quantize
    report = convert("checkpoint", "model.gguf", "Q4_K_M")
    report = quantize("model-f16.gguf", "model.gguf", "Q4_K_M", tensor_types=["ffn_down=Q6_K"])
    print(report.bits_per_weight, report.worst(5))

A checkpoint's way into a file:

    from_checkpoint.py    `convert`: checks everything, then runs a `Conversion`; from_gguf.py does it for `quantize`
    checkpoint/           reads config.json and the safetensors files
    architectures/        metadata and tensors of the model, under their GGUF names
    vocabulary/           the tokenizer and the chat template as metadata
    head_target.py        the model that a draft head is for, whose vocabulary its file has
    importance/           `imatrix`: which columns matter, measured; and their weights in a conversion
    quant_mixes/          the type of each tensor, as llama.cpp's `llama-quantize` chooses it
    header.py             the GGUF header and the offset of each tensor
    loadable.py           opens the header as edgellm will, before any weight is read
    conversion.py         `Conversion`: `plan()` is the dry run, `run()` writes the file
    streaming.py          reads, converts (row_converter.py) and writes all weights in chunks of rows, on all threads
    output.py             writes a temporary file, which gets the target's name when it is complete
    quantization_note.py  what plan and report say of a checkpoint that is quantized already
    report.py             the plan, and the report with the error of each tensor

The public names load on first use, so that a part of this package can be imported without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converters.conversion import Conversion
    from converters.from_checkpoint import convert, prepare_convert
    from converters.from_gguf import prepare_quantize, quantize
    from converters.importance.collect import imatrix
    from converters.report import ConversionPlan, Report

_MODULE_OF = {
    "Conversion": "converters.conversion",
    "ConversionPlan": "converters.report",
    "Report": "converters.report",
    "convert": "converters.from_checkpoint",
    "imatrix": "converters.importance.collect",
    "prepare_convert": "converters.from_checkpoint",
    "prepare_quantize": "converters.from_gguf",
    "quantize": "converters.from_gguf",
}

__all__ = [
    "Conversion",
    "ConversionPlan",
    "Report",
    "convert",
    "imatrix",
    "prepare_convert",
    "prepare_quantize",
    "quantize",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'converters' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
