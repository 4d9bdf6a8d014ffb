"""The checkpoints whose conversion is compared with llama.cpp's, and the facts of a GGUF file that are compared."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

from support.make_checkpoint import write_checkpoint

GOLDEN = Path(__file__).parent / "golden"
CONVERTED_FAMILIES = GOLDEN / "converted_families"
CONVERTED_HEADS = GOLDEN / "converted_heads"

REFUSED_FAMILIES = ("hunyuan_alpha", "hunyuan_moe_alpha")
"""The cases of `support.families` that llama.cpp's converter refuses: it asks for a published context length."""

_CARD = """---
license: apache-2.0
license_name: a name
license_link: https://example.org/licence
model_creator: A. Person
version: v2.5
base_model:
- first-org/Base-Model-7B-v1.0
- https://huggingface.co/second-org/Other-1.5B
datasets:
- org/data-set
tags:
- text-generation
- tiny
language:
- en
- no
pipeline_tag: text-generation
---
# A card
"""
_SAMPLING = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1}
# The converter knows two ways to scale FP8 weights, and takes a scale for each row or for all under the same name.
_FP8 = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    },
}
_SMALL = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96}


@dataclass(frozen=True)
class Case:
    """A checkpoint: the options of make_checkpoint's Spec, the name of its folder, and further files by name.

    `options` None is the trained model of the shared folder. `edit` changes the tensors, which must be F32, and
    `outtype` is what the converter is asked for.
    """

    outtype: str
    options: dict[str, Any] | None = None
    folder: str = "checkpoint"
    files: dict[str, str] = field(default_factory=dict)
    edit: Callable[[dict[str, Any]], None] | None = None

    @property
    def pre(self) -> str:
        """The pre-tokenizer's name, which the converter looks up by a hash of published models alone."""
        family = (self.options or {"family": "tale"}).get("family", "llama")
        return {"llama": "llama-bpe", "smollm2": "smollm", "tale": "gpt-2"}.get(family, "qwen2")

    def write(self, parent: Path) -> Path:
        """The folder of the checkpoint, written below `parent`."""
        assert self.options is not None
        options = self.options | {"config": tuple(self.options.get("config", {}).items())}
        folder = write_checkpoint(parent / self.folder, **options)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if self.edit is not None:
            tensors = load_file(folder / "model.safetensors")
            self.edit(tensors)
            save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder


def _add_biases(tensors: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        values = np.random.default_rng(len(name)).standard_normal(len(tensors[name]), np.float32)
        tensors[name.replace(".weight", ".bias")] = values


def _add_inverse_frequencies(tensors: dict[str, Any]) -> None:
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(16, np.float32)


def _add_output(tensors: dict[str, Any]) -> None:
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + np.float32(1)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 16.0, "beta_slow": 2.0}

CASES: dict[str, Case] = {
    "llama": Case(
        "bf16",
        {"dtype": "BF16"},
        "Llama-9.1-1.3M-Instruct-v2",
        {"README.md": _CARD, "generation_config.json": json.dumps(_SAMPLING)},
    ),
    "llama3-rope": Case(
        "f16", _SMALL | {"dtype": "F16", "layers": 11, "shards": 2, "config": {"rope_scaling": LLAMA3}}
    ),
    "llama-linear": Case(
        "f16",
        _SMALL | {"dtype": "F32", "config": {"rope_scaling": {"type": "linear", "factor": 2.0}, "head_dim": None}},
        edit=_add_inverse_frequencies,
    ),
    "llama-biases": Case(
        "f16", _SMALL | {"dtype": "F32", "config": {"attention_bias": True, "mlp_bias": True}}, edit=_add_biases
    ),
    "mistral": Case(
        "bf16",
        {"family": "mistral", "dtype": "BF16", "config": {"sliding_window": 128}},
        "mistral-tiny-v0.1",
        {"README.md": "---\nlanguage: [fr]\nbase_model: org/base\n---\n"},
    ),
    "smollm2": Case("f16", {"family": "smollm2", "dtype": "BF16"}, "SmolLM2-2M"),
    "smollm2-output": Case("bf16", _SMALL | {"family": "smollm2", "dtype": "F32"}, edit=_add_output),
    "qwen2": Case("bf16", {"family": "qwen2", "dtype": "F16", "config": {"head_dim": None}}, "Qwen2.5-0.5B-Instruct"),
    "qwen2-yarn": Case(
        "bf16", _SMALL | {"family": "qwen2", "config": {"rope_scaling": YARN | {"attention_factor": 1.25}}}
    ),
    "qwen3": Case(
        "bf16",
        {
            "family": "qwen3",
            "head_dim": 128,
            "shards": 2,
            "config": {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        },
    ),
    "qwen3-fp8-blocks": Case(
        "bf16", {"family": "qwen3", "dtype": "F8_E4M3", "scales": "block", "width": 192, "ffn": 320, "shards": 2}
    ),
    "llama-fp8-rows": Case("f16", {"dtype": "F8_E4M3", "scales": "row", "config": {"quantization_config": _FP8}}),
    "qwen2-fp8-tensors": Case(
        "bf16",
        _SMALL
        | {
            "family": "qwen2",
            "dtype": "F8_E5M2",
            "scales": "tensor",
            "config": {"quantization_config": _FP8},
        },
    ),
    "tale-13m": Case("bf16"),
}


def facts(path: Path) -> dict[str, Any]:
    """What a GGUF file holds: each key with its kind and value, each tensor with its type, shape and bytes.

    Arrays of more than 20 items and bytes are represented by their SHA-256.
    """
    reader = gguf.GGUFReader(path)
    fields = [field for name, field in reader.fields.items() if not name.startswith("GGUF.")]
    return {
        "metadata": {field.name: ["/".join(t.name for t in field.types), _short(field.contents())] for field in fields},
        "tensors": {
            tensor.name: [tensor.tensor_type.name, tensor.shape.tolist()[::-1], digest(tensor.data.tobytes())]
            for tensor in reader.tensors
        },
    }


def without_tokenizer(made: dict[str, Any]) -> dict[str, Any]:
    """The facts without keys of the tokenizer."""
    metadata = {key: value for key, value in made["metadata"].items() if not key.startswith("tokenizer.")}
    return made | {"metadata": metadata}


def digest(data: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def _short(value: Any) -> Any:
    return digest(json.dumps(value).encode()) if isinstance(value, list) and len(value) > 20 else value
