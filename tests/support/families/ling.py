"""Ling 2.0, which `transformers` does not have: its GLM-4 with experts computes the same from tensors of other names.

q, k and v are one matrix in Ling. `support.make_family_references` reads Ling's checkpoints as those of GLM-4.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from support.checkpoint_tokenizers import write_json

CLASS = "BailingMoeV2ForCausalLM"

_NAMES = {
    ".embed_tokens.": ".word_embeddings.",
    ".self_attn.o_proj.": ".attention.dense.",
    ".self_attn.q_norm.": ".attention.query_layernorm.",
    ".self_attn.k_norm.": ".attention.key_layernorm.",
    ".gate.e_score_correction_bias": ".gate.expert_bias",
    ".shared_head.norm.": ".final_layernorm.",
}
"""Parts of names: GLM's, and Ling's."""

_QKV = "self_attn.{}_proj.weight"
_FUSED = "attention.query_key_value.weight"


def as_glm(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the same model as GLM-4."""
    renamed = {"n_routed_experts": config["num_experts"], "n_shared_experts": config["num_shared_experts"]}
    kind = {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "attention_bias": False}
    return config | renamed | kind


def renamed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of GLM-4 under the names of Ling."""
    found = {}
    for name, tensor in tensors.items():
        if name.endswith(_QKV.format("q")):
            layer = name.removesuffix(_QKV.format("q"))
            found[f"{layer}{_FUSED}"] = torch.cat([tensors[f"{layer}{_QKV.format(x)}"] for x in "qkv"])
        elif not name.endswith((_QKV.format("k"), _QKV.format("v"))):
            theirs = next((part for part in _NAMES if part in name), "")
            found[name.replace(theirs, _NAMES[theirs]) if theirs else name] = tensor
    return found


def write_as_glm(folder: Path, config: dict[str, Any], target: Path) -> Path:
    """Write the checkpoint of Ling in `folder` as one of GLM-4 into `target`. Returns it."""
    glm, kv = as_glm(config), config["num_key_value_heads"] * config["head_dim"]
    found = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.endswith(_FUSED):
            parts = torch.split(tensor, [len(tensor) - 2 * kv, kv, kv])
            layer = name.removesuffix(_FUSED)
            found |= {f"{layer}{_QKV.format(x)}": part.contiguous() for x, part in zip("qkv", parts, strict=True)}
        else:
            theirs = next((glm_part for glm_part, part in _NAMES.items() if part in name), "")
            found[name.replace(_NAMES[theirs], theirs) if theirs else name] = tensor
    write_json(target / "config.json", glm)
    save_file(found, target / "model.safetensors", {"format": "pt"})
    return target
