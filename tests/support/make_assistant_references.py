"""Compute what `transformers` makes of the assistant of `support.gemma_assistants`, in float64.

    python -m support.make_assistant_references SHARED    with the targets in SHARED/archs

Needs torch and transformers (made with torch 2.13.0 and transformers 5.24.0), which the tests that compare with the
results do not. The mask of `transformers` shows two more cells than a window has beside the row's own: the assistant
is given a window that is two shorter.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig

from support import gemma_assistants as assistant

_OF_TARGET = ("rms_norm_eps", "rope_parameters", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim")


def _model(given: dict[str, Any], keys: dict[str, Any]) -> Gemma4AssistantForCausalLM:
    *_, kv_heads = keys.get("attention.head_count_kv", [given["num_key_value_heads"]])
    text = Gemma4TextConfig(
        **{key: given[key] for key in _OF_TARGET},
        hidden_size=assistant.WIDTH,
        intermediate_size=assistant.FFN,
        num_hidden_layers=assistant.LAYERS,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        sliding_window=assistant.WINDOW - 2,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        num_kv_shared_layers=assistant.LAYERS,
        per_layer_config={"3": {"head_dim": 32, "num_key_value_heads": kv_heads}},
    )
    config = Gemma4AssistantConfig(text_config=text, backbone_hidden_size=assistant.TARGET_WIDTH)
    model = Gemma4AssistantForCausalLM(config).double()
    state = {
        assistant.checkpoint_name(name): torch.tensor(value).double() for name, value in assistant.tensors().items()
    }
    model.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]})
    return model.eval()


def _references(folder: Path) -> dict[str, Any]:
    """Those behind all LENGTHS over one target."""
    plain = {"attn_implementation": "eager", "experts_implementation": "eager"}
    target = Gemma4ForCausalLM.from_pretrained(folder, dtype=torch.float64, **plain).eval()
    model = _model(json.loads((folder / "config.json").read_text(encoding="utf-8")), assistant.TARGETS[folder.name])
    ids, rows = torch.tensor([assistant.IDS]), dict[str, Any]()
    for length in assistant.LENGTHS:
        given = target(ids[:, :length], output_hidden_states=True, return_shared_kv_states=True, use_cache=True)
        state, token = given.hidden_states[-1][:, -1:], ids[:, length : length + 1]
        logits, states = [], []
        for _ in range(assistant.DRAFTS):
            result = model(
                inputs_embeds=torch.cat([target.get_input_embeddings()(token), state], -1),
                position_ids=torch.tensor([[length]]),
                shared_kv_states=given.shared_kv_states,
                attention_mask=torch.ones(1, length + 1),
            )
            state, token = result.last_hidden_state, result.logits[:, -1:].argmax(-1)
            logits.append(result.logits[0, -1].numpy())
            states.append(state[0, -1].numpy())
        prefix = f"{folder.name}.{length}"
        rows |= {f"{prefix}.logits": np.array(logits), f"{prefix}.states": np.array(states)}
    return rows


def main() -> None:
    """Write those of all TARGETS."""
    rows = dict[str, Any]()
    with torch.no_grad():
        for name in assistant.TARGETS:
            rows |= _references(Path(sys.argv[1]) / "archs" / name)
    np.savez_compressed(assistant.ASSISTANT_REFERENCES, **rows)


if __name__ == "__main__":
    main()
