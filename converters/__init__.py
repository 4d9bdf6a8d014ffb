"""From Hugging Face checkpoints to GGUF files, and from GGUF files to smaller ones.

    from converters import convert, quantize
    report = convert("checkpoint", "model.gguf", "Q4_K_M")
    report = quantize("model-f16.gguf", "model.gguf", "Q4_K_M", tensor_types=["ffn_down=Q6_K"])
    print(report.bits_per_weight, report.worst(5))

`prepare_convert` and `prepare_quantize` check everything and read no weight; the `Job` that they give can `plan()`
and `run()`. The names load on first use: the parts of this package need not load the whole.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converters.from_checkpoint import convert, prepare_convert
    from converters.from_gguf import prepare_quantize, quantize
    from converters.job import Job
    from converters.report import Plan, Report

_HOME_OF = {
    "Job": "converters.job",
    "Plan": "converters.report",
    "Report": "converters.report",
    "convert": "converters.from_checkpoint",
    "prepare_convert": "converters.from_checkpoint",
    "prepare_quantize": "converters.from_gguf",
    "quantize": "converters.from_gguf",
}

__all__ = ["Job", "Plan", "Report", "convert", "prepare_convert", "prepare_quantize", "quantize"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'converters' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
