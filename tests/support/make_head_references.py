"""Compute what `transformers` makes of the layers for multi-token prediction of fixtures, in float64.

    python -m support.make_head_references SHARED    those of SHARED/archs

Needs torch and transformers (made with torch 2.13.0 and transformers 5.24.0), which the tests that compare with the
results do not.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import DeepseekV3Config, Glm4MoeConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import MtpLayer
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.glm4_moe import modeling_glm4_moe as glm

from support.head_references import HEAD_REFERENCES, HeadReference

_CLASSES: dict[str, tuple[Any, Any, Any, Any]] = {
    "glm4_moe": (Glm4MoeConfig, glm.Glm4MoeDecoderLayer, glm.Glm4MoeRMSNorm, glm.Glm4MoeRotaryEmbedding),
    "deepseek_v3": (
        DeepseekV3Config,
        deepseek.DeepseekV3DecoderLayer,
        deepseek.DeepseekV3RMSNorm,
        deepseek.DeepseekV3RotaryEmbedding,
    ),
}
_PAIRS = 40


def _stacked(tensors: dict[str, torch.Tensor], experts: int) -> dict[str, torch.Tensor]:
    """The matrices of all experts as `transformers` has them: gate and up, and down, each in one tensor."""
    kept = {name: each for name, each in tensors.items() if ".experts." not in name}
    gate, up, down = (
        torch.stack([tensors[f"mlp.experts.{i}.{which}_proj.weight"] for i in range(experts)])
        for which in ("gate", "up", "down")
    )
    return kept | {"mlp.experts.gate_up_proj": torch.cat([gate, up], 1), "mlp.experts.down_proj": down}


def _layer(config: Any, name: str, tensors: dict[str, torch.Tensor]) -> MtpLayer:
    """The layer behind those of the model, with its weights."""
    _, decoder_layer, norm, _ = _CLASSES[name]
    prefix = f"model.layers.{config.num_hidden_layers}."
    own = {each.removeprefix(prefix): tensor for each, tensor in tensors.items() if each.startswith(prefix)}
    outer = {each: own.pop(f"{each}.weight") for each in ("enorm", "hnorm", "eh_proj", "shared_head.norm")}
    outer["post_norm"] = outer.pop("shared_head.norm")
    own = {each: tensor for each, tensor in own.items() if not each.startswith(("embed_tokens", "shared_head"))}
    state = {f"mtp_block.{each}": tensor for each, tensor in _stacked(own, config.n_routed_experts).items()}
    layer = MtpLayer(config, decoder_layer, norm, config.num_hidden_layers).double()
    layer.load_state_dict({f"{each}.weight": tensor for each, tensor in outer.items()} | state)
    return layer.eval()


def reference(folder: Path, name: str) -> HeadReference:
    """The states behind the layer for random pairs of features and tokens."""
    kind, *_, rotary = _CLASSES[name]
    given = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = kind(**given, attn_implementation="eager")
    tensors = {each: tensor.double() for each, tensor in load_file(folder / "model.safetensors").items()}
    rng = np.random.default_rng(7)
    ids, features = rng.integers(3, config.vocab_size, _PAIRS), rng.standard_normal((_PAIRS, config.hidden_size))
    rows = torch.tensor(features.astype(np.float32)).double()[None]
    embedded = tensors["model.embed_tokens.weight"][torch.tensor(ids)][None]
    positions = torch.arange(_PAIRS)[None]
    angles = rotary(config).double()(embedded, positions)
    mask = create_causal_mask(
        config=config, inputs_embeds=embedded, attention_mask=None, cache=None, position_ids=positions
    )
    with torch.no_grad():
        states = _layer(config, name, tensors)(embedded, rows, angles, mask, positions, None)
    return HeadReference(ids.astype(np.int32), features.astype(np.float32), states[0].numpy().astype(np.float32))


def main() -> None:
    """Write those of all fixtures."""
    torch.set_default_dtype(torch.float64)
    archs = Path(sys.argv[1]) / "archs"
    rows: dict[str, Any] = {}
    for name in _CLASSES:
        rows |= {f"{name}.{part}": each for part, each in reference(archs / name, name)._asdict().items()}
    np.savez_compressed(HEAD_REFERENCES, **rows)


if __name__ == "__main__":
    main()
