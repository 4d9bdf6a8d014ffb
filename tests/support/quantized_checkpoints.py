"""Tiny checkpoints whose projections are quantized, and the same ones with these weights as floats."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from support.checkpoint_numbers import encode
from support.checkpoint_tokenizers import write_json, write_tokenizer
from support.make_checkpoint import Spec, Stored, config_of, tensor_shapes, weights_of, write_safetensors
from support.quantized_weights import QuantizedModule, stored

Quantize = Callable[[str, int, int], QuantizedModule]
"""Makes the module NAME with so many rows and columns."""

TINY = {"width": 64, "layers": 1, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 96}


def write_pair(
    folder: Path, quantize: Quantize, settings: Mapping[str, Any] | None, family: str = "llama", **options: Any
) -> tuple[Path, Path]:
    """Write two checkpoints: with projections by `quantize`, and with the same weights as F32. Returns their folders.

    `settings` are those of quantization_config; `options` are fields of Spec.
    """
    spec = Spec(**{"family": family, "dtype": "F16", **TINY, **options})
    exact, quantized = dict[str, Stored](), dict[str, Stored]()
    for name, shape in tensor_shapes(spec):
        if name.endswith("_proj.weight"):
            module = quantize(name.removesuffix(".weight"), *shape)
            quantized |= module.tensors
            exact[name] = stored(module.weights.astype(np.float32))
        else:
            values = np.resize(weights_of(spec, name, shape), shape)
            quantized[name] = exact[name] = Stored("F16", shape, encode(values, "F16"))
    config = config_of(spec)
    write(folder / "exact" / "model", spec.family, config, exact)
    given = {"quantization_config": dict(settings)} if settings else {}
    write(folder / "quantized" / "model", spec.family, config | given, quantized)
    return folder / "quantized" / "model", folder / "exact" / "model"


def write(folder: Path, family: str, config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> None:
    """Write a checkpoint of one file into `folder`, which is made."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", dict(config))
    write_tokenizer(folder, family)
    write_safetensors(folder / "model.safetensors", tensors)
